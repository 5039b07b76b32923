/* SPDX-License-Identifier: MIT */
/*
 * The parts that every C program of the bench shares: the command line, a common start
 * with other processes, the rows of its acquisitions, and the last line. Independent of
 * Redis and locks.
 *
 *     PROGRAM U|D|L|N|M|H|X|E|F|W --url URL [--slots N] [--seconds S] [--name KEY]
 *             [--variant V] [--lease-ms MS] [--hold-us US] [--pause-us US]
 *             [--round-us US] [--names N] [--of N] [--rows FILE] [--tls-ca FILE]
 *             [--guard-ms MS] [--clients N] [--busy-poll US]
 *
 * Usual course: measure_options, measure_start (prints "ready" and waits for a line),
 * measure_row for each grant, measure_finish.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct measure_options {
    char workload; /* one of the letters above */
    const char *url;
    const char *tls_ca;  /* with rediss:// the authority to trust; NULL = the system's */
    const char *name;    /* the key; with many slots, a prefix of their keys */
    const char *variant; /* "" = the program's first */
    const char *rows;    /* file for the rows; NULL = none */
    unsigned slots;      /* concurrent users of locks in this process */
    double seconds;      /* duration; the limit for workload D */
    unsigned lease_ms;
    unsigned hold_us;
    unsigned pause_us;  /* mean time before a slot acquires again */
    unsigned round_us;  /* length of a round; 0 = no rounds */
    unsigned names;     /* M: the number of names that a slot acquires at once ... */
    unsigned of;        /* ... drawn at random from `of` names, without repetition */
    unsigned guard_ms;  /* for lockwire only; 0: no guard */
    unsigned busy_poll; /* for lockwire only: busy_poll_us */
    unsigned clients;   /* for lockwire only: the clients that the slots use in turn */
};

/* One acquisition; times in ns of CLOCK_MONOTONIC, 0 = not reached. */
struct measure_row {
    int64_t slot;
    int64_t asked, granted;
    int64_t released; /* release was called */
    int64_t done;     /* the release was answered */
};

/* Ends the program with 64 and a message if the command line is wrong. */
void measure_options(int argc, char **argv, const char *variants,
                     struct measure_options *ret);
int64_t measure_now(void);
/*
 * Returns the number of the current round. Rounds divide the clock, so that processes
 * agree on them without messages. Slots request the lock in the first half of a round.
 * The holder releases at half-time, and the slot that waited then holds for a moment. The
 * pause should be well under a quarter of a round, since timers may be milliseconds late.
 */
int64_t measure_round(const struct measure_options *options);
/* Returns a random time from half of options->pause_us to one and a half of it, or 0
 * if it is 0. With rounds, the pause begins at the end of the current round. */
unsigned measure_pause_us(const struct measure_options *options);
/* Returns options->hold_us, or with rounds the time until half-time. */
unsigned measure_hold_us(const struct measure_options *options);
/* Waits for the start, then discards the rows noted so far and counts CPU time from
 * here. */
void measure_start(void);
/* Notes a finished acquisition, or at the end one that is still waiting. */
void measure_row(const struct measure_row *row);
/* Prints a line for the driver at once: {"<event>": <value>}. */
void measure_say(const char *event, int64_t value);
/* Prints the same with the time: {"<event>": <value>, "at_ns": <now>}. */
void measure_say_when(const char *event, int64_t value);
/* Writes the rows and the last line. `commands` is the number of commands sent, or 0
 * if the program does not know it. Returns the program's exit code. */
int measure_finish(const struct measure_options *options, const char *version,
                   uint64_t errors, uint64_t commands);
#endif
