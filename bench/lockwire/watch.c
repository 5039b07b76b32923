/* SPDX-License-Identifier: MIT */
/*
 * Workload W: as many clients as there are slots watch the name, each as a process of its
 * own would. Owns the clients and their watchers. Independent of what happens to the
 * lock.
 *
 * Usual course: opens the clients, waits until each has seen the lock's state, reports
 * that, and watches until standard input ends.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>

struct watch {
    struct subject subject;
    struct lw_watcher *watcher;
    unsigned *left; /* watchers that have seen nothing yet */
    bool seen;
};

static void on_changed(struct lw_watcher *watcher, int status,
                       const struct lw_inspection *now, const char *why, void *arg)
{
    struct watch *watch = arg;

    (void)watcher, (void)now, (void)why;
    subject_check("watching", status);
    if (!watch->seen) {
        watch->seen = true;
        (*watch->left)--;
    }
    if (*watch->left == 0) {
        event_base_loopbreak(watch->subject.base);
    }
}

void subject_watch(const struct subject *subject)
{
    const struct measure_options *options = subject->options;
    struct watch *watches = calloc(options->slots, sizeof(*watches));
    unsigned left = options->slots;

    if (watches == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < options->slots; i++) {
        subject_open(&watches[i].subject, subject->base, options);
        watches[i].left = &left;
        subject_check("lw_watch", lw_watch(watches[i].subject.client, options->name, NULL,
                                           on_changed, &watches[i], &watches[i].watcher));
    }
    while (left > 0) {
        event_base_dispatch(subject->base);
    }
    left = options->slots + 1; /* no change ends the loop any more */
    measure_start();
    subject_run_until_told(&watches[0].subject);
}
