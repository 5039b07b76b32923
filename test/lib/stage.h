/* SPDX-License-Identifier: MIT */
/*
 * The stage on which every integration test plays. Owns the event_base, the server, the
 * readable trace of events, the waiting for events with a generous limit, and the checks
 * around each test (descriptors, events left in the base, keys left in Redis, its time
 * limit). Independent of lockwire; see players.h for clients and locks.
 *
 * Usual course: int main(void) { return STAGE_RUN(tests); }  with  STAGE_TEST(function)
 * in `tests`. One server serves all tests of an executable, and is emptied for each.
 */
#ifndef TEST_STAGE_H
#define TEST_STAGE_H
#include "asserts.h"
#include "server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <event2/event.h>

#define STAGE_WAIT_MS 60000 /* for anything that must happen; a quorum may need 41 s */
#define STAGE_TEST_S 240    /* for one whole test */

struct stage {
    struct event_base *base;
    struct server server;
    const char *test;
    bool keys_may_stay;  /* set by a test that leaves keys behind on purpose */
    const char *prefix;  /* of all clients that are given none; NULL: none */
    bool notes_may_stay; /* clients died: their identity keys stay until they expire */
    bool broken;         /* a callback found a broken rule */
    bool asked;          /* the test sent a command to a server: see stage_turn() */
    char complaint[1024];
    char trace[65536]; /* events not yet expected, "; " between them */
    char history[65536];
    bool stalled;            /* by the test, with stage_stall(), or by the library */
    int64_t worst_lag_ms;    /* how late the loop was at worst since stage_forget_lag() */
    int64_t relied_until_ms; /* by stage_relies_until() */
    struct event *tick;
    struct event *pause; /* its end wakes stage_run_for() */
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
/* The environment variable LOCKWIRE_TEST selects tests by a pattern of their names. */
#define STAGE_RUN(tests)                                                                 \
    (cmocka_set_test_filter(getenv("LOCKWIRE_TEST")),                                    \
     cmocka_run_group_tests(tests, stage_open, stage_close))

int stage_open(void **state);
int stage_close(void **state);
int stage_set(void **state);
void stage_play(void **state); /* the test, then the checks for leftovers */
int stage_strike(void **state);

/* Ends the test; must not be called inside the loop. If the loop stood still for longer
 * than leases in tests can bear, the machine failed and not the test: it is repeated,
 * twice at most, with a line "repeated: TEST". It is not repeated if a rule or an
 * invariant was broken, or if the test itself stalled. asserts.h's asserts call this. */
_Noreturn void stage_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* For callbacks: the test fails as soon as the loop returns. */
void stage_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns milliseconds of CLOCK_BOOTTIME. */
int64_t now_ms(void);

/* Runs the loop until `condition` holds, and checks it in between. */
#define UNTIL(condition) UNTIL_FOR(STAGE_WAIT_MS, condition)
#define UNTIL_FOR(ms, condition)                                                         \
    do {                                                                                 \
        for (struct stage_wait wait_ = stage_wait_for(ms); !(condition);) {              \
            stage_turn(&wait_, #condition, __FILE__, __LINE__);                          \
        }                                                                                \
    } while (0)
struct stage_wait {
    int64_t limit_ms, most_ms;
    int64_t pause_ms; /* before the next look at a server */
};
struct stage_wait stage_wait_for(int64_t ms);
/* Turns the loop once. If the condition has asked a server since the last turn, runs the
 * loop for a pause that grows from look to look: an answer costs the server and the test
 * more time than a variable does. Fails after the limit. */
void stage_turn(struct stage_wait *wait, const char *awaited, const char *file, int line);
/* Runs the loop for so long. */
void stage_run_for(int64_t ms);
/* Stalls like a long callback of the host: the loop does not run. */
void stage_stall(int64_t ms);

/* Repeats the test, or finally skips it, if the machine was so slow that the test shows
 * nothing. Each repetition prints "repeated: TEST", and a skip "slow: TEST". */
void stage_skip_if(bool too_slow);
/* The same if the loop ran more than `ms` late. */
void stage_skip_if_lag(int64_t ms);
void stage_forget_lag(void);

/* What the test checks from now on holds until this time by now_ms(), e.g. while a server
 * is closed. A failure after that time is the machine's: the test is repeated, or finally
 * skipped. An event that does not come within the limit of its wait is not: see
 * stage_fail(). 0: no such time. */
void stage_relies_until(int64_t limit_ms);

/* Fails if the loop stood still for `ms` since stage_forget_lag(): the library must not
 * block it. The time in which this process waited for a CPU does not count, so that the
 * test is not repeated. */
void stage_expect_turning(int64_t ms);

/* Adds an event to the trace. */
void stage_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits for as many events as `events` lists ("A granted; B EBUSY"), and compares. */
#define EXPECT(events) stage_expect(events, __FILE__, __LINE__)
void stage_expect(const char *events, const char *file, int line);
/* The same in any order. */
#define EXPECT_SET(events) stage_expect_set(events, __FILE__, __LINE__)
void stage_expect_set(const char *events, const char *file, int line);
/* Runs the loop for so long; no event may come. */
void stage_expect_nothing(int64_t ms);
/* Forgets all events so far. */
void stage_clear_trace(void);
/* Returns true if the events not yet expected include this one. */
bool stage_has(const char *event);

/* Called when a test has ended (players.h, process.h register one). */
typedef void stage_exit_function(bool in_good_order);
void stage_at_exit(stage_exit_function *function);

#endif
