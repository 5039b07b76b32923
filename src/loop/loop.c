/* SPDX-License-Identifier: MIT */
/* The host's libevent loop: entries from it, and its life. Knows nothing of what is timed
 * or deferred. Happy path: every entry from libevent (on_timer, on_calls, a link's reply)
 * goes through lw__loop_enter and lw__loop_leave. Any function called in between may free
 * what it was called for, or the loop, whose memory goes in lw__loop_leave. Only making a
 * loop can fail. */
#include "loop/loop.h"

#include "lockwire.h"
#include "loop/loop_inside.h"
#include "loop/timer.h"

#include <stdlib.h>
#include <unistd.h>

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
    lw__timer_catch_up(loop);
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

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;
    uint64_t expirations;

    (void)what;
    if (fd >= 0) {
        ssize_t ignored = read(fd, &expirations, sizeof(expirations));
        (void)ignored;
    }
    if (lw__loop_enter(loop)) {
        lw__timer_arm_next(loop);
        lw__loop_leave(loop);
    }
}

static void on_calls(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;

    (void)fd;
    (void)what;
    loop->calling = true;
    loop->woken = false;
    if (lw__loop_enter(loop)) {
        lw__defer_run(loop);
        lw__loop_leave(loop);
    }
}

struct event_base *lw__loop_base(struct lw__loop *loop)
{
    return loop->base;
}

int lw__loop_set_priority(struct lw__loop *loop, int priority)
{
    loop->priority = priority;
    return event_priority_set(loop->timer_event, priority) == 0 &&
                   event_priority_set(loop->call_event, priority) == 0
               ? 0
               : LW_EINVAL;
}

int lw__loop_priority(const struct lw__loop *loop)
{
    return loop->priority;
}

int lw__loop_priorities(const struct lw__loop *loop)
{
    return event_base_get_npriorities(loop->base);
}

const char **lw__loop_resolv_conf(struct lw__loop *loop)
{
    return &loop->resolv_conf;
}

static void free_event(struct event *event)
{
    if (event != NULL) {
        event_free(event);
    }
}

static void free_loop(struct lw__loop *loop)
{
    free_event(loop->call_event);
    lw__heap_clear(&loop->timers);
    loop->freed = true;
    loop->depth++;
    lw__loop_leave(loop);
}

int lw__loop_new(struct event_base *base, struct lw__loop **ret)
{
    struct lw__loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return LW_ENOMEM;
    }
    loop->base = base;
    loop->resolv_conf = "/etc/resolv.conf";
    loop->timer_fd = -1;
    if (lw__defer_open(loop, on_calls) != 0 || lw__timer_open(loop, on_timer) != 0) {
        lw__loop_free(loop);
        return LW_ENOMEM;
    }
    (void)lw__loop_set_priority(loop, 0); /* every base has that */
    *ret = loop;
    return 0;
}

void lw__loop_free(struct lw__loop *loop)
{
    if (loop == NULL) {
        return;
    }
    free_event(loop->timer_event);
    lw__timer_close(loop);
    free_loop(loop);
}

/* A descriptor that is closed first is not there any more when its event is taken out:
 * what epoll, which is shared, knows of the parent's stays. */
void lw__loop_abandon(struct lw__loop *loop)
{
    lw__timer_close(loop);
    free_event(loop->timer_event);
    free_loop(loop);
}
