/* SPDX-License-Identifier: MIT */
/* Timers. Must not know what is timed. Happy path: reserve, set; one descriptor of the
 * kernel's is armed for a time that is never later than the earliest one set, so that
 * most settings cost no system call; a wake-up that finds nothing due arms it anew.
 * libevent's own timer, which is late after long callbacks, stands in where the kernel
 * has no such descriptor, and looks again soon where it finds no memory. */
#include "loop/timer.h"

#include "base/owner.h"
#include "lockwire.h"
#include "loop/loop_inside.h"
#include "loop/now.h"

#include <unistd.h>
#ifdef HAVE_TIMERFD
#include <sys/timerfd.h>
#endif

#define SECOND_US INT64_C(1000000)
/* Without a kernel timer: something must keep the host's loop alive. */
#define IDLE_US (INT64_C(3600) * SECOND_US)

static void arm_event(struct lw__loop *loop, int64_t due_us)
{
    int64_t now_us = lw__now_us();
    int64_t delay = due_us > now_us ? due_us - now_us : 0;
    struct timeval tv;

    if (delay > IDLE_US) {
        delay = IDLE_US;
    }
    tv.tv_sec = (time_t)(delay / SECOND_US);
    tv.tv_usec = (suseconds_t)(delay % SECOND_US);
    if (event_add(loop->timer_event, &tv) < 0) {
        event_active(loop->timer_event, EV_TIMEOUT, 0); /* no memory: look again soon */
    }
}

static void arm(struct lw__loop *loop, int64_t due_us)
{
    loop->armed_us = due_us;
#ifdef HAVE_TIMERFD
    if (loop->timer_fd >= 0) {
        int64_t at = due_us > 0 ? due_us : 1; /* 0 would disarm */
        struct itimerspec when = {
            .it_value = {(time_t)(at / SECOND_US), (long)(at % SECOND_US) * 1000}};
        if (due_us != INT64_MAX) {
            (void)timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
        }
        return;
    }
#endif
    arm_event(loop, due_us);
}

static void run_due(struct lw__loop *loop, int64_t now_us)
{
    const struct lw__heap_entry *first;

    loop->running_us = now_us;
    while (!loop->freed && (first = lw__heap_first(&loop->timers)) != NULL &&
           first->key <= now_us) {
        struct lw__timer *timer = LW__OWNER(struct lw__timer, node, first->node);
        lw__heap_remove(&loop->timers, &timer->node);
        timer->fn((char *)timer - timer->offset);
    }
    loop->running_us = INT64_MIN; /* it is armed for one of these: on_timer looks anew */
}

void lw__timer_catch_up(struct lw__loop *loop)
{
    const struct lw__heap_entry *first = lw__heap_first(&loop->timers);
    int64_t now_us;

    if (first == NULL || loop->running_us != INT64_MIN) {
        return;
    }
    now_us = lw__now_us();
    if (first->key <= now_us) {
        run_due(loop, now_us);
    }
}

void lw__timer_arm_next(struct lw__loop *loop)
{
    const struct lw__heap_entry *first = lw__heap_first(&loop->timers);

    arm(loop, first != NULL ? first->key : INT64_MAX);
}

int lw__timer_reserve(struct lw__loop *loop, size_t count)
{
    return lw__heap_reserve(&loop->timers, count);
}

void lw__timer_unreserve(struct lw__loop *loop, size_t count)
{
    lw__heap_unreserve(&loop->timers, count);
}

void lw__timer_init(struct lw__timer *timer, lw__call_fn *fn, void *owner)
{
    size_t offset = (size_t)((char *)timer - (char *)owner);

    *timer = (struct lw__timer){{0}, (uint32_t)offset, fn};
}

void lw__timer_set(struct lw__loop *loop, struct lw__timer *timer, int64_t due_us)
{
    if (loop->running_us != INT64_MIN) { /* armed for an earlier one, see on_timer */
        /* Not in this turn, or one that sets itself would never let the loop go on. */
        lw__heap_set(&loop->timers, &timer->node,
                     due_us > loop->running_us ? due_us : loop->running_us + 1);
        return;
    }
    lw__heap_set(&loop->timers, &timer->node, due_us);
    if (due_us < loop->armed_us) {
        arm(loop, due_us);
    }
}

void lw__timer_cancel(struct lw__loop *loop, struct lw__timer *timer)
{
    lw__heap_remove(&loop->timers, &timer->node);
}

bool lw__timer_is_set(const struct lw__timer *timer)
{
    return timer->node.slot != 0;
}

int64_t lw__timer_due_us(const struct lw__loop *loop, const struct lw__timer *timer)
{
    return lw__timer_is_set(timer) ? lw__heap_key(&loop->timers, &timer->node)
                                   : INT64_MAX;
}

int lw__timer_open(struct lw__loop *loop, event_callback_fn on_timer)
{
    short what = 0;

    loop->armed_us = INT64_MAX;
    loop->running_us = INT64_MIN;
    loop->timer_fd = -1;
#ifdef HAVE_TIMERFD
    loop->timer_fd = timerfd_create(LW__CLOCK, TFD_NONBLOCK | TFD_CLOEXEC);
#endif
    if (loop->timer_fd >= 0) {
        what = EV_READ | EV_PERSIST;
    }
    loop->timer_event = event_new(loop->base, loop->timer_fd, what, on_timer, loop);
    if (loop->timer_event == NULL) {
        return LW_ENOMEM;
    }
    if (loop->timer_fd >= 0) {
        return event_add(loop->timer_event, NULL) < 0 ? LW_ENOMEM : 0;
    }
    arm_event(loop, INT64_MAX);
    return 0;
}

void lw__timer_close(struct lw__loop *loop)
{
    if (loop->timer_fd >= 0) {
        (void)close(loop->timer_fd);
    }
}
