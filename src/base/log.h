/* SPDX-License-Identifier: MIT */
/* The operator's log: formats into a local buffer (no allocation, no stdio streams) and
 * calls the host's function if `level`, one of syslog's, is urgent enough. */
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
