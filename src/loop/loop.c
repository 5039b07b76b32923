/* SPDX-License-Identifier: MIT */
/* The host's libevent loop, the timers and the deferred calls that it runs: see loop.h.
 * Independent of what the timers and the calls are for. Each callback of a timer, a
 * deferred call or a link's reply runs between lw__loop_enter and lw__loop_leave. Any
 * function called in between may free its owner, or the loop, whose memory
 * lw__loop_leave then frees. Only creating a loop can fail.
 *
 * Timers are in a heap. One timerfd is armed for a time that is never later than the
 * earliest timer, so that most settings cost no system call; a wake-up that finds nothing
 * due arms it again. Without timerfd libevent's own timer is used, which is late after
 * long callbacks; if it finds no memory, the timers are looked at again soon.
 *
 * A deferred call wakes the loop once for all that are queued. If libevent has no memory
 * for a time-out of 0, the next turn begins at once, before descriptors had their chance.
 *
 * In a forked child no callback does anything except end the loop (lw__loop_skips). A
 * child whose base has not seen event_reinit shares the parent's epoll set: event_del of
 * an open descriptor would take the parent's registration out of it. So the descriptor is
 * closed first, and libevent then ignores the kernel's EBADF. A child whose base has seen
 * event_reinit has a set of its own, in which a closed descriptor would stay for as long
 * as another process has a copy: there the event is deleted first. The probe tells the
 * two apart. Its event is added for a descriptor number that is then made to refer to
 * another file, which is readable and in no set, until event_reinit adds that number
 * again. */
#include "loop/loop.h"

#include "base/container_of.h"
#include "base/process.h"
#include "lockwire.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif
#ifdef HAVE_TIMERFD
#include <sys/timerfd.h>
#endif

/* The number of turns that a child waits for its probe. epoll reports at least 32
 * descriptors a turn, twice as many after a turn that found so many, and each one that is
 * ready once before any of them again. */
#define PROBE_TURNS 16

#define SECOND_US INT64_C(1000000)
/* The longest time-out without timerfd: some event must keep the host's loop running. */
#define IDLE_US (INT64_C(3600) * SECOND_US)

struct calls {
    struct lw__deferred *first, **end;
};

struct lw__loop {
    struct event_base *base;
    const char *resolv_conf;
    int priority;
    unsigned depth; /* of lw__loop_enter */
    bool freed;
    int64_t now_us;     /* of the present event; 0: to be read whenever it is needed */
    int64_t entered_us; /* that lw__loop_enter read, for lw__loop_enter_again; or 0 */

    struct lw__heap timers;
    int timer_fd; /* -1: libevent's timer is used */
    struct event *timer_event;
    int64_t armed_us;   /* INT64_MAX: not armed */
    int64_t running_us; /* the time for which timers are run now; INT64_MIN: none are */

    struct event *call_event;
    struct calls calls, late, running;
    bool calling; /* deferred calls are being made */
    bool woken;   /* call_event has been made active */

    struct lw__process_mark process; /* that created the loop */
    lw__call_fn *on_child;
    void *on_child_arg;
    struct event *probe;
    int probe_fd;
    unsigned probe_turns; /* that a child still waits for its probe */
    bool own_set;         /* no other process shares what libevent has registered */
};

/* ---- the time of an event ---- */

int64_t lw__loop_now_us(const struct lw__loop *loop)
{
    return loop->now_us != 0 ? loop->now_us : lw__now_us();
}

void lw__loop_read_time(struct lw__loop *loop)
{
    loop->now_us = lw__now_us();
}

void lw__loop_forget_time(struct lw__loop *loop)
{
    loop->now_us = loop->entered_us = 0;
}

/* ---- timers ---- */

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
        struct lw__timer *timer = LW__CONTAINER_OF(struct lw__timer, node, first->node);
        lw__heap_remove(&loop->timers, &timer->node);
        timer->fn((char *)timer - timer->offset);
    }
    /* The descriptor is armed for one of these timers, so on_timer follows. */
    loop->running_us = INT64_MIN;
}

