/* SPDX-License-Identifier: MIT */
/*
 * The claim window and the times around it, each rule on both sides of its boundary, as
 * traces (machine_trace.h). Here a request is sent at 5 ms, when the server's clock shows
 * 50005 ms, and its window is 2000 ms: if handed over at 50005 ms it may be held until D
 * = 5 + 2000 - 22.
 *
 * Usual course: test_held_at_once_after_a_hand_over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "hold/machine.h"
#include "machine_trace.h"

/* Runs each line by itself on a token that waits. */
static void each_waiting(const char *lines)
{
    struct trace trace;

    for (; *lines; lines++) {
        char line[256] = "";

        for (size_t i = 0; *lines != '\n'; i++) {
            line[i] = *lines++;
        }
        trace_init(&trace);
        trace_run(&trace, TRACE_WAITS);
        trace_run(&trace, line);
    }
}

static void test_held_at_once_after_a_hand_over(void **state)
{
    (void)state;
    each_waiting("10 handed_over t=50005 fence=32 -> GRANT, held_by_message D=1983 "
                 "fence=32 due=505\n"
                 "10 handed_over t=50006 fence=32 -> GRANT, held_by_message D=1983.99 "
                 "fence=32 due=506\n"
                 "1000 handed_over t=50800 fence=32 -> GRANT, held_by_message D=2770.05 "
                 "fence=32 due=1300\n"
                 "3010 handed_over t=53005 fence=32 -> GRANT, held_by_message D=4953 "
                 "fence=32 due=3505\n");
}

/* More than a quarter of the window must be left. */
static void test_a_quarter_of_the_window_is_left(void **state)
{
    (void)state;
    each_waiting("1482.999 handed_over t=50005 fence=32 -> GRANT, held_by_message D=1983 "
                 "fence=32 due=505\n"
                 "1483 handed_over t=50005 fence=32 -> acquire, acquiring ticket=100\n"
                 "1990 handed_over t=50005 fence=32 -> acquire, acquiring ticket=100\n");
}

/* Besides the margin, half a window must be left for the renewal and its reply. */
static void test_more_than_the_margin_is_left(void **state)
{
    (void)state;
    trace_check("terms margin=600\n" TRACE_WAITS
                "382.999 handed_over t=50005 fence=32 -> GRANT, held_by_message D=1983 "
                "fence=32 due=505\n");
    trace_check("terms margin=600\n" TRACE_WAITS
                "383 handed_over t=50005 fence=32 -> acquire, acquiring ticket=100\n"
                "384 granted fence=48 -> GRANT, held D=10281 fence=48\n");
}

/* A hand-over from before the last reply cannot be dated. */
static void test_the_message_is_no_older_than_the_answer(void **state)
{
    (void)state;
    each_waiting("10 handed_over t=50004.999 fence=32 -> acquire, acquiring ticket=100\n"
                 "10 handed_over t=50005 fence=32 -> GRANT, held_by_message D=1983 "
                 "fence=32 due=505\n");
}

static void test_no_pair_no_belief(void **state)
{
    (void)state;
    each_waiting(
        "10 handed_over t=50005 s=0 tau=0 fence=32 -> acquire, acquiring ticket=100\n"
        "10 handed_over t=50005 s=5 tau=50005 fence=32 -> GRANT, held_by_message D=1983 "
        "fence=32 due=505\n");
}

/* More time may have passed on the server than here only by the rates of the clocks. */
static void test_a_server_clock_that_was_set(void **state)
{
    (void)state;
    each_waiting(
        "1005 handed_over t=51017 fence=32 -> GRANT, held_by_message D=2984.88 fence=32 "
        "due=1517\n"
        "1005 handed_over t=51017.001 fence=32 -> acquire, acquiring ticket=100\n"
        "1005 handed_over t=110000 fence=32 -> acquire, acquiring ticket=100\n"
        "1005 handed_over t=9007199254740.992 fence=32 -> acquire, acquiring "
        "ticket=100\n");
}

/* The longer ago the reply, the more the clocks may differ. */
static void test_drift_counts_from_the_answer(void **state)
{
    (void)state;
    each_waiting(
        "100005 handed_over t=150005 fence=32 -> GRANT, held_by_message D=100983 "
        "fence=32 due=100505\n"
        "100505 handed_over t=150005 fence=32 -> acquire, acquiring ticket=100\n"
        "101004 handed_over t=150005 fence=32 -> acquire, acquiring ticket=100\n");
}

