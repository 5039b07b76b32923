/* SPDX-License-Identifier: MIT */
/* Time, timers, deferred calls, and the host's event loop that runs them. Outside this
 * directory only the hiredis adapter (redis/wire.c) uses libevent.
 *
 * Every callback from libevent first runs the timers that are due, so that deadlines are
 * checked before any reply or message is used. In a forked child of the process that
 * created the loop no callback does anything. */
#ifndef LW_LOOP_H
#define LW_LOOP_H
#include "base/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct event_base;
struct lw__loop;
struct lw__process_mark;

typedef void lw__call_fn(void *arg);

/* ---- the clock ---- */

#define LW__MS 1000 /* microseconds in a millisecond */

/* A monotonic clock. On Linux it also counts while the machine is suspended; lockwire
 * promises this of no other system. FreeBSD 13 calls a clock CLOCK_BOOTTIME that does not
 * count then. macOS derives CLOCK_MONOTONIC from the clock that can be set, but not
 * CLOCK_MONOTONIC_RAW. */
#if defined(__linux__)
#define LW__CLOCK CLOCK_BOOTTIME
#elif defined(__APPLE__)
#define LW__CLOCK CLOCK_MONOTONIC_RAW
#else
#define LW__CLOCK CLOCK_MONOTONIC
#endif

/* Returns the time that all times in the library are measured in. Cannot fail. */
static inline int64_t lw__now_us(void)
{
    struct timespec now;

    (void)clock_gettime(LW__CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000 + (uint32_t)now.tv_nsec / 1000;
}

/* Returns the time that was read for the present event, for lw_acquire or lw_release, or
 * for what precedes one callback of the host; lw__now_us if none was read, or it was
 * forgotten. Never later than now, so a time of sending may be taken from it. */
int64_t lw__loop_now_us(const struct lw__loop *loop);
/* Reads the time for lw__loop_now_us, until lw__loop_forget_time. Called by lw_acquire,
 * lw_release and lw__timer_catch_up. */
void lw__loop_read_time(struct lw__loop *loop);
/* Called at the end of these two, and before a callback of the host (deliver.c, its log
 * function), which may take long: lw__loop_now_us then reads the clock whenever it is
 * called. */
void lw__loop_forget_time(struct lw__loop *loop);

/* Returns the time of day, in us since 1970, which may be set at any moment: to be shown
 * only. */
static inline int64_t lw__now_wall_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + (uint32_t)now.tv_nsec / 1000;
}

/* ---- timers ---- */

/* A point in time at which a function is called. Embedded in its owner; must not be
 * copied, nor moved while it is set. */
struct lw__timer {
    struct lw__heap_node node; /* its key: the due time in us */
    uint32_t offset;           /* from the start of the owner */
    lw__call_fn *fn;
};

/* Makes room for `count` more timers, so that lw__timer_set cannot fail for them. Undo it
 * with lw__timer_unreserve when their owner is freed. Returns 0, or LW_ENOMEM. */
int lw__timer_reserve(struct lw__loop *loop, size_t count);
void lw__timer_unreserve(struct lw__loop *loop, size_t count);
/* Initializes a timer that calls `fn` with `owner`, the struct that it is embedded in. */
void lw__timer_init(struct lw__timer *timer, lw__call_fn *fn, void *owner);
/* Sets the timer, or moves it, to fire once at due_us or soon after; in the next turn of
 * the loop if that has passed. The timer is unset before its function is called. */
void lw__timer_set(struct lw__loop *loop, struct lw__timer *timer, int64_t due_us);
static inline bool lw__timer_is_set(const struct lw__timer *timer)
{
    return timer->node.slot != 0;
}
/* Unsets a timer that is set. */
void lw__timer_unset(struct lw__loop *loop, struct lw__timer *timer);
/* The same, if it is set. Inline, because mostly it is not. */
static inline void lw__timer_cancel(struct lw__loop *loop, struct lw__timer *timer)
{
    if (lw__timer_is_set(timer)) {
        lw__timer_unset(loop, timer);
    }
}
/* Returns when the timer fires, or INT64_MAX if it is not set. */
int64_t lw__timer_due_us(const struct lw__loop *loop, const struct lw__timer *timer);
/* Reads the time, and runs the timers that are due: for a chain of deferred calls, in
 * which time passes. */
