/* SPDX-License-Identifier: MIT */
/* The log for the operator, through the host's log function. Entries less urgent than
 * `level`, one of syslog's, are dropped. Allocates nothing. */
#ifndef LW_LOG_H
#define LW_LOG_H
#include <stdbool.h>
#include <stdint.h>

/* The failures that were logged recently. One outage may log one failure per server, each
 * with another address in its text: the table is large enough to remember them all. */
#define LW__CAUSES 64
struct lw__causes {
    struct lw__cause {
        uint64_t hash; /* of the text */
        int64_t last_us, logged_us;
        unsigned times; /* repetitions since it was logged */
    } list[LW__CAUSES];
};

struct lw__log {
    void (*fn)(int level, const char *message, void *arg);
    int level;
    void *arg;
    struct lw__causes *causes; /* NULL: every failure is logged */
    const char *about; /* each entry begins with it and ": "; NULL: with neither */
};
/* Logs an entry; all foreign text in it is escaped, and an entry that is too long is cut.
 */
void lw__log(const struct lw__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs an entry unless *logged, which it sets. */
void lw__log_once(const struct lw__log *log, bool *logged, int level, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
/* Logs a failure that may repeat: at once if its text has not occurred for a minute,
 * otherwise once a minute, with the number of repetitions. `now_us` is the time of a
 * monotonic clock. */
void lw__log_cause(const struct lw__log *log, int64_t now_us, int level,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
#endif
