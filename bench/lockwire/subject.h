/* SPDX-License-Identifier: MIT */
/*
 * lockwire under measurement: one client, and the options that the variant needs. Uses
 * only the public header, as every user does.
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
    bool connected;    /* the link has been up */
    uint64_t commands; /* commands that the client sent during the measurement */
};

/* Ends the program with `what` if `status` is an error. */
void subject_check(const char *what, int status);
/* Connects and waits until the link is up and the server grants locks. */
void subject_open(struct subject *subject, struct event_base *base,
                  const struct measure_options *options);
/* Calls lw_client_close and waits until it is done. */
void subject_close(struct subject *subject);
/* Runs the loop for that long, or until a callback breaks it. */
void subject_run(struct subject *subject, double seconds);
/* Runs the loop until standard input ends. */
void subject_run_until_told(struct subject *subject);

/* Runs U, D, L, N or M. Returns the number of errors. */
uint64_t subject_loop(struct subject *subject);
/* Runs H or X. Returns when standard input ends. */
void subject_hold(struct subject *subject);
/* Runs W. Returns when standard input ends. */
void subject_watch(const struct subject *subject);
/* Runs E. */
void subject_let_end(struct subject *subject);
/* Runs F. Returns when standard input ends. */
void subject_fail_over(struct subject *subject);
#endif
