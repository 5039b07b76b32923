/* SPDX-License-Identifier: MIT */
/* The operator's log, as far as `level`, one of syslog's, is urgent enough. Allocates
 * nothing. */
#ifndef LW_LOG_H
#define LW_LOG_H
#include <stdint.h>

/* Causes of failures that were logged lately. So many that those of one outage, each with
 * the address of another server in its text, do not drive each other out. */
#define LW__CAUSES 64
struct lw__causes {
    struct lw__cause {
        uint64_t hash; /* of its text */
        int64_t last_us, logged_us;
        unsigned times; /* since it was logged */
    } list[LW__CAUSES];
};

struct lw__log {
    void (*fn)(int level, const char *message, void *arg);
    int level;
    void *arg;
    struct lw__causes *causes; /* or NULL: each failure is logged */
};
void lw__log(const struct lw__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs a failure that may repeat: at once if its text was not seen for a minute; else
 * once a minute, with how often it came since. `now_us` is of a clock that does not jump.
 */
void lw__log_cause(const struct lw__log *log, int64_t now_us, int level,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
#endif
