/* SPDX-License-Identifier: MIT */
/* Points in time at which a function is called, from the loop. */
#ifndef LW_TIMER_H
#define LW_TIMER_H
#include "base/heap.h"
#include "loop/defer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A point in time; embedded in its owner, to whom it is that far. Not copied, not moved
 * while set. */
struct lw__timer {
    struct lw__heap_node node; /* its key: due, in us */
    uint32_t offset;
    lw__call_fn *fn;
};

/* Makes room for `count` more timers, so that lw__timer_set can never fail for them; to
 * be undone with lw__timer_unreserve when their owner goes. 0, LW_ENOMEM. */
int lw__timer_reserve(struct lw__loop *loop, size_t count);
void lw__timer_unreserve(struct lw__loop *loop, size_t count);
/* `fn` is called with `owner`, the struct that it is embedded in. */
void lw__timer_init(struct lw__timer *timer, lw__call_fn *fn, void *owner);
/* (Re)sets the timer to fire once at due_us or soon after; a time in the past: next turn.
 * It is unset before its function runs. */
void lw__timer_set(struct lw__loop *loop, struct lw__timer *timer, int64_t due_us);
void lw__timer_cancel(struct lw__loop *loop, struct lw__timer *timer);
bool lw__timer_is_set(const struct lw__timer *timer);
/* INT64_MAX: not set. */
int64_t lw__timer_due_us(const struct lw__loop *loop, const struct lw__timer *timer);

/* Runs those that are due now; for a chain of deferred calls, in which time passes. */
void lw__timer_catch_up(struct lw__loop *loop);
#endif
