/* SPDX-License-Identifier: MIT */
/* The link's struct, shared by link.c and link_tls.c alone. */
#ifndef LW_LINK_PRIVATE_H
#define LW_LINK_PRIVATE_H
#include "base/escape.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/busy_poll.h"
#include "redis/link.h"
#include "redis/reader.h"
#include "redis/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* A command whose replies are pending. */
struct lw__pending {
    struct lw__pending *next;
    struct lw__request
        *request; /* NULL: forgotten, or the reply confirms a subscription */
    int64_t sent_us;
    unsigned remaining;    /* outstanding replies */
    unsigned unsubscribed; /* 1 + the slot whose channel SUNSUBSCRIBE leaves; else 0 */
};

struct lw__pending_list { /* oldest first */
    struct lw__pending *first, **end, *spare;
    size_t replies; /* outstanding, to all of them */
};

/* A channel that the link is subscribed to. */
struct lw__link_channel {
    struct lw__link_channel *older;
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
    unsigned refs;    /* functions that use it now */
    bool to_host;     /* not to a unix socket */
    bool connected;   /* the peer has accepted the connection */
    bool reported_up; /* `up` was called */
    bool subscribing; /* a SUBSCRIBE was sent: no other commands from then on */
    bool answered;    /* a reply has come */
    bool ended;       /* the peer has closed the connection */
    bool rejected;    /* see lw__link_is_rejected */

    redisAsyncContext *context; /* NULL once hiredis has freed it, or is about to */
    struct lw__tls *tls;        /* or NULL */
    struct lw__wire wire;
    struct lw__timer timer; /* for connecting; then for the oldest request */
    struct lw__deferred came_up, broken, overdue, end;
    struct lw__deferred more;     /* link_tls.c: more records to read */
    struct lw__deferred *silence; /* lw__link_options */
    uint32_t busy_poll_us;
    struct lw__busy_poll busy_poll;
    struct lw__deferred written; /* for busy_poll_us: after the writes of a turn */
    int64_t up_us;
    struct lw__pending_list pending;
    struct lw__link_channel *channels;

    char peer[112], why[LW_WHY_SIZE];
    struct lw__reader reader;
};

/* link.c */
/* Drops a reference taken by `refs++`; frees a closed link with the last one. */
void lw__link_unref(struct lw__link *link);
void lw__link_connected(struct lw__link *link); /* `up` follows */

/* link_tls.c */
/* Starts the handshake; called within hiredis' connect callback. */
void lw__link_tls_begin(struct lw__link *link);
#endif
