/* SPDX-License-Identifier: MIT */
/*
 * Workloads H and X: locks that are held until the driver closes standard input or kills
 * the program. Owns the handles. Independent of the measurement from outside.
 *
 * Usual course: acquires all locks, reports that, and renews them until standard input
 * ends.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct holds {
    struct subject *subject;
    struct lw_lock **locks;
    unsigned held;
};

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    struct holds *holds = arg;
    struct timespec now;

    (void)lock;
    subject_check("acquiring", status);
    holds->held++;
    if (holds->subject->options->workload == 'H') {
        if (holds->held == holds->subject->options->slots) {
            measure_say("held", holds->held);
        }
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    measure_say("granted_us", now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000);
}

static void on_lost(struct lw_lock *lock, int status, void *arg)
{
    (void)arg;
    (void)fprintf(stderr, "bench: %s is lost: %s\n", lw_lock_name(lock),
                  lw_strerror(status));
    exit(1);
}

void subject_hold(struct subject *subject)
{
    const struct measure_options *options = subject->options;
    struct holds holds = {.subject = subject};
    char name[512];

    holds.locks = malloc(options->slots * sizeof(*holds.locks));
    if (holds.locks == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < options->slots; i++) {
        holds.locks[i] = NULL; /* makes the pages resident before memory is measured */
    }
    subject->acquire.lost = on_lost;
    subject_run(subject, 0.1);
    measure_start();
    for (unsigned i = 0; i < options->slots; i++) {
        (void)snprintf(name, sizeof(name), options->workload == 'H' ? "%s:%u" : "%s",
                       options->name, i);
        subject_check("lw_acquire", lw_acquire(subject->client, name, &subject->acquire,
                                               on_granted, &holds, &holds.locks[i]));
    }
    subject_run_until_told(subject);
}
