/* SPDX-License-Identifier: MIT */
/*
 * Clock, timers and deferred calls on the host's libevent loop. Knows nothing of what is
 * timed or deferred.
 *
 * Happy path: every entry from libevent (on_timer, on_calls, a link's reply) goes through
 * lw__loop_enter, which runs the timers that are due, and lw__loop_leave. Any function
 * called in between may free what it was called for, or the loop: a freed loop's memory
 * goes in lw__loop_leave. Timers: one descriptor of the kernel's, armed for a time that
 * is never later than the earliest one set, so that most settings cost no system call; a
 * wake-up that finds nothing due arms it anew. libevent's own timer, which is late after
 * long callbacks, stands in where the kernel has no such descriptor.
 */
#include "loop.h"

#include "lockwire.h"
#include "lookup.h"

#include <event2/event.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_TIMERFD
#include <sys/timerfd.h>
#endif

#ifdef CLOCK_BOOTTIME
#define CLOCK CLOCK_BOOTTIME
#else
#define CLOCK CLOCK_MONOTONIC
#endif

#define SECOND_US INT64_C(1000000)
/* Without a kernel timer, the longest sleep; something must keep the host's loop
 * alive. */
#define IDLE_US (INT64_C(3600) * SECOND_US)

struct calls {
    struct lw__deferred *first, **end;
};

struct lw__loop {
    struct event_base *base;
    struct lw__resolver resolver;

    struct lw__heap timers;
    int timer_fd; /* -1: libevent's timer */
    struct event *timer_event;
    int64_t armed_us;   /* INT64_MAX: not armed */
    int64_t running_us; /* what the timers that run take for now; INT64_MIN: none runs */

    struct event *call_event;
    struct calls calls, late, running;
    bool calling, woken; /* on_calls runs; call_event has been made active */

    unsigned depth;
    bool freed;
};

int64_t lw__now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK, &now);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

void lw__loop_leave(struct lw__loop *loop)
{
    loop->depth--;
    if (loop->depth == 0 && loop->freed) {
        free(loop);
    }
}

bool lw__loop_enter(struct lw__loop *loop)
{
    loop->depth++;
    lw__loop_catch_up(loop);
    if (loop->freed) {
        lw__loop_leave(loop);
        return false;
    }
    return true;
}

void lw__loop_enter_again(struct lw__loop *loop)
{
    loop->depth++;
}

/* Timers */

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

void lw__loop_catch_up(struct lw__loop *loop)
{
    const struct lw__heap_entry *first = lw__heap_first(&loop->timers);
    int64_t now_us;

    if (first == NULL || loop->running_us != INT64_MIN) {
        return;
    }
    now_us = lw__now_us();
    if (first->key > now_us) {
        return;
    }
    loop->running_us = now_us;
    while (!loop->freed && (first = lw__heap_first(&loop->timers)) != NULL &&
           first->key <= now_us) {
        struct lw__timer *timer = (struct lw__timer *)(void *)first->node;
        lw__heap_remove(&loop->timers, &timer->node);
        timer->fn(timer->arg);
    }
    loop->running_us = INT64_MIN; /* it is armed for one of these: on_timer looks anew */
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;
    const struct lw__heap_entry *first;
    uint64_t expirations;

    (void)what;
    if (loop->freed) {
        return; /* abandoned */
    }
    if (fd >= 0) {
        ssize_t ignored = read(fd, &expirations, sizeof(expirations));
        (void)ignored;
    }
    if (!lw__loop_enter(loop)) {
        return;
    }
    first = lw__heap_first(&loop->timers);
    arm(loop, first != NULL ? first->key : INT64_MAX);
    lw__loop_leave(loop);
}

int lw__loop_reserve(struct lw__loop *loop, size_t count)
{
    return lw__heap_reserve(&loop->timers, count);
}

void lw__loop_unreserve(struct lw__loop *loop, size_t count)
{
    lw__heap_unreserve(&loop->timers, count);
}

void lw__timer_init(struct lw__timer *timer, lw__call_fn *fn, void *arg)
{
    *timer = (struct lw__timer){{0}, fn, arg};
}

