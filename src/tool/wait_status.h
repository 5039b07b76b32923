/* SPDX-License-Identifier: MIT */
/* What is displayed while a lock is waited for: the place in the queue, for how long, the
 * holder, and the rest of its lease. On a terminal it is one line, which is erased at the
 * end; otherwise, with --verbose, a line for each change.
 *
 * wait_status_open; wait_status_begin when the lock has been requested; wait_status_end
 * when it is held or given up; wait_status_close. */
#ifndef LW_TOOL_WAIT_STATUS_H
#define LW_TOOL_WAIT_STATUS_H
#include <stdbool.h>
#include <stdint.h>

struct event;
struct event_base;
struct lw_all;
struct lw_client;
struct options;

struct wait_status {
    const struct options *options;
    const char *client_name; /* that of `client` */
    struct lw_client *client;
    const struct lw_all *all; /* of --and; or NULL */
    struct event *timer;      /* the next look; NULL: nothing is to be shown */
    bool terminal;
    bool active;          /* and not ended */
    bool query_pending;   /* a look is not answered yet */
    int64_t started_ms;   /* by system_now_ms */
    char last_line[1500]; /* the last line of those for changes */
};

/* 0, or -1: no memory. */
int wait_status_open(struct wait_status *wait_status, struct event_base *base,
                     const struct options *options, const char *client_name);
void wait_status_begin(struct wait_status *wait_status, struct lw_client *client);
/* Erases what stands there. More than once is fine. */
void wait_status_end(struct wait_status *wait_status);
/* A struct of zeros is fine. */
void wait_status_close(struct wait_status *wait_status);

#endif
