/* SPDX-License-Identifier: MIT */
/*
 * Workload F: --slots locks held throughout, and others acquired one after the other
 * while the driver kills the master. Owns the handles. Independent of sentinels: the URL
 * says where the server is.
 *
 * The program acquires the locks to hold, and prints "held" for each. Then it acquires a
 * new name, prints "granted_ns", releases it and pauses, again and again until standard
 * input ends. It prints "lost" for each held lock that is lost.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>

struct held {
    struct asker *asker;
    struct lw_lock *lock;
};

struct asker {
    struct subject *subject;
    struct held *held; /* one for each slot */
    unsigned held_count;
    struct lw_lock *lock;
    struct event *timer; /* for the end of the pause */
    unsigned long asked;
};

static void on_timer(evutil_socket_t socket, short what, void *arg);

static void pause_then_ask(struct asker *asker)
{
    unsigned us = measure_pause_us(asker->subject->options);
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    event_add(asker->timer, &delay);
}

static void on_over(struct lw_lock *lock, int status, void *arg)
{
    if (status != LW_OK) {
        measure_say("failed", status);
    }
    lw_lock_free(lock);
    pause_then_ask(arg);
}

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    if (status != LW_OK) {
        on_over(lock, status, arg);
        return;
    }
    measure_say("granted_ns", measure_now());
    subject_check("lw_release", lw_release(lock, on_over, arg));
}

static void on_timer(evutil_socket_t socket, short what, void *arg)
{
    struct asker *asker = arg;
    struct subject *subject = asker->subject;
    char name[512];

    (void)socket, (void)what;
    (void)snprintf(name, sizeof(name), "%s:%lu", subject->options->name, asker->asked++);
    subject->acquire.lost = NULL;
    subject_check("lw_acquire", lw_acquire(subject->client, name, &subject->acquire,
                                           on_granted, asker, &asker->lock));
}

static void on_held(struct lw_lock *lock, int status, void *arg)
{
    struct held *held = arg;
    struct asker *asker = held->asker;

    (void)lock;
    subject_check("acquiring", status);
    measure_say_when("held", held - asker->held);
    if (++asker->held_count == asker->subject->options->slots) {
        pause_then_ask(asker);
    }
}

static void on_lost(struct lw_lock *lock, int status, void *arg)
{
    const struct held *held = arg;

    (void)lock, (void)status;
    measure_say_when("lost", held - held->asker->held);
}

/* With one slot, the name of the lock is the given name itself. */
static void hold(struct asker *asker, unsigned slot)
{
    const struct measure_options *options = asker->subject->options;
    struct held *held = &asker->held[slot];
    char name[512];

    held->asker = asker;
    (void)snprintf(name, sizeof(name), options->slots > 1 ? "%s:held:%u" : "%s",
                   options->name, slot);
    asker->subject->acquire.lost = on_lost;
    subject_check("lw_acquire",
                  lw_acquire(asker->subject->client, name, &asker->subject->acquire,
                             on_held, held, &held->lock));
}

void subject_fail_over(struct subject *subject)
{
    struct asker asker = {.subject = subject};

    asker.timer = event_new(subject->base, -1, 0, on_timer, &asker);
    asker.held = calloc(subject->options->slots, sizeof(*asker.held));
    if (asker.timer == NULL || asker.held == NULL) {
        exit(1);
    }
    measure_start();
    for (unsigned slot = 0; slot < subject->options->slots; slot++) {
        hold(&asker, slot);
    }
    subject_run_until_told(subject);
}
