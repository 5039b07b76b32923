/* SPDX-License-Identifier: MIT */
/*
 * The stage on which every integration test plays: owns the event_base, the server, the
 * readable trace of what happened, the waiting for events with a generous limit, and the
 * checks around each test (descriptors, events left in the base, keys left in Redis, its
 * time limit). Must not know lockwire; see players.h for clients and locks.
 *
 * Happy path: int main(void) { return STAGE_RUN(tests); }  with  STAGE_TEST(function) in
 * `tests`. One server serves all tests of an executable and is emptied for each.
 */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H
#include "range.h"
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <event2/event.h>

#define STAGE_WAIT_MS 30000 /* for whatever must happen */
#define STAGE_TEST_S 240    /* for one whole test */

struct stage {
    struct event_base *base;
    struct server server;
    const char *test;
    bool keys_may_stay;  /* set by a test that leaves keys behind on purpose */
    bool notes_may_stay; /* clients died: who they were stands there until it expires */
    bool broken;         /* a callback saw what must not be */
    char complaint[1024];
    char trace[65536]; /* events not yet expected, "; " between them */
    char history[65536];
    bool stalled;         /* by the test itself, with stage_stall() */
    int64_t worst_lag_ms; /* how late the loop was at worst since stage_forget_lag() */
    struct event *tick;
    int64_t ticked_ms;
    int descriptors;
};
extern struct stage stage;

struct stage_test {
    const char *name;
    void (*function)(void **state);
};
#define STAGE_TEST(function)                                                             \
    {                                                                                    \
#function, stage_play, stage_set, stage_strike, &(struct stage_test)             \
        {                                                                                \
#function, function                                                          \
        }                                                                                \
    }
/* The environment's LOCKWIRE_TEST picks tests by a pattern of their names. */
#define STAGE_RUN(tests)                                                                 \
    (cmocka_set_test_filter(getenv("LOCKWIRE_TEST")),                                    \
     cmocka_run_group_tests(tests, stage_open, stage_close))

int stage_open(void **state);
int stage_close(void **state);
int stage_set(void **state);
void stage_play(void **state); /* the test, then the checks of what it left behind */
int stage_strike(void **state);

/* Ends the test; not to be called inside the loop. Where the loop stood still for longer
 * than a lease may bear, the machine failed and not the test: it is played again, twice
 * at most. Not where a rule or an invariant was broken, nor where the test itself
 * stalled. */
_Noreturn void stage_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Inside a callback: the test fails as soon as the loop is left. */
void stage_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t now_ms(void);

/* Runs the loop until `condition` holds, which is looked at after each turn, at least
 * every few milliseconds. */
#define UNTIL(condition)                                                                 \
    do {                                                                                 \
        for (int64_t until_ = now_ms() + STAGE_WAIT_MS; !(condition);) {                 \
            stage_turn(until_, #condition, __FILE__, __LINE__);                          \
        }                                                                                \
    } while (0)
void stage_turn(int64_t limit_ms, const char *awaited, const char *file, int line);
/* Runs the loop for so long. */
void stage_run_for(int64_t ms);
/* As a host's long callback would: the loop does not run. */
void stage_stall(int64_t ms);

/* Plays the test once more, at last skips it, if the machine was so slow that the loop
 * ran late by this. */
void stage_skip_if_lag(int64_t ms);
void stage_forget_lag(void);

/* Adds an event to the trace. */
void stage_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits for as many events as `events` has ("A granted; B EBUSY") and compares. */
#define EXPECT(events) stage_expect(events, __FILE__, __LINE__)
void stage_expect(const char *events, const char *file, int line);
/* The same, the order left open. */
#define EXPECT_SET(events) stage_expect_set(events, __FILE__, __LINE__)
void stage_expect_set(const char *events, const char *file, int line);
/* Nothing happens for so long. */
void stage_expect_nothing(int64_t ms);
/* Forgets what happened. */
void stage_clear_trace(void);
/* Does the unexpected trace have it? */
bool stage_has(const char *event);

/* What the players of one test do when it is over (players.h, process.h register). */
typedef void stage_exit_function(bool in_good_order);
void stage_at_exit(stage_exit_function *function);

#endif
