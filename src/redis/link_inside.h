/* SPDX-License-Identifier: MIT */
/* Between link.c, link_open.c, link_tls.c and link_subscribe.c alone: a link from inside.
 * Who calls what may close the link does so between lw__link_enter and lw__link_leave. */
#ifndef LW_LINK_INSIDE_H
#define LW_LINK_INSIDE_H
#include "base/escape.h"
#include "loop/loop.h"
#include "redis/awaited.h"
#include "redis/guard.h"
#include "redis/link.h"
#include "redis/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* What a link listens to, each channel once. */
struct lw__channel {
    struct lw__channel *older;
    char name[];
};

enum lw__link_state {
    LW__LINK_CONNECTING,
    LW__LINK_UP,
    LW__LINK_FAILED,
    LW__LINK_CLOSED
};

struct lw__link {
    struct lw__loop *loop;
    struct lw__link_events events;
    void *arg;
    uint32_t connect_timeout_ms, request_timeout_ms;
    enum lw__link_state state;
    unsigned entered;
    bool to_host, connected, told_up, listening, answered, ended, rejected;

    redisAsyncContext *context; /* NULL: hiredis has freed it, or was told to */
    struct lw__tls *tls;        /* NULL: none */
    struct lw__wire wire;
    struct lw__timer timer; /* connecting; then the oldest request, or earlier */
    struct lw__deferred came_up, broken, overdue, end;
    struct lw__deferred more; /* link_tls.c's */
    int64_t up_us;
    struct lw__awaited awaited;
    struct lw__channel *channels; /* link_subscribe.c's */

    char peer[112], why[LW__WHY_MAX];
    struct lw__guard guard;
};

/* link.c */
/* Not connecting yet. NULL: no memory. */
struct lw__link *lw__link_new(struct lw__loop *loop,
                              const struct lw__link_options *options,
                              const struct lw__link_events *events, void *arg);
void lw__link_destroy(struct lw__link *link); /* its memory */
bool lw__link_is_open(const struct lw__link *link);
/* lw__link_fail with what was done, with whom, and why it did not go. */
void lw__link_fail_doing(struct lw__link *link, const char *what, const char *error);
/* Around what hiredis calls for a reply. NULL: the link has gone, as it may when timers
 * run that were due before the reply: once for all of a read. */
struct lw__link *lw__link_enter(const redisAsyncContext *context, const void *reply);
void lw__link_leave(struct lw__link *link);
/* After `entered++`, around anything else that may close it. */
void lw__link_let_go(struct lw__link *link);
void lw__link_connected(struct lw__link *link); /* `up` follows */
void lw__link_tell_up(struct lw__link *link);   /* unless that was told, or is over */
/* From now on an answer is awaited, in time. `request` NULL: a confirmation. */
void lw__link_sent(struct lw__link *link, struct lw__request *request, unsigned replies);
void lw__link_arm(struct lw__link *link); /* the time-out of the oldest, if any */

/* link_tls.c */
void lw__link_tls_begin(struct lw__link *link); /* within hiredis' connect callback */
#endif