/* After a late message the lock is requested again, and the reply decides. */
static void test_late_and_alone_late_and_overtaken(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "8 queued left=9000 pos=0 -> BUSY, queued due=3008 ticket=100\n"
                "1900 handed_over t=50010 fence=32 -> acquire, acquiring ticket=100\n"
                "1905 granted fence=48 -> GRANT, held D=11798 fence=48\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "8 queued left=9000 pos=0 -> BUSY, queued due=3008 ticket=100\n"
                "2500 handed_over t=50010 fence=32 -> acquire, acquiring ticket=100\n"
                "2505 queued left=1500 pos=0 -> BUSY, queued due=3005 ticket=100\n"
                "2550 handed_over t=52540 fence=64 -> GRANT, held_by_message D=4517.6 "
                "fence=64 due=3040\n");
}

/* The lease is extended at a quarter of the window, counted from the hand-over. */
static void test_extended_at_a_quarter(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "8 queued left=9000 pos=0 -> BUSY, queued due=3008 ticket=100\n"
                "3000 handed_over t=52900 fence=32 -> GRANT, held_by_message D=4849 "
                "fence=32 due=3400\n"
                "3401 renewed sent=3400 lease=10000 -> held D=13298 fence=32\n");
}

/* ---- a message while a request is in flight ---- */

static void test_an_answer_decides_over_the_message(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50002 fence=32 -> acquiring\n"
                "5 granted fence=48 -> GRANT, held D=9898 fence=48\n");
}

/* If the reply's server time (tau) is no later than the hand-over (t), the message is
 * newer and counts. If the reply's time is later, the hand-over is no longer valid. */
static void test_a_message_noted_while_asking(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50002 fence=32 -> acquiring\n"
                "5 queued left=1 pos=0 server=50002 -> GRANT, held_by_message D=1978 "
                "fence=32 due=500\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50002 fence=32 -> acquiring\n"
                "5 queued left=1000 pos=0 server=50002.001 -> BUSY, queued due=338 "
                "ticket=100\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50002 fence=32 -> acquiring\n"
                "1990 queued left=1 pos=0 server=50001 -> acquire, acquiring ticket=100\n"
                "1991 granted fence=48 -> GRANT, held D=11888 fence=48\n");
}

/* Messages may come in either order: the later hand-over counts. */
static void test_two_messages_in_either_order(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50002 fence=32 -> acquiring\n"
                "4 handed_over t=50500 fence=64 -> acquiring\n"
                "600 queued left=1 pos=0 server=50001 -> GRANT, held_by_message "
                "D=2472.01 fence=64 due=999\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "3 handed_over t=50500 fence=64 -> acquiring\n"
                "4 handed_over t=50002 fence=32 -> acquiring\n"
                "600 queued left=1 pos=0 server=50001 -> GRANT, held_by_message "
                "D=2472.01 fence=64 due=999\n");
}

static void test_a_noted_message_is_forgotten_with_its_ask(void **state)
{
    (void)state;
    trace_check(
        "0 start script -> acquire, acquiring\n"
        "3 handed_over t=50002 fence=32 -> acquiring\n"
        "5 unknown -> queued due=55\n"
        "55 due -> acquire, acquiring\n"
        "57 queued left=1000 pos=0 server=50001 -> BUSY, queued due=390 ticket=100\n");
}

static void test_messages_to_one_who_holds_or_leaves(void **state)
{
    (void)state;
    trace_check(
        "0 start script -> acquire, acquiring\n"
        "8 queued left=9000 pos=0 -> BUSY, queued due=3008 ticket=100\n"
        "10 handed_over t=50010 fence=32 -> GRANT, held_by_message D=1987.9 fence=32 "
        "due=510\n"
        "11 handed_over t=50010 fence=32 -> held_by_message D=1987.9 fence=32 due=510\n"
        "12 handed_over t=50011 fence=64 -> held_by_message D=1987.9 fence=32 due=510\n"
        "20 release -> release, releasing\n"
        "21 handed_over t=50021 fence=80 -> releasing\n"
        "22 released released -> RELEASED OK, END, ended\n"
        "23 handed_over t=50021 fence=80 -> ended\n");
}

/* ---- standing by, polling ---- */

/* The token is due when the window in the message has ended; but no later than it was due
 * without that message, since the lock may be free by then. */
static void test_standby(void **state)
{
    (void)state;
    each_waiting("1000 standby window=2000 -> queued due=3002 ticket=100\n"
                 "4005.999 standby window=2000 -> queued due=6007.999 ticket=100\n"
                 "4006.001 standby window=2000 -> queued due=6008 ticket=100\n"
                 "1000 standby window=60000 -> queued due=6008 ticket=100\n");
}

/* The server may have executed the request before the command that shortened the lease.
 * The request that follows a message has a reply that is later. */
