/* SPDX-License-Identifier: MIT */
/* A thread for the lock, for a program with another event loop. */
#ifndef LOCK_THREAD_H
#define LOCK_THREAD_H
#include <event2/event.h>
#include <lockwire.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* shown: */
struct lock_event { /* from the lock thread to the main thread */
    int status; /* LW_OK: granted; negative: not, or lost; 1: the end
                 */
    uint64_t fence;
};

/* Pipes: the main thread writes the first, and reads the second. */
static int requests[2], events[2];
static struct lw_client *client;
static struct lw_lock *lock;

static void tell(int status, uint64_t fence)
{
    struct lock_event event = {status, fence};

    if (write(events[1], &event, sizeof(event)) !=
        (ssize_t)sizeof(event)) {
        abort();
    }
}

static void on_lost(struct lw_lock *ended, int reason, void *arg)
{
    (void)ended, (void)arg;
    tell(reason, 0);
}

static void on_acquired(struct lw_lock *ended, int status, void *arg)
{
    (void)arg;
    tell(status, lw_lock_fence(ended));
}

static void on_closed(struct lw_client *closed, void *reading)
{
    lw_client_free(closed);
    event_free(
        (struct event *)reading); /* ends event_base_dispatch */
}

static void on_request(evutil_socket_t fd, short what, void *arg)
{
    struct event **reading = (struct event **)arg;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    char request = 0;

    (void)what;
    if (read((int)fd, &request, 1) == 1 && request == 'a') {
        options.wait_ms = -1;
        options.margin_ms = 1000; /* to tell the main thread */
        options.lost = on_lost;
        if (lw_acquire(client, "job", &options, on_acquired, NULL,
                       &lock) != 0) {
            tell(LW_ENOMEM, 0);
        }
    } else if (request == 'r') {
        lw_lock_free(lock); /* in whatever state it is */
        lock = NULL;
    } else {
        (void)lw_client_close(client, on_closed, *reading);
    }
}

static void *lock_thread(void *url)
{
    struct event_base *base = event_base_new();
    struct event *reading = NULL;

    if (base == NULL ||
        lw_client_new(base, (const char *)url, NULL, &client) != 0) {
        abort();
    }
    reading = event_new(base, requests[0], EV_READ | EV_PERSIST,
                        on_request, &reading);
    if (reading == NULL || event_add(reading, NULL) != 0) {
        abort();
    }
    (void)event_base_dispatch(base);
    event_base_free(base);
    tell(1, 0);
    return NULL;
}

static void ask(char request) /* 'a'cquire, 'r'elease or 'q'uit */
{
    if (write(requests[1], &request, 1) != 1) {
        abort();
    }
}

/* Called by the main loop when events[0] is readable. Returns 0 at
 * the end. */
static int on_lock_event(void)
{
    struct lock_event event;

    if (read(events[0], &event, sizeof(event)) !=
        (ssize_t)sizeof(event)) {
        abort();
    }
    if (event.status == LW_OK) {
        printf("held, fencing token %llu\n",
               (unsigned long long)event.fence);
        ask('r'); /* the work is done */
        ask('q');
    } else if (event.status < 0) {
        printf("not held: %s\n", lw_strerror(event.status));
    }
    return event.status != 1;
}

static pthread_t start_locks(const char *url)
{
    pthread_t ret;

    if (pipe(requests) != 0 || pipe(events) != 0 ||
        pthread_create(&ret, NULL, lock_thread, (void *)url) != 0) {
        abort();
    }
    ask('a');
    return ret;
}
/* until here */
#endif
