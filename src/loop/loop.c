/* SPDX-License-Identifier: MIT */
/* The host's libevent loop: callbacks from it, and its life.
 * Independent of what is timed or deferred. Each callback of a timer, a deferred call or
 * a link's reply runs between lw__loop_enter and lw__loop_leave. Any function called in
 * between may free what it was called for, or the loop, whose memory is freed by
 * lw__loop_leave. Only making a loop can fail.
 *
 * In a forked child no callback does anything but end the loop (lw__loop_skips). A child
 * whose base has not seen event_reinit shares the parent's epoll set: event_del of an
 * open descriptor would take the parent's registration out of it, so the descriptor is
 * closed first, and libevent then ignores the kernel's EBADF. A child whose base has seen
 * event_reinit has a set of its own, in which a closed descriptor would stay for as long
 * as another process has a copy: there the event goes first. The probe tells the two
 * apart. Its event is added for a descriptor number that is then made to refer to another
 * file, which is readable and in no set, until event_reinit adds that number again. */
#include "loop/loop.h"

#include "lockwire.h"
#include "loop/loop_inside.h"
#include "loop/timer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

/* How many turns a child waits for its probe. epoll reports at least 32 descriptors a
 * turn, twice as many after a turn that found so many, and each that is ready once before
 * any of them again. */
#define PROBE_TURNS 16

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

bool lw__loop_is_child(const struct lw__loop *loop)
{
    return lw__forked_is_child(&loop->forked);
}

bool lw__loop_shares_set(const struct lw__loop *loop)
{
    return !loop->own_set && lw__loop_is_child(loop);
}

void lw__loop_on_child(struct lw__loop *loop, lw__call_fn *fn, void *arg)
{
    loop->on_child = fn;
    loop->on_child_arg = arg;
}

/* In a forked child: ends the loop as soon as it is known whose set it is in, or when the
 * probe has had its chance. */
static void end_in_child(struct lw__loop *loop)
{
    static const struct timeval at_once = {0, 0};

    /* Adding an event again would cancel its activation. */
    if (!loop->own_set && loop->probe_turns > 0 &&
        (event_pending(loop->call_event, EV_TIMEOUT, NULL) != 0 ||
         event_add(loop->call_event, &at_once) == 0)) {
        return;
    }
    if (loop->on_child != NULL) {
        loop->depth++;
        loop->on_child(loop->on_child_arg);
        lw__loop_leave(loop);
    }
}

bool lw__loop_skips(struct lw__loop *loop)
{
    if (!lw__forked_is_child(&loop->forked)) {
        return false;
    }
    end_in_child(loop);
    return true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;
    uint64_t expirations;

    (void)what;
    if (lw__loop_skips(loop)) {
        return;
    }
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
    if (lw__forked_is_child(&loop->forked)) {
        loop->probe_turns -= loop->probe_turns > 0;
        end_in_child(loop);
        return;
    }
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

/* Edge-triggered: in a parent that calls event_reinit it is called once. */
static void on_probe(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;

    (void)fd;
    (void)what;
    if (lw__forked_is_child(&loop->forked)) {
        loop->own_set = true;
        end_in_child(loop);
    }
}

/* If this fails, a child closes its descriptors first, after PROBE_TURNS turns. */
static void open_probe(struct lw__loop *loop)
{
#ifdef __linux__
    int readable = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    loop->probe_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (readable >= 0 && loop->probe_fd >= 0) {
        loop->probe = event_new(loop->base, loop->probe_fd, EV_READ | EV_PERSIST | EV_ET,
                                on_probe, loop);
        if (loop->probe != NULL && event_add(loop->probe, NULL) == 0) {
            (void)dup3(readable, loop->probe_fd, O_CLOEXEC);
        }
    }
    if (readable >= 0) {
        (void)close(readable);
    }
#else
    (void)loop;
#endif
}

int lw__loop_set_priority(struct lw__loop *loop, int priority)
{
    loop->priority = priority;
    if (loop->probe != NULL) {
        (void)event_priority_set(loop->probe, priority);
    }
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

int lw__loop_new(struct event_base *base, struct lw__loop **ret)
{
    struct lw__loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return LW_ENOMEM;
    }
    loop->base = base;
    loop->resolv_conf = "/etc/resolv.conf";
    loop->timer_fd = loop->probe_fd = -1;
    loop->probe_turns = PROBE_TURNS;
    loop->own_set = strncmp(event_base_get_method(base), "epoll", 5) != 0;
    lw__forked_mark(&loop->forked);
    if (lw__defer_open(loop, on_calls) != 0 || lw__timer_open(loop, on_timer) != 0) {
        lw__loop_free(loop);
        return LW_ENOMEM;
    }
    if (!loop->own_set) {
        open_probe(loop);
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
    if (lw__loop_shares_set(loop)) {
        lw__timer_close(loop);
        free_event(loop->timer_event);
    } else {
        free_event(loop->timer_event);
        lw__timer_close(loop);
    }
    free_event(loop->probe);
    if (loop->probe_fd >= 0) {
        (void)close(loop->probe_fd);
    }
    free_event(loop->call_event);
    lw__heap_clear(&loop->timers);
    lw__forked_drop(&loop->forked);
    loop->freed = true;
    loop->depth++;
    lw__loop_leave(loop);
}
