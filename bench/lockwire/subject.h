/* SPDX-License-Identifier: MIT */
/*
 * lockwire under measurement: one client, and the options that the variant asks for.
 * Knows the public header alone, as every user does.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H
#include "measure.h"

#include <event2/event.h>
#include <lockwire.h>

#define VARIANTS "nofence noturns noturns-nofence exclusive shared"

struct subject {
    struct event_base *base;
    struct lw_client *client;
    const struct measure_options *options;
    struct lw_acquire_options acquire;
    bool connected;    /* it has been */
    uint64_t commands; /* that the client sent while it was measured */
};

/* Ends the program with `what` where `status` is an error. */
void subject_check(const char *what, int status);
/* Connects and waits until the link is up and the server grants locks. */
void subject_open(struct subject *subject, struct event_base *base,
                  const struct measure_options *options);
/* lw_client_close, waited for. */
void subject_close(struct subject *subject);
/* Runs the loop for so long, or until somebody breaks it. */
void subject_run(struct subject *subject, double seconds);
/* Runs it until standard input ends. */
void subject_run_until_told(struct subject *subject);

/* U, D, L, N; returns the errors seen. */
uint64_t subject_loop(struct subject *subject);
/* H, X; returns when told to. */
void subject_hold(struct subject *subject);
/* F; returns when told to. */
void subject_fail_over(struct subject *subject);
#endif
