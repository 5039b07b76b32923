/* SPDX-License-Identifier: MIT */
/* The operator's log, as far as `level`, one of syslog's, is urgent enough. Allocates
 * nothing. */
#ifndef LW_LOG_H
#define LW_LOG_H
struct lw__log {
    void (*fn)(int level, const char *message, void *arg);
    int level;
    void *arg;
};
void lw__log(const struct lw__log *log, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#endif
