/* SPDX-License-Identifier: MIT */
/* The common part of status, list, break and watch: a client with an event loop of its
 * own, a question when the link is up, an exit code. Independent of the question.
 *
 * query() calls `up`, whose callback calls query_end; query() returns the exit code. A
 * first connection that the server refuses ends it; later failures call `down`. */
#ifndef LW_TOOL_QUERY_H
#define LW_TOOL_QUERY_H
#include "lockwire.h"

#include <stdint.h>

struct options;
struct query;

struct query_events {
    void (*up)(struct query *query); /* the link came up */
    /* It went down, or a try failed; NULL: that ends it. */
    void (*down)(struct query *query, const char *why);
};

struct query {
    const struct options *options;
    const struct query_events *events;
    void *arg;
    struct event_base *base;
    struct lw_client *client;
    int code;
    int ending;
    int connected;     /* once; what comes after is an outage */
    int show_warnings; /* the caller's: warnings of the library are written, too */
    int warned;        /* one was */
    int64_t sent_ms;   /* when query_inspect was called last, by system_now_ms */
    char error[300];   /* what the library says was wrong with a call */
};

/* Runs until query_end, or there is no connection. The exit code; everything was said. */
int query(const struct options *options, const struct query_events *events,
          const char *client_name, void *arg);
/* For callers that need the loop before the link is up: reach() in three steps. */
int query_open(struct query *query, const char *client_name); /* 0, or the code */
int query_run(struct query *query);
void query_close(struct query *query);

/* Asks who holds NAME, with lw_inspect; if that is refused it ends. */
void query_inspect(struct query *query, lw_inspect_cb *done, void *arg);
/* The master that sentinels lead to; NULL: there are none. */
const struct lw_master *query_master(const struct query *query, struct lw_master *ret);
void query_end(struct query *query, int code);
/* Ends it after a call that was refused, or a callback with this status. */
void query_fail(struct query *query, int status, const char *why);

#endif
