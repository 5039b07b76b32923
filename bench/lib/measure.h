/* SPDX-License-Identifier: MIT */
/*
 * What every C program of the bench shares: its command line, its start together with
 * others, the rows of what happened, its last line. Must not know Redis or any lock.
 *
 *     PROGRAM U|D|L|N|M|H|X|F --url URL [--slots N] [--seconds S] [--name KEY]
 *             [--variant V] [--lease-ms MS] [--hold-us US] [--pause-us US]
 *             [--round-us US] [--names N] [--of N] [--rows FILE] [--tls-ca FILE]
 *             [--guard-ms MS] [--clients N]
 *
 * Happy path: measure_options, measure_start (says "ready" and waits for a line),
 * measure_row for each grant, measure_finish.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct measure_options {
    char workload; /* one of perf's letters */
    const char *url;
    const char *tls_ca;  /* with rediss:// the authority to trust; NULL = the system's */
    const char *name;    /* the key; those of many slots begin with it */
    const char *variant; /* "" = the program's first */
    const char *rows;    /* file for the rows; NULL = none */
    unsigned slots;      /* concurrent users of locks in this process */
    double seconds;      /* how long; of D the limit */
    unsigned lease_ms;
    unsigned hold_us;
    unsigned pause_us; /* mean of the time before a slot asks again */
    unsigned round_us; /* of a round; 0 = none */
    unsigned names;    /* M: each slot acquires so many names at once ... */
    unsigned of;       /* ... drawn at random from so many; as many: always the same */
    unsigned guard_ms; /* lockwire alone; 0: no guard */
    unsigned clients;  /* lockwire alone: the slots use so many clients in turn */
};

/* One acquisition; times in ns of CLOCK_MONOTONIC, 0 = it did not come to that. */
struct measure_row {
    int64_t slot;
    int64_t asked, granted;
    int64_t released; /* release was called */
    int64_t done;     /* release was answered */
};

/* Ends the program with 64 and a message where the command line is wrong. */
void measure_options(int argc, char **argv, const char *variants,
                     struct measure_options *ret);
int64_t measure_now(void);
/*
 * A round is a stretch of the clock, so that processes agree on it without a word: they
 * ask in its first half, who holds at half-time releases, who waited then holds for a
 * moment. Its pause is to be well under a quarter of it: timers may come milliseconds
 * late.
 */
int64_t measure_round(const struct measure_options *options);
/* A random time from half of options->pause_us to one and a half of it; 0 where it is 0.
 * With rounds it begins at the end of this one. */
unsigned measure_pause_us(const struct measure_options *options);
/* options->hold_us, or until the round's half-time. */
unsigned measure_hold_us(const struct measure_options *options);
/* What has been noted so far is forgotten, the CPU time counts from here. */
void measure_start(void);
/* Notes a finished acquisition, or at the end one that still waits. */
void measure_row(const struct measure_row *row);
/* Says a line at once, for whoever drives: {"<event>": <value>}. */
void measure_say(const char *event, int64_t value);
/* Says the same with the time: {"<event>": <value>, "at_ns": <now>}. */
void measure_say_when(const char *event, int64_t value);
/* Writes the rows and the last line. `commands`: how many were sent, 0 where the program
 * does not know. Returns the program's exit code. */
int measure_finish(const struct measure_options *options, const char *version,
                   uint64_t errors, uint64_t commands);
#endif
