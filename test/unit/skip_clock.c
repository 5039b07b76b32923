/* SPDX-License-Identifier: MIT */
/* See skip_clock.h. The library arms one timerfd, for no later than its earliest timer,
 * so that the time of the last setting is known here. When the clock reaches it, the
 * timerfd is set to fire at once. */
#include "skip_clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>

#define US_IN_S INT64_C(1000000)
#define IDLE_US 3000 /* of real time */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *old);

static int64_t ahead_us;
static int64_t due_us; /* by the clock that is put forward; 0: no timer is set */
static int timer_fd = -1;

static int64_t us_of(const struct timespec *time)
{
    return time->tv_sec * US_IN_S + time->tv_nsec / 1000;
}

static struct timespec time_of(int64_t us)
{
    return (struct timespec){us / US_IN_S, us % US_IN_S * 1000};
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    int status = __real_clock_gettime(clock, ret);

    *ret = time_of(us_of(ret) + ahead_us);
    return status;
}

static int arm(int64_t real_us)
{
    struct itimerspec when = {.it_value = time_of(real_us)};

    if (real_us <= 0) {
        when.it_value = (struct timespec){0, 1}; /* at once */
    }
    return __real_timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* The library sets absolute times only. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *old)
{
    (void)flags, (void)old;
    timer_fd = fd;
    due_us = us_of(&when->it_value);
    if (due_us == 0 && when->it_value.tv_nsec > 0) {
        due_us = 1;
    }
    return due_us != 0 ? arm(due_us - ahead_us)
                       : __real_timerfd_settime(fd, 0, when, NULL);
}

void skip_clock_by(int64_t us)
{
    ahead_us += us;
    if (due_us != 0) {
        (void)arm(due_us - ahead_us);
    }
}

void skip_clock_reset(void)
{
    ahead_us = due_us = 0;
}

int64_t skip_clock_real_s(void)
{
    struct timespec now;

    (void)__real_clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    bool *idle = arg;

    (void)fd, (void)what;
    *idle = true;
}

/* Returns true if only the time-out came, and without delay: after a delay other events
 * may be ready as well. */
static bool was_idle(struct event_base *base)
{
    const struct timeval time_out = {0, IDLE_US};
    struct timespec before, after;
    bool idle = false;
    struct event *event = evtimer_new(base, on_idle, &idle);

    (void)evtimer_add(event, &time_out);
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &before);
    (void)event_base_loop(base, EVLOOP_ONCE);
    (void)__real_clock_gettime(CLOCK_MONOTONIC, &after);
    event_free(event);
    return idle && us_of(&after) - us_of(&before) < 8 * IDLE_US;
}

void skip_clock_turn(struct event_base *base, int64_t until_us)
{
    struct timespec now;
    int64_t to_us;

    if (!was_idle(base) || !was_idle(base)) {
        return;
    }
    to_us = due_us != 0 && due_us < until_us ? due_us : until_us;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    if (to_us != INT64_MAX && to_us > us_of(&now)) {
        skip_clock_by(to_us - us_of(&now));
    }
}
