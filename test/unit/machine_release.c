/* SPDX-License-Identifier: MIT */
/*
 * The end of a token as traces (machine_trace.h): releases whose replies are lost, late
 * or "not held"; and reacquiring, when a fresh token takes its place.
 *
 * Usual course: machine.c's first test; here test_a_turn_is_granted_or_queued.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_trace.h"

/* ---- releases without an answer ---- */

static void test_sent_again_and_not_ours(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "2000 retry_now -> release, releasing\n"
                           "2001 released -> RELEASED OK, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 released -> RELEASED ENOTHELD, END, ended\n");
}

/* A release is presumed to have worked only if it was first sent before D. */
static void test_first_sent_before_D_and_after(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "900 unknown unsent unlinked -> release_due due=10900\n"
                           "9897.999 retry_now -> release, releasing\n"
                           "9899 unknown -> release_due due=9949\n"
                           "9949 due -> release, releasing\n"
                           "9950 released holds=2 -> RELEASED STILLHELD, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "900 unknown unsent unlinked -> release_due due=10900\n"
                           "9898 retry_now -> release, releasing\n"
                           "9899 unknown -> release_due due=9949\n"
                           "9949 due -> release, releasing\n"
                           "9950 released -> RELEASED ENOTHELD, END, ended\n");
}

/* A token that was detached stays, so that its absence shows that it was not, or that
 * another client has released or adopted it since. */
static void test_a_token_that_should_stay_and_is_gone(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release detaches -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "2000 retry_now -> release, releasing\n"
                           "2001 released -> RELEASED ENOTHELD, END, ended\n");
    trace_check(TRACE_HELD "10 lost_locally at=500 -> expired D=500 due=500\n"
                           "100 release detaches -> release, releasing\n"
                           "101 unknown unlinked -> release_due due=10100\n"
                           "200 retry_now -> release, releasing\n"
                           "201 released -> RELEASED ENOTHELD, END, ended\n");
    trace_check(TRACE_HELD "900 release detaches -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "2000 retry_now -> release, releasing\n"
                           "2001 released released -> RELEASED OK, END, ended\n");
}

/* An attempt without a reply may have adopted the lock. */
static void test_an_adoption_fails(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "1 unknown -> queued due=51\n"
                "51 due -> acquire, acquiring\n"
                "52 not_adopted -> FAIL ENOTHELD, release, releasing\n"
                "53 released -> RELEASED ENOTHELD, END, ended\n");
}

/* An unknown outcome of the request says nothing about the release. */
static void test_an_unknown_ask_is_no_unknown_release(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "1 unknown -> queued due=51\n"
                "51 due -> acquire, acquiring\n"
                "52 granted fence=7 -> GRANT, held D=9949 fence=7\n"
                "900 release -> release, releasing\n"
                "901 released -> RELEASED ENOTHELD, END, ended\n");
}

static void test_a_release_ends_with_its_lease(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "10900 due -> RELEASED EUNKNOWN, END, ended\n");
    trace_check(TRACE_HELD "5000 renewed sent=4999 lease=60000 -> held D=64397 fence=7\n"
                           "6000 release -> release, releasing\n"
                           "6001 unknown -> release_due due=6051\n"
                           "6051 due -> release, releasing\n"
                           "6052 unknown unlinked -> release_due due=64397\n"
                           "64397 due -> RELEASED EUNKNOWN, END, ended\n");
}

/* Every attempt was answered, or none was sent: the token is known to be in Redis still.
 */
static void test_a_release_that_no_server_could_execute_is_no_unknown_one(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 unknown unsent unlinked -> release_due due=10900\n"
                           "10900 due -> RELEASED ECONN, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 unknown unsent -> release_due due=951\n"
                           "951 due -> release, releasing\n"
                           "952 unknown unlinked -> release_due due=10900\n"
                           "960 retry_now -> release, releasing\n"
                           "961 unknown unsent unlinked -> release_due due=10900\n"
                           "10900 due -> RELEASED EUNKNOWN, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 refused unsent for_now -> RELEASED ECONN, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "960 retry_now -> release, releasing\n"
                           "961 refused unsent -> RELEASED EUNKNOWN, END, ended\n");
}

static void test_released_but_more_to_do(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 released released again -> release, releasing\n"
                           "902 released again -> release, releasing\n"
                           "903 unknown -> release_due due=953\n"
                           "953 due -> release, releasing\n"
                           "954 released -> RELEASED OK, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "901 released released again -> release, releasing\n"
                           "903 refused -> RELEASED OK, END, ended\n");
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "903 refused -> RELEASED EREDIS, END, ended\n");
}

static void test_given_back_for_a_token_long_gone(void **state)
{
    (void)state;
    trace_check("terms lease=2000\n"
                "0 release -> release, releasing\n"
                "1 released released -> RELEASED OK, END, ended\n");
    trace_check("terms lease=2000\n"
                "0 release -> release, releasing\n"
                "1 unknown unlinked -> release_due due=2000\n"
                "2000 due -> RELEASED EUNKNOWN, END, ended\n");
}

