/* SPDX-License-Identifier: MIT */
/*
 * The end of a token as traces (machine_trace.h): releases whose replies are lost, late
 * or "not held".
 *
 * Usual course: machine.c's first test.
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

/* Once its time has expired it is sent as a release, which counts the owner's holds. */
static void test_a_detach_of_an_owner_with_further_holds(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release detaches -> release, releasing\n"
                           "901 unknown unlinked -> release_due due=10900\n"
                           "2000 retry_now -> release, releasing\n"
                           "2001 released released holds=2 -> RELEASED OK, END, ended\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sent_again_and_not_ours),
        cmocka_unit_test(test_first_sent_before_D_and_after),
        cmocka_unit_test(test_a_token_that_should_stay_and_is_gone),
        cmocka_unit_test(test_a_detach_of_an_owner_with_further_holds),
        cmocka_unit_test(test_an_adoption_fails),
        cmocka_unit_test(test_an_unknown_ask_is_no_unknown_release),
        cmocka_unit_test(test_a_release_ends_with_its_lease),
        cmocka_unit_test(test_a_release_that_no_server_could_execute_is_no_unknown_one),
        cmocka_unit_test(test_released_but_more_to_do),
        cmocka_unit_test(test_given_back_for_a_token_long_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