void lw__timer_catch_up(struct lw__loop *loop)
{
    const struct lw__heap_entry *first = lw__heap_first(&loop->timers);

    if (loop->running_us != INT64_MIN) {
        return;
    }
    lw__loop_read_time(loop);
    if (first != NULL && first->key <= loop->now_us) {
        run_due(loop, loop->now_us);
    }
}

static void arm_next(struct lw__loop *loop)
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
    if (loop->running_us != INT64_MIN) { /* armed already: see run_due */
        /* Not in this turn, or a timer that sets itself would stop the loop. */
        lw__heap_set(&loop->timers, &timer->node,
                     due_us > loop->running_us ? due_us : loop->running_us + 1);
        return;
    }
    lw__heap_set(&loop->timers, &timer->node, due_us);
    if (due_us < loop->armed_us) {
        arm(loop, due_us);
    }
}

void lw__timer_unset(struct lw__loop *loop, struct lw__timer *timer)
{
    lw__heap_remove(&loop->timers, &timer->node);
}

int64_t lw__timer_due_us(const struct lw__loop *loop, const struct lw__timer *timer)
{
    return lw__timer_is_set(timer) ? lw__heap_key(&loop->timers, &timer->node)
                                   : INT64_MAX;
}

/* ---- deferred calls ---- */

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

/* Returns NULL if there is none. */
static struct lw__deferred *calls_pop(struct calls *calls)
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

static void calls_move(struct calls *from, struct calls *to)
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

static void check_late(void *arg)
{
    struct lw__late_check *check = arg;

    if (check->polled) {
        check->fn(check->arg);
    } else { /* a call that is queued by a deferred call waits for a whole turn */
        check->polled = true;
        lw__defer(check->loop, &check->call, false);
    }
}

void lw__late_check_init(struct lw__late_check *check, lw__call_fn *fn, void *arg)
{
    *check = (struct lw__late_check){.fn = fn, .arg = arg};
    lw__defer_init(&check->call, check_late, check);
}

void lw__late_check_start(struct lw__loop *loop, struct lw__late_check *check)
{
    check->loop = loop;
    check->polled = false;
    lw__defer(loop, &check->call, false);
}

void lw__late_check_cancel(struct lw__loop *loop, struct lw__late_check *check)
{
    lw__defer_cancel(loop, &check->call);
}

void lw__defer_queue(struct lw__loop *loop, struct lw__deferred *call, bool late)
{
    calls_add(late ? &loop->late : &loop->calls, call);
    if (!loop->calling && !loop->woken) {
        loop->woken = true;
        event_active(loop->call_event, EV_TIMEOUT, 0);
    }
}

bool lw__loop_has_calls(const struct lw__loop *loop)
{
    return loop->calls.first != NULL || loop->late.first != NULL;
}

/* Returns false if a call freed the loop, or forked and this is the child: the remaining
 * calls belong to the parent. */
static bool run_calls(struct lw__loop *loop, struct calls *calls)
{
    struct lw__deferred *call;

    while ((call = calls_pop(calls)) != NULL) {
        call->fn(call->arg);
        if (loop->freed || lw__process_is_child(&loop->process)) {
            return false;
        }
    }
    return true;
}

static void make_calls(struct lw__loop *loop)
{
    static const struct timeval at_once = {0, 0};

    calls_move(&loop->calls, &loop->running);
    if (!run_calls(loop, &loop->running) || !run_calls(loop, &loop->late)) {
        return;
    }
    loop->calling = false;
    /* A time-out gives descriptors their turn first, but may need memory. */
    if (loop->calls.first != NULL && event_add(loop->call_event, &at_once) < 0) {
        loop->woken = true;
        event_active(loop->call_event, EV_TIMEOUT, 0);
    }
}

/* ---- events ---- */

