/* SPDX-License-Identifier: MIT */
/*
 * Workload F: one lock held throughout, and others asked for one after the other while
 * whoever drives kills the master. Owns the two handles. Must not know of sentinels: the
 * URL says where the server is.
 *
 * Happy path: hold, say "held"; ask for a new name, say "granted_ns", release, pause, ask
 * again, until standard input ends. What is lost is said, too.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>

struct asker {
    struct subject *subject;
    struct lw_lock *held, *lock;
    struct event *timer; /* the pause's */
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
    struct asker *asker = arg;

    (void)lock;
    subject_check("acquiring", status);
    measure_say("held", 1);
    pause_then_ask(asker);
}

static void on_lost(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status, (void)arg;
    measure_say("lost", 1);
}

void subject_fail_over(struct subject *subject)
{
    struct asker asker = {.subject = subject};

    asker.timer = event_new(subject->base, -1, 0, on_timer, &asker);
    if (asker.timer == NULL) {
        exit(1);
    }
    measure_start();
    subject->acquire.lost = on_lost;
    subject_check("lw_acquire",
                  lw_acquire(subject->client, subject->options->name, &subject->acquire,
                             on_held, &asker, &asker.held));
    subject_run_until_told(subject);
}
