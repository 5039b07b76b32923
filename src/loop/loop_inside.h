/* SPDX-License-Identifier: MIT */
/* Between the files of this directory alone: a loop from inside. */
#ifndef LW_LOOP_INSIDE_H
#define LW_LOOP_INSIDE_H
#include "base/forked.h"
#include "base/heap.h"
#include "loop/defer.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct lw__calls {
    struct lw__deferred *first, **end;
};

struct lw__loop {
    struct event_base *base;
    const char *resolv_conf; /* lookup.c's */
    int priority;            /* loop.c's */

    /* timer.c's */
    struct lw__heap timers;
    int timer_fd; /* -1: libevent's timer */
    struct event *timer_event;
    int64_t armed_us;   /* INT64_MAX: not armed */
    int64_t running_us; /* what the timers that run take for now; INT64_MIN: none runs */

    /* defer.c's */
    struct event *call_event;
    struct lw__calls calls, late, running;
    bool calling, woken; /* calls are being made; call_event has been made active */

    /* loop.c's */
    unsigned depth;
    bool freed;
    struct lw__forked forked; /* which process made it */
    lw__call_fn *on_child;
    void *on_child_arg;
    struct event *probe;
    int probe_fd;
    unsigned probe_turns; /* that a child still waits for its probe */
    bool own_set;         /* no other process shares what libevent has registered */
};

/* timer.c: 0, LW_ENOMEM. `on_timer` is to arm for what is next. */
int lw__timer_open(struct lw__loop *loop, event_callback_fn on_timer);
void lw__timer_close(struct lw__loop *loop); /* the descriptor */
void lw__timer_arm_next(struct lw__loop *loop);

/* defer.c */
int lw__defer_open(struct lw__loop *loop, event_callback_fn on_calls); /* 0, LW_ENOMEM */
void lw__defer_run(struct lw__loop *loop); /* the calls that are queued now */
#endif