void lw__loop_leave(struct lw__loop *loop)
{
    loop->depth--;
    if (loop->depth > 0) {
        return;
    }
    loop->now_us = 0;
    if (loop->freed) {
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
    loop->entered_us = loop->now_us;
    return true;
}

void lw__loop_enter_again(struct lw__loop *loop)
{
    loop->depth++;
    loop->now_us = loop->entered_us;
}

const struct lw__process_mark *lw__loop_process(const struct lw__loop *loop)
{
    return &loop->process;
}

bool lw__loop_shares_set(const struct lw__loop *loop)
{
    return !loop->own_set && lw__process_is_child(&loop->process);
}

void lw__loop_on_child(struct lw__loop *loop, lw__call_fn *fn, void *arg)
{
    loop->on_child = fn;
    loop->on_child_arg = arg;
}

/* In a forked child: ends the loop as soon as the probe has shown whose set it is in, or
 * has had its chance. */
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
    if (!lw__process_is_child(&loop->process)) {
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
        arm_next(loop);
        lw__loop_leave(loop);
    }
}

static void on_calls(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;

    (void)fd;
    (void)what;
    if (lw__process_is_child(&loop->process)) {
        loop->probe_turns -= loop->probe_turns > 0;
        end_in_child(loop);
        return;
    }
    loop->calling = true;
    loop->woken = false;
    if (lw__loop_enter(loop)) {
        make_calls(loop);
        lw__loop_leave(loop);
    }
}

#ifdef __linux__

/* Edge-triggered, so that a parent that calls event_reinit gets one call. */
static void on_probe(evutil_socket_t fd, short what, void *arg)
{
    struct lw__loop *loop = arg;

    (void)fd;
    (void)what;
    if (lw__process_is_child(&loop->process)) {
        loop->own_set = true;
        end_in_child(loop);
    }
}

/* If this fails, a child closes its descriptors first, after PROBE_TURNS turns. */
static void open_probe(struct lw__loop *loop)
{
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
}

#else

/* Not called: only epoll has a set that a child would share. */
static void open_probe(struct lw__loop *loop)
{
    (void)loop;
}

#endif

/* ---- life ---- */

struct event_base *lw__loop_base(struct lw__loop *loop)
{
    return loop->base;
}

/* Returns 0, or LW_ENOMEM. */
static int open_timers(struct lw__loop *loop)
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

static void close_timer_fd(struct lw__loop *loop)
{
    if (loop->timer_fd >= 0) {
        (void)close(loop->timer_fd);
    }
}

/* Returns 0, or LW_ENOMEM. */
static int open_calls(struct lw__loop *loop)
{
    calls_init(&loop->calls);
    calls_init(&loop->late);
    calls_init(&loop->running);
    loop->call_event = event_new(loop->base, -1, 0, on_calls, loop);
    return loop->call_event != NULL ? 0 : LW_ENOMEM;
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
    lw__process_mark(&loop->process);
    if (open_calls(loop) != 0 || open_timers(loop) != 0) {
        lw__loop_free(loop);
        return LW_ENOMEM;
    }
    if (!loop->own_set) {
        open_probe(loop);
    }
    (void)lw__loop_set_priority(loop, 0); /* every base has this priority */
    *ret = loop;
    return 0;
}

void lw__loop_free(struct lw__loop *loop)
{
    if (loop == NULL) {
        return;
    }
    if (lw__loop_shares_set(loop)) {
        close_timer_fd(loop);
        free_event(loop->timer_event);
    } else {
        free_event(loop->timer_event);
        close_timer_fd(loop);
    }
    free_event(loop->probe);
    if (loop->probe_fd >= 0) {
        (void)close(loop->probe_fd);
    }
    free_event(loop->call_event);
    lw__heap_clear(&loop->timers);
    lw__process_unmark(&loop->process);
    loop->freed = true;
    loop->depth++;
    lw__loop_leave(loop);
}