void lw__timer_catch_up(struct lw__loop *loop);

/* ---- deferred calls ---- */

/* A call that the loop makes soon. Embedded in its owner. */
struct lw__deferred {
    struct lw__deferred *next, **prev; /* prev is NULL while it is not queued */
    lw__call_fn *fn;
    void *arg;
};

void lw__defer_init(struct lw__deferred *call, lw__call_fn *fn, void *arg);
/* For lw__defer: the call is not queued. */
void lw__defer_queue(struct lw__loop *loop, struct lw__deferred *call, bool late);
/* Queues the call, once: no effect while it is queued. If `late`, it is made after all
 * other calls of this turn: for writes, so that one turn makes one write. A call that is
 * queued by a deferred call is made in the loop's next turn, after I/O had its chance,
 * unless it is `late`. Cannot fail, and needs no memory. */
static inline void lw__defer(struct lw__loop *loop, struct lw__deferred *call, bool late)
{
    if (call->prev == NULL) {
        lw__defer_queue(loop, call, late);
    }
}
void lw__defer_cancel(struct lw__loop *loop, struct lw__deferred *call);
/* Returns true if the loop has a deferred call to make. */
bool lw__loop_has_calls(const struct lw__loop *loop);

/* A call for a time-out, made after the loop has read all input that had arrived by then:
 * a reply that only waits because the loop stalled still counts. Embedded in its owner.
 */
struct lw__late_check {
    struct lw__deferred call;
    struct lw__loop *loop;
    bool polled; /* the loop has had its chance to read */
    lw__call_fn *fn;
    void *arg;
};

void lw__late_check_init(struct lw__late_check *check, lw__call_fn *fn, void *arg);
/* Starts the check, or starts it again. */
void lw__late_check_start(struct lw__loop *loop, struct lw__late_check *check);
void lw__late_check_cancel(struct lw__loop *loop, struct lw__late_check *check);

/* ---- the loop ---- */

/* Returns 0, or LW_ENOMEM. */
int lw__loop_new(struct event_base *base, struct lw__loop **ret);
/* Frees the loop. All links and resolutions must have been freed; timers and deferred
 * calls that are still set are forgotten. Allowed in any callback of the loop, and in a
 * forked child. NULL is fine. */
void lw__loop_free(struct lw__loop *loop);
struct event_base *lw__loop_base(struct lw__loop *loop);
/* Sets the libevent priority of the loop's events; the default is 0, the most urgent.
 * Links take it over when they are created. Returns 0, or LW_EINVAL if the base has fewer
 * priorities. */
int lw__loop_set_priority(struct lw__loop *loop, int priority);
int lw__loop_priority(const struct lw__loop *loop);
/* Returns how many priorities the base has. */
int lw__loop_priorities(const struct lw__loop *loop);

/* lw__loop_enter and lw__loop_leave enclose everything that is called by an event of
 * another module. lw__loop_enter runs the timers that are due, which may free the caller.
 * It returns false if the loop itself was freed; then lw__loop_leave must not be called.
 */
bool lw__loop_enter(struct lw__loop *loop);
/* Enters the same event once more without running timers. */
void lw__loop_enter_again(struct lw__loop *loop);
void lw__loop_leave(struct lw__loop *loop);

/* Returns the mark of the process that created the loop; valid as long as the loop. */
const struct lw__process_mark *lw__loop_process(const struct lw__loop *loop);
/* Returns true in a forked child of that process that may share the kernel's set of
 * watched descriptors with its parent, where what libevent has registered must not be
 * deleted. */
bool lw__loop_shares_set(const struct lw__loop *loop);
/* Called first in each callback from libevent. Returns true in a forked child, where the
 * callback must do nothing else: the loop may have been freed. */
bool lw__loop_skips(struct lw__loop *loop);
/* `fn` is called once in a forked child that dispatches the base, to free the loop and
 * everything that uses it. */
void lw__loop_on_child(struct lw__loop *loop, lw__call_fn *fn, void *arg);

/* Returns the path of the file that names the DNS servers, /etc/resolv.conf. Tests set
 * another one. */
const char **lw__loop_resolv_conf(struct lw__loop *loop);
#endif