/* ---- reacquiring ---- */

static void test_a_turn_is_granted_or_queued(void **state)
{
    (void)state;
    trace_check(
        TRACE_HELD
        "100 reacquire -> acquire, reacquiring\n"
        "101 granted released fence=23 -> RELEASED OK, GRANT, held D=9998 fence=23\n"
        "200 reacquire -> acquire, reacquiring\n"
        "201 queued released left=2000 pos=3 -> RELEASED OK, REFUSE, queued due=2865 "
        "ticket=100\n"
        "2865 due -> acquire, acquiring ticket=100\n"
        "2866 granted fence=55 -> GRANT, held D=12763 fence=55\n");
    trace_check(
        TRACE_HELD
        "100 reacquire -> acquire, reacquiring\n"
        "101 granted fence=23 -> RELEASED ENOTHELD, GRANT, held D=9998 fence=23\n");
}

static void test_a_turn_with_its_answer_lost(void **state)
{
    (void)state;
    trace_check(TRACE_HELD
                "100 reacquire -> acquire, reacquiring\n"
                "5000 unknown unlinked -> reacquire_due\n"
                "6000 retry_now -> acquire, reacquiring\n"
                "6001 granted fence=40 -> RELEASED OK, GRANT, held D=15898 fence=40\n");
    trace_check(
        TRACE_HELD
        "100 reacquire -> acquire, reacquiring\n"
        "101 unknown unsent unlinked -> reacquire_due\n"
        "9898 retry_now -> acquire, reacquiring\n"
        "9899 unknown -> reacquire_due due=9949\n"
        "9949 due -> acquire, reacquiring\n"
        "9950 queued left=2000 pos=-1 -> RELEASED ENOTHELD, REFUSE, queued due=12614\n");
}

/* Only the reacquire script can have queued the next token, so that it has also released
 * the previous one. */
static void test_a_turn_known_by_a_message(void **state)
{
    (void)state;
    trace_check(TRACE_HELD
                "100 reacquire -> acquire, reacquiring\n"
                "150 unknown -> reacquire_due due=200\n"
                "180 handed_over s=90 tau=60000 t=60080 fence=64 -> RELEASED OK, GRANT, "
                "held_by_message D=2147.2 fence=64 due=670\n"
                "300 release -> release, releasing\n"
                "301 released released -> RELEASED OK, END, ended\n");
}

/* The reply still matters for the release, until the previous token's D. */
static void test_a_turn_given_up(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "100 reacquire -> acquire, reacquiring\n"
                           "120 cancel -> reacquiring\n"
                           "150 unknown -> reacquire_due due=200\n"
                           "200 due -> acquire, reacquiring\n"
                           "201 granted fence=40 -> RELEASED OK, release, releasing\n"
                           "202 released released -> RELEASED OK, END, ended\n");
    trace_check(TRACE_HELD "100 reacquire -> acquire, reacquiring\n"
                           "150 unknown unlinked -> reacquire_due\n"
                           "151 cancel -> reacquire_due due=9898\n"
                           "9898 due unlinked -> RELEASED EUNKNOWN, release, releasing\n"
                           "9898 unknown unsent unlinked -> release_due due=19898\n"
                           "19898 due -> RELEASED EUNKNOWN, END, ended\n");
    trace_check(TRACE_HELD "100 reacquire -> acquire, reacquiring\n"
                           "100 unknown unsent unlinked -> reacquire_due\n"
                           "151 cancel -> reacquire_due due=9898\n"
                           "9898 due -> RELEASED ECONN, END, ended\n");
}

static void test_a_turn_refused(void **state)
{
    (void)state;
    trace_check(TRACE_HELD
                "100 reacquire -> acquire, reacquiring\n"
                "150 refused -> RELEASED EREDIS, FAIL EREDIS, release, releasing\n"
                "151 released -> RELEASED OK, END, ended\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sent_again_and_not_ours),
        cmocka_unit_test(test_first_sent_before_D_and_after),
        cmocka_unit_test(test_a_token_that_should_stay_and_is_gone),
        cmocka_unit_test(test_an_adoption_fails),
        cmocka_unit_test(test_an_unknown_ask_is_no_unknown_release),
        cmocka_unit_test(test_a_release_ends_with_its_lease),
        cmocka_unit_test(test_a_release_that_no_server_could_execute_is_no_unknown_one),
        cmocka_unit_test(test_released_but_more_to_do),
        cmocka_unit_test(test_given_back_for_a_token_long_gone),
        cmocka_unit_test(test_a_turn_is_granted_or_queued),
        cmocka_unit_test(test_a_turn_with_its_answer_lost),
        cmocka_unit_test(test_a_turn_known_by_a_message),
        cmocka_unit_test(test_a_turn_given_up),
        cmocka_unit_test(test_a_turn_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
