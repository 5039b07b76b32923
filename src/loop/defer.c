/* SPDX-License-Identifier: MIT */
/* Deferred calls. Must not know what is deferred. Happy path: lw__defer queues and wakes
 * the loop, once; lw__defer_run makes the calls that were queued by then, and the late
 * ones. Needs memory nowhere but where libevent's time-out does; where there is none the
 * next turn comes at once, before descriptors had theirs. */
#include "loop/defer.h"

#include "lockwire.h"
#include "loop/loop_inside.h"

#include <stddef.h>

static void calls_init(struct lw__calls *calls)
{
    calls->first = NULL;
    calls->end = &calls->first;
}

static void calls_add(struct lw__calls *calls, struct lw__deferred *call)
{
    call->next = NULL;
    call->prev = calls->end;
    *calls->end = call;
    calls->end = &call->next;
}

/* NULL: there is none. */
static struct lw__deferred *calls_pop(struct lw__calls *calls)
{
    struct lw__deferred *call = calls->first;

    if (call == NULL) {
        return NULL;
    }
    calls->first = call->next;
    if (call->next != NULL) {
        call->next->prev = &calls->first;
    } else {
        calls->end = &calls->first;
    }
    call->prev = NULL;
    return call;
}

static void calls_move(struct lw__calls *from, struct lw__calls *to)
{
    struct lw__deferred *call;

    while ((call = from->first) != NULL) {
        from->first = call->next;
        calls_add(to, call);
    }
    from->end = &from->first;
}

void lw__defer_init(struct lw__deferred *call, lw__call_fn *fn, void *arg)
{
    *call = (struct lw__deferred){NULL, NULL, fn, arg};
}

void lw__defer_cancel(struct lw__loop *loop, struct lw__deferred *call)
{
    struct lw__calls *lists[] = {&loop->calls, &loop->late, &loop->running};

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

/* Returns false if a call freed the loop, or forked and this is the child: what is left
 * is the parent's. */
static bool run_calls(struct lw__loop *loop, struct lw__calls *calls)
{
    struct lw__deferred *call;

    while ((call = calls_pop(calls)) != NULL) {
        call->fn(call->arg);
        if (loop->freed || lw__forked_is_child(&loop->forked)) {
            return false;
        }
    }
    return true;
}

void lw__defer_run(struct lw__loop *loop)
{
    static const struct timeval at_once = {0, 0};

    calls_move(&loop->calls, &loop->running);
    if (!run_calls(loop, &loop->running) || !run_calls(loop, &loop->late)) {
        return;
    }
    loop->calling = false;
    /* A time-out lets descriptors have their turn first; it may need memory. */
    if (loop->calls.first != NULL && event_add(loop->call_event, &at_once) < 0) {
        loop->woken = true;
        event_active(loop->call_event, EV_TIMEOUT, 0);
    }
}

int lw__defer_open(struct lw__loop *loop, event_callback_fn on_calls)
{
    calls_init(&loop->calls);
    calls_init(&loop->late);
    calls_init(&loop->running);
    loop->call_event = event_new(loop->base, -1, 0, on_calls, loop);
    return loop->call_event != NULL ? 0 : LW_ENOMEM;
}
