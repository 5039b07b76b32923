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
struct reach;

struct reach_events {
    void (*up)(struct reach *reach); /* the link came up */
    /* It went down, or a try failed; NULL: that ends it. */
    void (*down)(struct reach *reach, const char *why);
};

struct reach {
    const struct options *options;
    const struct reach_events *events;
    void *arg;
    struct event_base *base;
    struct lw_client *client;
    int code;
    int ending;
    int connected;    /* once; what comes after is an outage */
    int warns;        /* the caller's: warnings of the library are written, too */
    int warned;       /* one was */
    int64_t asked_ms; /* when reach_look was called last, by system_now_ms */
    char error[300];  /* what the library says was wrong with a call */
};

/* Runs until reach_end, or there is no connection. The exit code; everything was said. */
int reach(const struct options *options, const struct reach_events *events,
          const char *client_name, void *arg);
/* For callers that need the loop before the link is up: reach() in three steps. */
int reach_open(struct reach *reach, const char *client_name); /* 0, or the code */
int reach_run(struct reach *reach);
void reach_close(struct reach *reach);

/* Asks who holds NAME, with lw_inspect; if that is refused it ends. */
void reach_look(struct reach *reach, lw_inspect_cb *done, void *arg);
/* The master that sentinels lead to; NULL: there are none. */
const struct lw_master *reach_master(const struct reach *reach, struct lw_master *ret);
void reach_end(struct reach *reach, int code);
/* Ends it after a call that was refused, or a callback with this status. */
void reach_fail(struct reach *reach, int status, const char *why);

#endif
