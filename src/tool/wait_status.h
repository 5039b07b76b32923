/* SPDX-License-Identifier: MIT */
/* The display during the wait for a lock: how long it has lasted, the place in the queue,
 * the holder, and the rest of its lease. On a terminal it is one line, which is erased at
 * the end; otherwise, with --verbose, a line for each change.
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
    const char *client_name; /* the one of `client` */
    struct lw_client *client;
    const struct lw_all *all; /* with --and, else NULL */
    struct event *timer;      /* the next look; NULL if nothing is displayed */
    bool terminal;
    bool active; /* between begin and end */
    bool query_pending;
    bool guard_reported; /* since the wait began */
    int64_t started_ms;
    char last_line[1500]; /* of --verbose */
};

/* Returns 0, or -1 if there is no memory. */
int wait_status_open(struct wait_status *display, struct event_base *base,
                     const struct options *options, const char *client_name);
void wait_status_begin(struct wait_status *display, struct lw_client *client);
/* Called by lock_session.c when the link is up and the lock is not held. Reports the rest
 * of the guard time, unless the wait ends before it or the line in the terminal shows it.
 */
void wait_status_guard(struct wait_status *display, struct lw_client *client);
/* Erases the line. Further calls have no effect. */
void wait_status_end(struct wait_status *display);
/* Also for a struct of zeros. */
void wait_status_close(struct wait_status *display);

#endif
