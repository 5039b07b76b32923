/* SPDX-License-Identifier: MIT */
/* See skip_clock.h. The library arms one timerfd, for no later than its earliest timer,
 * so that the time of the last setting is known here. When the clock reaches it, the
 * timerfd is set to fire at once. */
#include "skip_clock.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>

#define US_IN_S INT64_C(1000000)
#define PAUSE_US 3000
#define MAX_FD 512 /* tests open fewer */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
                           struct itimerspec *old);

static int64_t ahead_us;
static int64_t stopped_us; /* the real time at which the clock was stopped; 0: it runs */
static int64_t due_us;     /* by the clock that is put forward; 0: no timer is set */
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

    if (stopped_us != 0 && clock == CLOCK_BOOTTIME) {
        *ret = time_of(stopped_us);
    }
    *ret = time_of(us_of(ret) + ahead_us);
    return status;
}

/* Sets the timerfd to fire when the clock is at `due_us`, which is in the past if it is
 * stopped there; a later time of a stopped clock does not come by itself. */
static int arm(void)
{
    int64_t real_us = due_us - ahead_us;
    struct itimerspec when = {.it_value = time_of(real_us)};

    if (stopped_us != 0 && real_us > stopped_us) {
        when.it_value = (struct timespec){0, 0};
    } else if (stopped_us != 0 || real_us <= 0) {
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
    return due_us != 0 ? arm() : __real_timerfd_settime(fd, 0, when, NULL);
}

void skip_clock_by(int64_t us)
{
    ahead_us += us;
    if (due_us != 0) {
        (void)arm();
    }
}

void skip_clock_stop(void)
{
    struct timespec now;

    (void)__real_clock_gettime(CLOCK_BOOTTIME, &now);
    stopped_us = us_of(&now);
}

void skip_clock_reset(void)
{
    ahead_us = due_us = stopped_us = 0;
}

int64_t skip_clock_real_s(void)
{
    struct timespec now;

    (void)__real_clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    bool *ended = arg;

    (void)fd, (void)what;
    *ended = true;
}

/* Dispatches what is ready within `us`; returns false if that was nothing. */
static bool dispatch(struct event_base *base, int us)
{
    const struct timeval limit = {0, us};
    bool ended = false;
    struct event *end = evtimer_new(base, on_end, &ended);
    int active;

    (void)evtimer_add(end, &limit);
    (void)event_base_get_max_events(base, EVENT_BASE_COUNT_ACTIVE, 1);
    (void)event_base_loop(base, EVLOOP_ONCE);
    active = event_base_get_max_events(base, EVENT_BASE_COUNT_ACTIVE, 1);
    event_free(end);
    return !ended || active > 1;
}

/* ---- what the kernel has not delivered yet ---- */

/* Values of tcpi_state; <netinet/tcp.h> has them, but not all fields of tcp_info. */
#define STATE_ESTABLISHED 1
#define STATE_SYN_SENT 2

struct end {
    struct tcp_info info;
    struct sockaddr_storage here, there;
};

/* Returns false unless the descriptor is a TCP socket that connects or is connected. */
static bool read_end(int fd, struct end *end)
{
    socklen_t size = sizeof(end->info), here = sizeof(end->here),
              there = sizeof(end->there);

    *end = (struct end){0};
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &end->info, &size) == 0 &&
           (end->info.tcpi_state == STATE_SYN_SENT ||
            (end->info.tcpi_state == STATE_ESTABLISHED &&
             getsockname(fd, (struct sockaddr *)&end->here, &here) == 0 &&
             getpeername(fd, (struct sockaddr *)&end->there, &there) == 0));
}

/* All connections are between two ends in this process. An end without the other has not
 * received yet what the closing or accepting of the other one sent. */
static bool is_owed(const struct end *to, const struct end *ends, int count)
{
    for (int i = 0; i < count; i++) {
        const struct end *from = &ends[i];

        if (memcmp(&from->here, &to->there, sizeof(to->there)) == 0 &&
            memcmp(&from->there, &to->here, sizeof(to->here)) == 0) {
            return from->info.tcpi_notsent_bytes > 0 ||
                   from->info.tcpi_bytes_sent - from->info.tcpi_bytes_retrans !=
                       to->info.tcpi_bytes_received;
        }
    }
    return true;
}

/* Returns true if a connection is being made or closed, or bytes have been written that
 * the other end cannot read yet. */
static bool is_on_its_way(void)
{
    static struct end ends[MAX_FD];
    int count = 0;

    for (int fd = 0; fd < MAX_FD; fd++) {
        count += read_end(fd, &ends[count]) ? 1 : 0;
    }
    for (int i = 0; i < count; i++) {
        if (ends[i].info.tcpi_state == STATE_SYN_SENT || is_owed(&ends[i], ends, count)) {
            return true;
        }
    }
    return false;
}

void skip_clock_turn(struct event_base *base, int64_t until_us)
{
    struct timespec now;
    int64_t now_us, to_us = until_us;

    if (dispatch(base, PAUSE_US) || dispatch(base, PAUSE_US) || is_on_its_way() ||
        dispatch(base, 0)) { /* which came before the kernel was asked */
        return;
    }
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    now_us = us_of(&now);
    if (due_us > now_us && due_us < until_us) { /* else there was none, or it has fired */
        to_us = due_us;
    }
    if (to_us != INT64_MAX && to_us > now_us) {
        skip_clock_by(to_us - now_us);
    }
}
