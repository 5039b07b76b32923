/* SPDX-License-Identifier: MIT */
/*
 * Workload E: locks that are detached, and end by themselves while a handle of another
 * client waits. Each row is from the end of one lock (`asked`) to the next grant.
 *
 * Usual course: one client acquires all names; another one requests them, and waits; the
 * first client detaches one after another, for much less than the lease.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>

#define JOIN_S 0.5           /* in which all waiters join their queues */
#define KEEP_MS INT64_C(100) /* for which a lock is detached */
#define APART_S 0.003        /* between two detaches */
#define LIMIT_S 60

struct name {
    struct ends *ends;
    struct lw_lock *held, *waiting;
    int64_t ends_ns;
};

struct ends {
    struct subject *subject;
    struct name *names;
    unsigned granted;
};

static void count_grant(struct ends *ends)
{
    if (++ends->granted == ends->subject->options->slots) {
        ends->granted = 0;
        event_base_loopbreak(ends->subject->base);
    }
}

static void on_held(struct lw_lock *lock, int status, void *arg)
{
    struct name *name = arg;

    (void)lock;
    subject_check("acquiring", status);
    count_grant(name->ends);
}

static void on_next(struct lw_lock *lock, int status, void *arg)
{
    struct name *name = arg;
    struct measure_row row = {.slot = name - name->ends->names,
                              .asked = name->ends_ns,
                              .granted = measure_now()};

    subject_check("acquiring what was detached", status);
    row.released = row.done = row.granted;
    measure_row(&row);
    subject_check("lw_release", lw_release(lock, NULL, NULL));
    count_grant(name->ends);
}

static void acquire_all(struct ends *ends, struct lw_client *client, lw_lock_cb *done,
                        bool waits)
{
    const struct measure_options *options = ends->subject->options;
    char text[512];

    for (unsigned i = 0; i < options->slots; i++) {
        struct name *name = &ends->names[i];

        name->ends = ends;
        (void)snprintf(text, sizeof(text), "%s:%u", options->name, i);
        subject_check("lw_acquire",
                      lw_acquire(client, text, &ends->subject->acquire, done, name,
                                 waits ? &name->waiting : &name->held));
    }
}

void subject_let_end(struct subject *subject)
{
    const struct measure_options *options = subject->options;
    struct ends ends = {subject, calloc(options->slots, sizeof(struct name)), 0};
    struct subject other;

    if (ends.names == NULL) {
        exit(1);
    }
    subject_open(&other, subject->base, options);
    acquire_all(&ends, subject->client, on_held, false);
    subject_run(subject, LIMIT_S);
    acquire_all(&ends, other.client, on_next, true);
    subject_run(subject, JOIN_S);
    measure_start();
    for (unsigned i = 0; i < options->slots; i++) {
        struct name *name = &ends.names[i];

        name->ends_ns = measure_now() + KEEP_MS * 1000000;
        subject_check("lw_detach", lw_detach(name->held, KEEP_MS, NULL, NULL));
        subject_run(subject, APART_S);
    }
    subject_run(subject, LIMIT_S);
    for (unsigned i = 0; i < options->slots; i++) {
        lw_lock_free(ends.names[i].held);
        lw_lock_free(ends.names[i].waiting);
    }
    subject_close(&other);
    free(ends.names);
}
