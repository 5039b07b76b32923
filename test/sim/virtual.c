/* SPDX-License-Identifier: MIT
 *
 * The clock, timerfd, epoll_wait and connect that the library and libevent use. The
 * executable defines them, so that every caller in the process finds these. Sockets and
 * epoll's bookkeeping remain the kernel's. Independent of what the hosts do.
 *
 * Usual course: clock_gettime() returns world.now_us. A timerfd is an eventfd here, which
 * the agenda makes readable. epoll_wait() never waits. If nothing is ready, it records
 * until when its host may sleep, and breaks that host's loop.
 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_US INT64_C(1700000000000000)
#define TIMERS 64

struct timer {
    int fd; /* -1 if free */
    struct host *host;
    unsigned setting; /* a counter, so that the event of an earlier one is void */
};

struct alarm {
    struct timer *timer;
    unsigned setting;
};

static bool active;
static struct timer timers[TIMERS];

void virtual_begin(void)
{
    for (int i = 0; i < TIMERS; i++) {
        timers[i].fd = -1;
    }
    active = true;
}

void virtual_end(void)
{
    active = false;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int64_t now_us = world.now_us;

    if (!active) {
        return (int)syscall(SYS_clock_gettime, clock, ret);
    }
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        now_us += EPOCH_US;
    }
    *ret = (struct timespec){now_us / SECOND, now_us % SECOND * 1000};
    return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

static struct timer *find_timer(int fd)
{
    for (int i = 0; i < TIMERS; i++) {
        if (timers[i].fd == fd) {
            return &timers[i];
        }
    }
    return NULL;
}

int timerfd_create(int clock, int flags)
{
    struct timer *timer = find_timer(-1);

    if (!active) {
        return (int)syscall(SYS_timerfd_create, clock, flags);
    }
    if (timer == NULL) {
        violation("more timers than the simulator has");
    }
    timer->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    timer->host = world.current;
    timer->setting++;
    return timer->fd;
}

static void ring(void *arg)
{
    struct alarm *alarm = arg;
    uint64_t one = 1;

    if (alarm->timer->setting == alarm->setting && alarm->timer->fd >= 0) {
        ssize_t ignored = write(alarm->timer->fd, &one, sizeof(one));
        (void)ignored;
        alarm->timer->host->ready = true;
    }
    free(alarm);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *when,
                    struct itimerspec *old)
{
    struct timer *timer = find_timer(fd);
    struct alarm *alarm;
    uint64_t ignored;
    ssize_t length;

    (void)old;
    if (!active) {
        return (int)syscall(SYS_timerfd_settime, fd, flags, when, old);
    }
    length = read(fd, &ignored, sizeof(ignored));
    (void)length;
    timer->setting++;
    if (when->it_value.tv_sec == 0 && when->it_value.tv_nsec == 0) {
        return 0;
    }
    alarm = must_alloc(sizeof(*alarm));
    *alarm = (struct alarm){timer, timer->setting};
    agenda_add((int64_t)when->it_value.tv_sec * SECOND + when->it_value.tv_nsec / 1000,
               ring, alarm);
    return 0;
}

int close(int fd)
{
    struct timer *timer = active && fd >= 0 ? find_timer(fd) : NULL;

    if (timer != NULL) {
        timer->fd = -1;
        timer->setting++;
    }
    return (int)syscall(SYS_close, fd);
}

/* Callers send these over the wire, so they must be the same in each run. */
pid_t getpid(void)
{
    return active ? 1 : (pid_t)syscall(SYS_getpid);
}

int gethostname(char *name, size_t size)
{
    (void)snprintf(name, size, "model");
    return 0;
}

/* Ready events come in no particular order. */
static void shuffle(struct epoll_event *events, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = (int)rng_below(&world.rng, (uint64_t)i + 1);
        struct epoll_event event = events[i];

        events[i] = events[other];
        events[other] = event;
    }
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    int count = epoll_pwait(fd, events, most, active ? 0 : timeout_ms, NULL);

    if (!active || count < 0) {
        return count;
    }
    shuffle(events, count);
    if (count == 0 && timeout_ms != 0) {
        struct host *host = world.current;

        host->idle = true;
        host->wake_us = timeout_ms < 0 ? NEVER : world.now_us + timeout_ms * MS;
        event_base_loopbreak(host->base);
    }
    return count;
}

/* The linker sees this as `connect`, so that hiredis finds it. The type of connect cannot
 * be written in standard C. */
int connect_in_the_model(int fd, const struct sockaddr *address,
                         socklen_t length) __asm__("connect");

int connect_in_the_model(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_un peer;
    socklen_t size = sizeof(peer);

    if (!active) {
        return (int)syscall(SYS_connect, fd, address, length);
    }
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0) {
        errno = EISCONN; /* hiredis calls again to learn whether it is connected */
        return -1;
    }
    return network_connect(fd, address);
}

/* Accepts the options that TCP has and the sockets here do not. */
int setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
    return active ? 0 : (int)syscall(SYS_setsockopt, fd, level, option, value, length);
}