static void test_standby_while_a_request_is_in_flight(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 standby window=1000 -> acquiring due=1007\n"
                "6 standby window=700 -> acquiring due=708\n"
                "7 standby window=800 -> acquiring due=708\n"
                "8 queued left=9000 pos=0 -> BUSY, queued due=708 ticket=100\n"
                "708 due -> acquire, acquiring ticket=100\n"
                "710 queued left=9000 pos=0 -> BUSY, queued due=3710 ticket=100\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "5 standby window=2000 -> acquiring due=2007\n"
                "8 queued left=300 pos=0 -> BUSY, queued due=108 ticket=100\n");
}

static void test_standby_before_a_late_reply(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 standby window=100 -> acquiring due=107\n"
                "106.999 due -> acquiring due=107\n"
                "107 due -> acquiring\n"
                "108 queued left=9000 pos=0 -> BUSY, acquire, acquiring ticket=100\n"
                "110 granted fence=7 -> GRANT, held D=10006 fence=7\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "5 standby window=100 -> acquiring due=107\n"
                "8 granted fence=7 -> GRANT, held D=9898 fence=7\n");
}

/* clamp(remaining / 3, 50 ms, 3 s) * (position + 1), at most 10 s for the first hundred
 * and 30 s beyond; the head also polls when the lease ends. */
static void test_poll_delays(void **state)
{
    static const struct {
        int64_t remaining_ms, position, expected_us;
    } cases[] = {
        {9000, 0, 3000000},
        {8999, 0, 2999000},
        {9003, 0, 3000000},
        {-1, 0, 3000000},
        {0, 0, 1000},
        {48, 0, 49000},
        {49, 0, 50000},
        {149, 0, 50000},
        {150, 0, 50000},
        {153, 0, 51000},
        {0, 1, 100000},
        {149, 3, 200000},
        {150, -1, 200000},
        {9000, -1, 3000000},
        {-1, -1, 3000000},
        {9000, 2, 9000000},
        {9000, 3, 10000000},
        {7500, 3, 10000000},
        {7497, 3, 9996000},
        {9000, 99, 10000000},
        {9000, 100, 30000000},
        {0, 99, 5000000},
        {0, 100, 5050000},
        {0, 598, 29950000},
        {0, 600, 30000000},
        {INT64_MAX, 0, 3000000},
        {INT64_MAX, INT64_MAX, 30000000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(lw__machine_poll_us(cases[i].remaining_ms, cases[i].position, 0),
                         cases[i].expected_us);
    }
}

static void test_poll_delays_jitter_by_a_tenth(void **state)
{
    (void)state;
    assert_int_equal(lw__machine_poll_us(9000, 0, 1000), 3300000);
    assert_int_equal(lw__machine_poll_us(9000, 0, -1000), 2700000);
    assert_int_equal(lw__machine_poll_us(9000, 0, 500), 3150000);
    /* exactly when the lease ends */
    assert_int_equal(lw__machine_poll_us(10, 0, 1000), 11000);
}

static void test_drift(void **state)
{
    (void)state;
    assert_int_equal(lw__machine_drift_us(0), 2000);
    assert_int_equal(lw__machine_drift_us(100000), 3000);
    assert_int_equal(lw__machine_drift_us(30000000), 302000);
    assert_int_equal(lw__machine_drift_us((int64_t)INT32_MAX * 1000), 21474838470);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_at_once_after_a_hand_over),
        cmocka_unit_test(test_a_quarter_of_the_window_is_left),
        cmocka_unit_test(test_more_than_the_margin_is_left),
        cmocka_unit_test(test_the_message_is_no_older_than_the_answer),
        cmocka_unit_test(test_no_pair_no_belief),
        cmocka_unit_test(test_a_server_clock_that_was_set),
        cmocka_unit_test(test_drift_counts_from_the_answer),
        cmocka_unit_test(test_late_and_alone_late_and_overtaken),
        cmocka_unit_test(test_extended_at_a_quarter),
        cmocka_unit_test(test_an_answer_decides_over_the_message),
        cmocka_unit_test(test_a_message_noted_while_asking),
        cmocka_unit_test(test_two_messages_in_either_order),
        cmocka_unit_test(test_a_noted_message_is_forgotten_with_its_ask),
        cmocka_unit_test(test_messages_to_one_who_holds_or_leaves),
        cmocka_unit_test(test_standby),
        cmocka_unit_test(test_standby_while_a_request_is_in_flight),
        cmocka_unit_test(test_standby_before_a_late_reply),
        cmocka_unit_test(test_poll_delays),
        cmocka_unit_test(test_poll_delays_jitter_by_a_tenth),
        cmocka_unit_test(test_drift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