void lw__timer_set(struct lw__loop *loop, struct lw__timer *timer, int64_t due_us)
{
    if (loop->running_us != INT64_MIN) { /* armed for an earlier one, see on_timer */
        /* Not in this turn, or a timer that sets itself would never let the loop go
         * on. */
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

/* Deferred calls */

static void calls_init(struct calls *calls)
{
    calls->first = NULL;
    calls->end = &calls->first;
}

static void calls_add(struct calls *calls, struct lw__deferred *call)
{
    call->next = NULL;
    call->prev = calls->end;
    *calls->end = call;
    calls->end = &call->next;
}

static void calls_move(struct calls *from, struct calls *to)
{
    struct lw__deferred *call;

    while ((call = from->first) != NULL) {
        from->first = call->next;
        calls_add(to, call);
    }
    from->end = &from->first;
}

void lw__deferred_init(struct lw__deferred *call, lw__call_fn *fn, void *arg)
{
    *call = (struct lw__deferred){NULL, NULL, fn, arg};
}

void lw__defer_cancel(struct lw__loop *loop, struct lw__deferred *call)
{
    struct calls *lists[] = {&loop->calls, &loop->late, &loop->running};

    if (call->prev == NULL) {
        return;
    }
    *call->prev = call->next;
    if (call->next != NULL) {
        call->next->prev = call->prev;
    } else {
        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            if (lists[i]->end == &call->next) {
                lists[i]->end = call->prev;
            }
        }
    }
    call->prev = NULL;
}

void lw__defer(struct lw__loop *loop, struct lw__deferred *call, bool late)
{
    if (call->prev != NULL) {
        return;
    }
    calls_add(late ? &loop->late : &loop->calls, call);
    if (!loop->calling && !loop->woken) {
        loop->woken = true;
        event_active(loop->call_event, EV_TIMEOUT, 0);
    }
}

static void run_calls(struct lw__loop *loop, struct calls *calls)
{
    struct lw__deferred *call;

    while (!loop->freed && (call = calls->first) != NULL) {
        lw__defer_cancel(loop, call);
        call->fn(call->arg);
    }
}

static void on_calls(evutil_socket_t fd, short what, void *arg)
{
    static const struct timeval at_once = {0, 0};
    struct lw__loop *loop = arg;

    (void)fd;
    (void)what;
    if (loop->freed) {
        return; /* abandoned */
    }
    loop->calling = true;
    loop->woken = false;
    if (!lw__loop_enter(loop)) {
        return;
    }
    calls_move(&loop->calls, &loop->running);
    run_calls(loop, &loop->running);
    run_calls(loop, &loop->late);
    if (!loop->freed) {
        loop->calling = false;
        /* A time-out lets descriptors have their turn first; it may need memory. */
        if (loop->calls.first != NULL && event_add(loop->call_event, &at_once) < 0) {
            loop->woken = true;
            event_active(loop->call_event, EV_TIMEOUT, 0);
        }
    }
    lw__loop_leave(loop);
}

static void event_free_any(struct event *event)
{
    if (event != NULL) {
        event_free(event);
    }
}

/* The loop itself */

struct event_base *lw__loop_base(struct lw__loop *loop)
{
    return loop->base;
}

struct lw__resolver *lw__loop_resolver(struct lw__loop *loop)
{
    return &loop->resolver;
}

/* The timer's descriptor, or a plain libevent timer in its place. 0, LW_ENOMEM. */
static int open_timer(struct lw__loop *loop)
{
    short what = 0;

    loop->timer_fd = -1;
#ifdef HAVE_TIMERFD
    loop->timer_fd = timerfd_create(CLOCK, TFD_NONBLOCK | TFD_CLOEXEC);
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

int lw__loop_new(struct event_base *base, struct lw__loop **ret)
{
    struct lw__loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return LW_ENOMEM;
    }
    loop->base = base;
    loop->resolver.file = "/etc/resolv.conf";
    loop->armed_us = INT64_MAX;
    loop->running_us = INT64_MIN;
    calls_init(&loop->calls);
    calls_init(&loop->late);
    calls_init(&loop->running);
    loop->timer_fd = -1;
    loop->call_event = event_new(base, -1, 0, on_calls, loop);
    if (loop->call_event == NULL || open_timer(loop) < 0) {
        lw__loop_free(loop);
        return LW_ENOMEM;
    }
    *ret = loop;
    return 0;
}

static void close_timer(struct lw__loop *loop)
{
    if (loop->timer_fd >= 0) {
        (void)close(loop->timer_fd);
    }
}

static void free_loop(struct lw__loop *loop)
{
    event_free_any(loop->call_event);
    lw__heap_clear(&loop->timers);
    loop->freed = true;
    loop->depth++;
    lw__loop_leave(loop);
}

void lw__loop_free(struct lw__loop *loop)
{
    if (loop == NULL) {
        return;
    }
    lw__resolver_clear(&loop->resolver);
    event_free_any(loop->timer_event);
    close_timer(loop);
    free_loop(loop);
}

/* A descriptor that is closed first is not there any more when its event is taken out:
 * what epoll, which is shared, knows of the parent's stays. */
void lw__loop_abandon(struct lw__loop *loop)
{
    lw__resolver_abandon(&loop->resolver);
    close_timer(loop);
    event_free_any(loop->timer_event);
    free_loop(loop);
}
