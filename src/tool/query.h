/* SPDX-License-Identifier: MIT */
/* The common part of status, list, yield, break, release, doctor and watch: a client with
 * an event loop of its own, a question when the link is up, an exit code. Independent of
 * the question.
 *
 * query() calls `up`, whose callback calls query_end; query() returns the exit code. A
 * first connection that the server refuses ends it, and so does one that is not made
 * within --connect-timeout; other failures call `down`, except that failed attempts to
 * connect are repeated for the time of a --connect-timeout that was given. */
#ifndef LW_TOOL_QUERY_H
#define LW_TOOL_QUERY_H
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>

struct options;
struct query;

struct query_events {
    void (*up)(struct query *query);
    /* The link went down, or an attempt to connect failed. NULL if that ends the query.
     */
    void (*down)(struct query *query, const char *why);
    /* Gets the library's log, up to LOG_INFO. NULL if it is reported. */
    void (*log)(struct query *query, int level, const char *message);
};

struct query {
    /* Set by the caller; the rest is zeros. */
    const struct options *options;
    const struct query_events *events;
    void *arg;
    bool show_warnings; /* the library's warnings are reported, too */
    bool tolerant;      /* a permanent refusal goes to `down` as any other failure */
    bool silent;        /* a failure ends the query, and is left in `error` */
    int64_t default_guard_ms; /* of clients without an option, if there is no record */
    struct event_base *base;
    struct lw_client *client;
    int code;
    bool ending;
    bool connected;          /* at least once; a later failure is an outage */
    bool warned;             /* a message of the library has been reported */
    int64_t sent_ms;         /* the time of the last query_inspect */
    char error[LW_WHY_SIZE]; /* the library's explanation of an invalid call; if silent,
                              * also the reason of a failure */
};

/* Runs until query_end or a failure. Returns the exit code; failures are reported. */
int query(struct query *query, const char *client_name);
/* For callers that need the loop before the link is up: query() in three steps.
 * query_open returns 0, or the exit code. */
int query_open(struct query *query, const char *client_name);
int query_run(struct query *query);
void query_close(struct query *query);
/* Returns 0 if the library accepts the URL and the options of a quorum, whose servers are
 * asked by URLs of their own; else reports why, and returns the exit code. */
int query_check(const struct options *options);

/* Calls lw_inspect for NAME; ends the query if the call is refused. */
void query_inspect(struct query *query, lw_inspect_cb *done, void *arg);
/* Returns the master that the sentinels report, or NULL if there are no sentinels. */
const struct lw_master *query_master(const struct query *query, struct lw_master *ret);
/* What the guard means for a client with these options, by the server's record, which a
 * client of status reads when it connects. */
struct query_guard {
    int64_t time_ms; /* of the record, or else of the options; 0: no guard */
    int64_t own_ms;  /* of the options; 0: none */
    int64_t left_ms; /* for how long no lock is granted */
    bool refused;    /* as long as the record stays: it has another time */
};
struct query_guard query_guard(const struct query *query);
/* Returns the exit code for a lock that is not held. */
int query_free_code(const struct query_guard *guard);
void query_end(struct query *query, int code);
/* Reports that the link is down, with the class of the reason, and ends the query. */
void query_fail_link(struct query *query, const char *why);
/* Reports a call or a callback with this status, and ends the query. */
void query_fail(struct query *query, int status, const char *why);

#endif
