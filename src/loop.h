/* SPDX-License-Identifier: MIT */
/*
 * The host's event loop as the rest of the library sees it: a clock, timers, deferred
 * calls, names. Knows nothing of locks or Redis. loop.c and lookup.c are the only users of
 * libevent but the link's adapter (wire.c).
 *
 * Every entry from libevent (timer, reply, deferred calls, by one of which a resolver's answer
 * is told) first runs the timers that are due, so that deadlines are looked at before anything
 * is believed. Happy path: lw__loop_new, lw__timer_set / lw__defer, lw__loop_free.
 */
#ifndef LW_LOOP_H
#define LW_LOOP_H
#include "address.h"
#include "heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct lw__loop;
struct lw__lookup;

typedef void lw__call_fn(void *arg);

/* Microseconds of CLOCK_BOOTTIME (CLOCK_MONOTONIC where that does not exist). */
int64_t lw__now_us(void);

/* A point in time; embedded in its owner. Not copied, not moved while set. */
struct lw__timer {
    struct lw__heap_node node; /* first; its key: due, in us */
    lw__call_fn *fn;
    void *arg;
};

/* A call to make soon from the loop, never from within the caller; embedded in its
 * owner. */
struct lw__deferred {
    struct lw__deferred *next, **prev; /* prev NULL: not queued */
    lw__call_fn *fn;
    void *arg;
};

int lw__loop_new(struct event_base *base, struct lw__loop **ret); /* 0, LW_ENOMEM */
struct event_base *lw__loop_base(struct lw__loop *loop);
/* Around what is called by an event that is not the loop's own: runs the timers that are due,
 * which may free the caller. False: the loop itself is gone, and is not left. */
bool lw__loop_enter(struct lw__loop *loop);
/* The same for what follows in that event, and at once: no timer runs. */
void lw__loop_enter_again(struct lw__loop *loop);
void lw__loop_leave(struct lw__loop *loop);
/* All links and lookups must be gone; timers and deferred calls still set are
 * forgotten. May be called from any callback of the loop. NULL is fine. */
void lw__loop_free(struct lw__loop *loop);
/* Runs the timers that are due now; for use inside a chain of deferred calls, in which
 * time passes. */
void lw__loop_catch_up(struct lw__loop *loop);
/* In a forked child, in place of lw__loop_free: the same, without touching what the parent's
 * kernel objects know (epoll is shared), before or after the child's event_reinit. Only
 * a look-up under way is left to the child's base. */
void lw__loop_abandon(struct lw__loop *loop);

/* Makes room for `count` more timers, so that lw__timer_set can never fail for them; to
 * be undone with lw__loop_unreserve when their owner goes. 0, LW_ENOMEM. */
int lw__loop_reserve(struct lw__loop *loop, size_t count);
void lw__loop_unreserve(struct lw__loop *loop, size_t count);
void lw__timer_init(struct lw__timer *timer, lw__call_fn *fn, void *arg);
/* (Re)sets the timer to fire once at due_us or soon after; a time in the past: next turn.
 * It is unset before its function runs. */
void lw__timer_set(struct lw__loop *loop, struct lw__timer *timer, int64_t due_us);
void lw__timer_cancel(struct lw__loop *loop, struct lw__timer *timer);
bool lw__timer_is_set(const struct lw__timer *timer);
/* INT64_MAX: not set. */
int64_t lw__timer_due_us(const struct lw__loop *loop, const struct lw__timer *timer);

void lw__deferred_init(struct lw__deferred *call, lw__call_fn *fn, void *arg);
/* Queues the call once (again: no effect while queued). `late`: after all others of this
 * turn, for writes, so that one turn makes one write. A call queued while deferred calls
 * run is made in the loop's next turn, after I/O had its chance; a late one still in this
 * turn. Never fails, needs no memory. */
void lw__defer(struct lw__loop *loop, struct lw__deferred *call, bool late);
void lw__defer_cancel(struct lw__loop *loop, struct lw__deferred *call);

/* Resolves a host name (evdns, never blocking; numeric addresses and /etc/hosts too) to
 * addresses, in order of preference; or to none, and why. Within `patience_ms`, of which a
 * name server is given 20 at least, each has been asked once. Calls back once, from the
 * loop, never from within; the lookup is gone then, the addresses when the call returns. */
typedef void lw__lookup_fn(void *arg, const struct lw__addresses *addresses,
                           const char *why);
int lw__lookup_new(struct lw__loop *loop, const char *host, uint32_t patience_ms,
                   lw__lookup_fn *fn, void *arg, struct lw__lookup **ret);
void lw__lookup_cancel(struct lw__lookup *lookup); /* no callback any more; NULL is fine */
void lw__lookup_abandon(struct lw__lookup *lookup); /* the same in a forked child */
#endif
