/* SPDX-License-Identifier: MIT */
/*
 * Every event in every phase, told as traces (see machine_trace.h): behind the first
 * lines, which lead to the phase, each line stands by itself; an event that has no line
 * there must change nothing.
 *
 * Happy path: each test reads as a column of the table (phase x event).
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
    trace_cells("terms lease=10000\n", "10 start -> try, asking\n"
                                       "10 start script -> acquire, asking\n"
                                       "10 start unlinked -> queued\n"
                                       "10 release -> release, leaving\n");
}

static void test_asking(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, asking\n",
                "10 granted fence=40 -> GRANT, held D=9898 fence=40\n"
                "10 granted released fence=40 -> GRANT, held D=9898 fence=40\n"
                "10 not_granted -> acquire, asking\n"
                "10 queued left=9000 pos=1 -> BUSY, queued due=6010 ticket=100\n"
                "10 queued left=9000 pos=-1 -> BUSY, queued due=3010\n"
                "10 queued left=9000 pos=1 again -> BUSY, acquire, asking ticket=100\n"
                "10 deadlock -> FAIL EDEADLOCK, END, ended\n"
                "10 unknown -> queued due=60\n"
                "10 unknown unlinked -> queued\n"
                "10 unknown unsent unlinked -> queued\n"
                "10 refused -> FAIL EREDIS, release, leaving\n"
                "10 refused unsent -> FAIL EREDIS, END, ended\n"
                "10 handed t=50010 fence=32 -> asking\n"
                "10 ask_now -> asking\n"
                "10 abandon -> asking\n");
}

static void test_asking_for_nobody(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, asking\n"
                "5 abandon -> asking\n",
                "10 granted fence=40 -> release, leaving\n"
                "10 granted released fence=40 -> release, leaving\n"
                "10 not_granted -> release, leaving\n"
                "10 queued left=9000 pos=1 -> release, leaving ticket=100\n"
                "10 queued left=9000 pos=-1 -> END, ended\n"
                "10 queued left=9000 pos=1 again -> release, leaving ticket=100\n"
                "10 deadlock -> FAIL EDEADLOCK, END, ended\n"
                "10 unknown -> release, leaving\n"
                "10 unknown unlinked -> release, leaving\n"
                "10 unknown unsent unlinked -> END, ended\n"
                "10 refused -> FAIL EREDIS, release, leaving\n"
                "10 refused unsent -> FAIL EREDIS, END, ended\n"
                "10 handed t=50010 fence=32 -> asking\n"
                "10 ask_now -> asking\n");
}

static void test_asking_in_a_turn(void **state)
{
    (void)state;
    trace_cells(
        "0 start -> try, asking\n"
        "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
        "8 turn -> acquire, asking\n",
        "10 granted fence=40 -> RELEASED ENOTHELD, GRANT, held D=9906 fence=40\n"
        "10 granted released fence=40 -> RELEASED OK, GRANT, held D=9906 fence=40\n"
        "10 not_granted -> acquire, asking\n"
        "10 queued left=9000 pos=1 -> RELEASED ENOTHELD, BUSY, queued due=6010 "
        "ticket=100\n"
        "10 queued left=9000 pos=-1 -> RELEASED ENOTHELD, BUSY, queued due=3010\n"
        "10 queued left=9000 pos=-1 joins -> RELEASED ENOTHELD, BUSY, acquire, asking\n"
        "10 queued left=9000 pos=1 again -> RELEASED ENOTHELD, BUSY, acquire, asking "
        "ticket=100\n"
        "10 deadlock -> RELEASED ENOTHELD, FAIL EDEADLOCK, END, ended\n"
        "10 unknown -> queued due=60\n"
        "10 unknown unlinked -> queued\n"
        "10 unknown unsent unlinked -> queued\n"
        "10 refused -> RELEASED EREDIS, FAIL EREDIS, release, leaving\n"
        "10 refused unsent -> RELEASED EREDIS, FAIL EREDIS, END, ended\n"
        "10 queued released left=9000 pos=1 -> RELEASED OK, BUSY, queued due=6010 "
        "ticket=100\n"
        "10 handed t=50010 fence=32 -> asking\n"
        "10 ask_now -> asking\n"
        "10 abandon -> asking\n");
}

static void test_queued(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, asking\n"
                "5 queued left=9000 pos=1 -> BUSY, queued due=6005 ticket=100\n",
                "10 handed t=50010 fence=32 -> GRANT, held D=1987.9 fence=32 due=510\n"
                "10 standby window=2000 -> queued due=2062 ticket=100\n"
                "10 ask_now -> acquire, asking ticket=100\n"
                "10 abandon -> release, leaving ticket=100\n"
                "6004.999 due -> queued due=6005 ticket=100\n"
                "6005 due -> acquire, asking ticket=100\n");
}

static void test_queued_without_a_place(void **state)
{
    (void)state;
    trace_cells("0 start unlinked -> queued\n",
                "10 handed t=50010 fence=32 -> acquire, asking\n"
                "10 standby window=2000 -> queued due=2062\n"
                "10 ask_now -> acquire, asking\n"
                "10 abandon -> END, ended\n");
}

static void test_queued_in_an_unknown_turn(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "6 turn -> acquire, asking\n"
                "8 unknown -> queued due=58\n",
                "58 handed t=50010 fence=32 -> acquire, asking\n"
                "58 handed s=8 tau=50008 t=50010 fence=32 -> RELEASED OK, GRANT, held "
                "D=1987.98 fence=32 due=510\n"
                "58 ask_now -> acquire, asking\n"
                "58 abandon -> queued due=58\n"
                "58 due -> acquire, asking\n");
}

static void test_queued_in_a_turn_for_nobody(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "6 turn -> acquire, asking\n"
                "7 abandon -> asking\n"
                "8 unknown unlinked -> queued due=9898\n",
                "10 handed t=50010 fence=32 -> acquire, asking\n"
                "10 standby window=2000 -> queued due=2062\n"
                "10 ask_now -> acquire, asking\n"
                "9898 abandon -> RELEASED EUNKNOWN, release, leaving\n"
                "9898 ask_now -> RELEASED EUNKNOWN, release, leaving\n"
                "9898 due -> RELEASED EUNKNOWN, release, leaving\n"
                "9897 due -> queued due=9898\n");
}

static void test_held(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n",
                "10 renewed lease=10000 -> held D=9898 fence=7\n"
                "10 gone -> LOST, END, ended\n"
                "10 release -> release, leaving\n"
                "10 turn -> acquire, asking\n"
                "10 late -> acquire, asking\n"
                "10 shorten lease=5000 -> held D=4958 fence=7\n"
                "10 lapse at=500 -> lapsed D=500 due=500\n"
                "10 lapse at=99999 -> lapsed D=9898 due=9898\n");
}

static void test_held_by_message(void **state)
{
    (void)state;
    trace_cells("0 start script -> acquire, asking\n"
                "5 queued left=9000 pos=1 -> BUSY, queued due=6005 ticket=100\n"
                "8 handed t=50008 fence=32 -> GRANT, held D=1985.92 fence=32 due=508\n",
                "10 renewed lease=10000 -> held D=9898 fence=32\n"
                "10 gone -> LOST, END, ended\n"
                "10 release -> release, leaving\n"
                "10 turn -> acquire, asking\n"
                "10 late -> acquire, asking\n"
                "10 shorten lease=1000 -> held D=998 fence=32 due=508\n"
                "10 lapse -> lapsed D=1985.92 due=1985.92\n");
}

static void test_lapsed(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "8 lapse -> lapsed D=9898 due=9898\n",
                "10 release -> release, leaving\n"
                "10 gone -> END, ended\n"
                "9897.999 due -> lapsed D=9898 due=9898\n"
                "9898 due -> release, leaving\n");
}

static void test_leaving(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "8 release -> release, leaving\n",
                "10 released -> RELEASED ENOTHELD, END, ended\n"
                "10 released released -> RELEASED OK, END, ended\n"
                "10 released released again -> release, leaving\n"
                "10 released released holds=2 -> RELEASED STILLHELD, END, ended\n"
                "10 unknown -> leaving due=60\n"
                "10 unknown unlinked -> leaving due=10008\n"
                "10 unknown unsent unlinked -> leaving due=10008\n"
                "10 refused -> RELEASED EREDIS, END, ended\n");
}

static void test_leaving_between_two_tries(void **state)
{
    (void)state;
    trace_cells("0 start -> try, asking\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "8 release -> release, leaving\n"
                "9 unknown -> leaving due=59\n",
                "58.999 due -> leaving due=59\n"
                "59 released -> RELEASED OK, END, ended\n"
                "59 released released -> RELEASED OK, END, ended\n"
                "59 released released again -> release, leaving\n"
                "59 released released holds=2 -> RELEASED STILLHELD, END, ended\n"
                "59 unknown -> leaving due=159\n"
                "59 unknown unlinked -> leaving due=10008\n"
                "59 unknown unsent unlinked -> leaving due=10008\n"
                "59 refused -> RELEASED EUNKNOWN, END, ended\n"
                "59 ask_now -> release, leaving\n"
                "59 due -> release, leaving\n");
}

static void test_ended(void **state)
{
    (void)state;
    trace_cells("0 start unlinked -> queued\n"
                "5 abandon -> END, ended\n",
                "10 start -> ended\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_asking),
        cmocka_unit_test(test_asking_for_nobody),
        cmocka_unit_test(test_asking_in_a_turn),
        cmocka_unit_test(test_queued),
        cmocka_unit_test(test_queued_without_a_place),
        cmocka_unit_test(test_queued_in_an_unknown_turn),
        cmocka_unit_test(test_queued_in_a_turn_for_nobody),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_held_by_message),
        cmocka_unit_test(test_lapsed),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_leaving_between_two_tries),
        cmocka_unit_test(test_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
