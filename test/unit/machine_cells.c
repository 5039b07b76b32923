/* SPDX-License-Identifier: MIT */
/*
 * Every event in every phase as traces (machine_trace.h). The first lines lead to the
 * phase, and each of the other lines starts from there. An event without a line must
 * change nothing.
 *
 * Each test is a column of the table (phase x event).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_trace.h"

static void test_idle(void **state)
{
    (void)state;
    trace_cells("terms lease=10000\n", "10 start -> try, acquiring\n"
                                       "10 start script -> acquire, acquiring\n"
                                       "10 start unlinked -> queued\n"
                                       "10 release -> release, releasing\n");
}

static void test_asking(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, acquiring\n",
                "10 granted fence=40 -> GRANT, held D=9898 fence=40\n"
                "10 not_granted -> acquire, acquiring\n"
                "10 queued left=9000 pos=1 -> BUSY, queued due=6010 ticket=100\n"
                "10 queued left=9000 pos=-1 -> BUSY, queued due=3010\n"
                "10 queued left=9000 pos=1 again -> BUSY, acquire, acquiring ticket=100\n"
                "10 deadlock -> FAIL EDEADLOCK, END, ended\n"
                "10 not_adopted -> FAIL ENOTHELD, END, ended\n"
                "10 unknown -> queued due=60\n"
                "10 unknown unlinked -> queued\n"
                "10 unknown unsent unlinked -> queued\n"
                "10 refused -> FAIL EREDIS, release, releasing\n"
                "10 refused unsent -> FAIL EREDIS, END, ended\n"
                "10 handed_over t=50010 fence=32 -> acquiring\n"
                "10 standby window=2000 -> acquiring due=2012\n"
                "10 retry_now -> acquiring\n"
                "10 cancel -> acquiring\n");
}

static void test_asking_for_nobody(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, acquiring\n"
                "5 cancel -> acquiring\n",
                "10 granted fence=40 -> release, releasing\n"
                "10 not_granted -> release, releasing\n"
                "10 queued left=9000 pos=1 -> release, releasing ticket=100\n"
                "10 queued left=9000 pos=-1 -> END, ended\n"
                "10 queued left=9000 pos=1 again -> release, releasing ticket=100\n"
                "10 deadlock -> FAIL EDEADLOCK, END, ended\n"
                "10 not_adopted -> FAIL ENOTHELD, END, ended\n"
                "10 unknown -> release, releasing\n"
                "10 unknown unlinked -> release, releasing\n"
                "10 unknown unsent unlinked -> END, ended\n"
                "10 refused -> FAIL EREDIS, release, releasing\n"
                "10 refused unsent -> FAIL EREDIS, END, ended\n"
                "10 handed_over t=50010 fence=32 -> acquiring\n"
                "10 standby window=2000 -> acquiring due=2012\n"
                "10 retry_now -> acquiring\n");
}

static void test_queued(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=1 -> BUSY, queued due=6005 ticket=100\n",
                "10 handed_over t=50010 fence=32 -> GRANT, held_by_message D=1987.9 "
                "fence=32 due=510\n"
                "10 standby window=2000 -> queued due=2012 ticket=100\n"
                "10 retry_now -> acquire, acquiring ticket=100\n"
                "10 cancel -> release, releasing ticket=100\n"
                "6004.999 due -> queued due=6005 ticket=100\n"
                "6005 due -> acquire, acquiring ticket=100\n");
}

static void test_queued_without_a_place(void **state)
{
    (void)state;
    trace_cells("0 start unlinked -> queued\n",
                "10 handed_over t=50010 fence=32 -> acquire, acquiring\n"
                "10 standby window=2000 -> queued due=2012\n"
                "10 retry_now -> acquire, acquiring\n"
                "10 cancel -> END, ended\n");
}

static void test_held(void **state)
{
    (void)state;
    trace_cells(TRACE_HELD, "10 renewed lease=10000 -> held D=9898 fence=7\n"
                            "10 lost_on_server -> LOST, END, ended\n"
                            "10 release -> release, releasing\n"
                            "10 undelivered -> acquire, acquiring\n"
                            "10 shorten lease=5000 -> held D=4958 fence=7\n"
                            "10 voted D=5000 -> held D=5000 fence=7\n"
                            "10 lost_locally at=500 -> expired D=500 due=500\n"
                            "10 lost_locally at=99999 -> expired D=9898 due=9898\n");
}

static void test_held_by_message(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=1 -> BUSY, queued due=6005 ticket=100\n"
                "8 handed_over t=50008 fence=32 -> GRANT, held_by_message D=1985.92 "
                "fence=32 due=508\n",
                "10 renewed lease=10000 -> held D=9898 fence=32\n"
                "10 lost_on_server -> LOST, END, ended\n"
                "10 release -> release, releasing\n"
                "10 undelivered -> acquire, acquiring\n"
                "10 shorten lease=1000 -> held_by_message D=998 fence=32 due=508\n"
                "10 voted D=1000 -> held_by_message D=1000 fence=32 due=508\n"
                "10 lost_locally -> expired D=1985.92 due=1985.92\n");
}

static void test_lapsed(void **state)
{
    (void)state;
    trace_cells(TRACE_HELD "8 lost_locally -> expired D=9898 due=9898\n",
                "10 release -> release, releasing\n"
                "10 lost_on_server -> END, ended\n"
                "9897.999 due -> expired D=9898 due=9898\n"
                "9898 due -> release, releasing\n");
}

static void test_leaving(void **state)
{
    (void)state;
    trace_cells(TRACE_HELD "8 release -> release, releasing\n",
                "10 released -> RELEASED ENOTHELD, END, ended\n"
                "10 released released -> RELEASED OK, END, ended\n"
                "10 released released again -> release, releasing\n"
                "10 released released holds=2 -> RELEASED STILLHELD, END, ended\n"
                "10 unknown -> release_due due=60\n"
                "10 unknown unlinked -> release_due due=10008\n"
                "10 unknown unsent unlinked -> release_due due=10008\n"
                "10 refused -> RELEASED EREDIS, END, ended\n");
}

static void test_leaving_between_two_tries(void **state)
{
    (void)state;
    trace_cells(TRACE_HELD "8 release -> release, releasing\n"
                           "9 unknown -> release_due due=59\n",
                "58.999 due -> release_due due=59\n"
                "59 released -> RELEASED OK, END, ended\n"
                "59 released released -> RELEASED OK, END, ended\n"
                "59 released released again -> release, releasing\n"
                "59 released released holds=2 -> RELEASED STILLHELD, END, ended\n"
                "59 unknown -> release_due due=159\n"
                "59 unknown unlinked -> release_due due=10008\n"
                "59 unknown unsent unlinked -> release_due due=10008\n"
                "59 refused -> RELEASED EUNKNOWN, END, ended\n"
                "59 retry_now -> release, releasing\n"
                "59 due -> release, releasing\n");
}

static void test_ended(void **state)
{
    (void)state;
    trace_cells("0 start unlinked -> queued\n"
                "5 cancel -> END, ended\n",
                "10 start -> ended\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_asking),
        cmocka_unit_test(test_asking_for_nobody),
        cmocka_unit_test(test_queued),
        cmocka_unit_test(test_queued_without_a_place),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_held_by_message),
        cmocka_unit_test(test_lapsed),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_leaving_between_two_tries),
        cmocka_unit_test(test_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
