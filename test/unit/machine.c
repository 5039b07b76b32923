/* SPDX-License-Identifier: MIT */
/*
 * The life of one token as traces (machine_trace.h): granted, renewed, lost, waiting,
 * canceled. Releases are in machine_release.c, the claim window in machine_window.c,
 * every event in every phase in machine_cells.c.
 *
 * Usual course: the first test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_trace.h"

/* ---- granted, renewed, released ---- */

static void test_granted_and_released(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "900 release -> release, releasing\n"
                           "905 released released -> RELEASED OK, END, ended\n");
}

/* Another claim of this client is trying. This one queues behind that claim, and sends
 * its request when it gets retry_now. */
static void test_behind_a_sibling_it_waits_to_be_called(void **state)
{
    (void)state;
    trace_check("0 start behind -> queued\n"
                "5 retry_now -> acquire, acquiring\n");
    trace_check("0 start behind -> queued\n"
                "5 cancel -> END, ended\n");
}

/* D = sent + lease - (1 % of the lease + 2 ms), however long the reply took. */
static void test_D_counts_from_the_sending(void **state)
{
    (void)state;
    trace_check("0 start -> try, acquiring\n"
                "9896.999 granted fence=7 -> GRANT, held D=9898 fence=7\n");
    trace_check("terms lease=100\n"
                "20 start -> try, acquiring\n"
                "30 granted -> GRANT, held D=117 fence=0\n");
}

/* A grant that comes too late, or with less than a millisecond left (which would show as
 * 0), is requested again: that extends the token's lease, with a new fencing token. */
static void test_a_grant_at_D_is_no_grant(void **state)
{
    (void)state;
    trace_check("0 start -> try, acquiring\n"
                "9897 granted fence=7 -> acquire, acquiring\n"
                "9899 granted fence=8 -> GRANT, held D=19795 fence=8\n");
    trace_check("terms margin=1000\n"
                "0 start -> try, acquiring\n"
                "8897.999 granted fence=7 -> GRANT, held D=9898 fence=7\n");
    trace_check("terms margin=1000\n"
                "0 start -> try, acquiring\n"
                "8898 granted fence=7 -> acquire, acquiring\n"
                "8899 granted fence=8 -> GRANT, held D=18796 fence=8\n");
}

static void test_a_grant_that_could_not_be_told_in_time(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "9898 undelivered -> acquire, acquiring\n"
                           "9899 granted fence=9 -> GRANT, held D=19796 fence=9\n");
}

/* Replies to renewals may come in any order, and never move D backwards. */
static void test_renewals_move_D_forward_only(void **state)
{
    (void)state;
    trace_check(TRACE_HELD
                "3000 renewed sent=2999 lease=10000 -> held D=12897 fence=7\n"
                "3001 renewed sent=100 lease=10000 -> held D=12897 fence=7\n"
                "3002 renewed sent=3000 lease=1 -> held D=12897 fence=7\n"
                "3003 renewed sent=3000 lease=20000 -> held D=22798 fence=7\n");
}

/* A shorter lease is applied at once; the reply to a renewal that asked for more does not
 * undo it. */
static void test_a_lease_is_made_shorter(void **state)
{
    (void)state;
    trace_check(TRACE_HELD
                "1000 shorten lease=2000 -> held D=2978 fence=7\n"
                "1001 shorten lease=20000 -> held D=2978 fence=7\n"
                "1002 renewed sent=999 lease=10000 wanted=2000 -> held D=2978 fence=7\n"
                "1003 renewed sent=1001 lease=2000 wanted=2000 -> held D=2979 fence=7\n");
}

/* Votes move D either way, but not beyond the lease that is wanted now, or the deadline
 * that an earlier handle with a longer lease has left. */
static void test_votes_move_the_deadline_either_way(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 granted sent=0 fence=7 -> GRANT, held D=9898 fence=7\n"
                "1000 voted D=10500 -> held D=10500 fence=7\n"
                "1001 voted D=2000 -> held D=2000 fence=7\n"
                "1002 voted D=99999 wanted=5000 -> held D=5950 fence=7\n"
                "1003 voted D=99999 -> held D=10901 fence=7\n"
                "1004 voted D=99999 wanted=5000 -> held D=10901 fence=7\n");
}

static void test_a_ticket_that_the_caller_chose_is_sent(void **state)
{
    (void)state;
    trace_check("0 start script ticket=77 -> acquire, acquiring ticket=77\n");
    trace_check("0 start ticket=77 unlinked -> queued ticket=77\n"
                "5 retry_now -> acquire, acquiring ticket=77\n");
    trace_check("0 start ticket=77 -> try, acquiring ticket=77\n"
                "5 not_granted -> acquire, acquiring ticket=77\n");
}

static void test_a_renewal_finds_it_gone(void **state)
{
    (void)state;
    trace_check(TRACE_HELD "3500 lost_on_server -> LOST, END, ended\n");
}

/* The holder may use its margin: an expired hold is released at D, not before. */
static void test_lost_on_this_side_is_given_back_at_D(void **state)
{
    (void)state;
    trace_check("terms margin=1000\n" TRACE_HELD
                "8898 lost_locally -> expired D=9898 due=9898\n"
                "9000 renewed sent=8800 lease=10000 -> expired D=9898 due=9898\n"
                "9898 due -> release, releasing\n"
                "9900 released released -> RELEASED OK, END, ended\n");
    trace_check("terms margin=1000\n" TRACE_HELD
                "8898 lost_locally -> expired D=9898 due=9898\n"
                "9000 release -> release, releasing\n"
                "9002 released released -> RELEASED OK, END, ended\n");
    trace_check("terms margin=1000\n" TRACE_HELD
                "8898 lost_locally -> expired D=9898 due=9898\n"
                "9100 lost_on_server -> END, ended\n");
}

static void test_an_owner_with_other_holds(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
                "6 release -> release, releasing\n"
                "7 released released holds=1 -> RELEASED STILLHELD, END, ended\n");
}

/* ---- waiting ---- */

static void test_handed_over_and_renewed(void **state)
{
    (void)state;
    trace_check(TRACE_WAITS
                "3000 standby window=2000 -> queued due=5002 ticket=100\n"
                "3010 handed_over t=53005 fence=32 -> GRANT, held_by_message D=4953 "
                "fence=32 due=3505\n"
                "3011 renewed sent=3010.5 lease=10000 -> held D=12908.5 fence=32\n"
                "7000 release -> release, releasing\n"
                "7004 released released -> RELEASED OK, END, ended\n");
}

static void test_polled_and_granted(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=600 pos=0 -> BUSY, queued due=205 ticket=100\n"
                "205 due -> acquire, acquiring ticket=100\n"
                "207 queued left=90 pos=0 -> BUSY, queued due=257 ticket=100\n"
                "257 due -> acquire, acquiring ticket=100\n"
                "258 queued left=40 pos=0 -> BUSY, queued due=299 ticket=100\n"
                "299 due -> acquire, acquiring ticket=100\n"
                "300 granted fence=7 -> GRANT, held D=10197 fence=7\n");
}

static void test_more_dead_heads_than_one_call_looks_at(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=0 pos=17 again -> BUSY, acquire, acquiring ticket=100\n"
                "6 queued left=0 pos=1 again -> BUSY, acquire, acquiring ticket=100\n"
                "7 granted fence=7 -> GRANT, held D=9904 fence=7\n");
}

/* The first request did not join the queue, because the subscription was not up. Once it
 * is, the request is sent again at once, and joins with the ticket of the first one. */
static void test_the_subscription_comes_while_asking(void **state)
{
    (void)state;
    trace_check(
        "0 start script -> acquire, acquiring\n"
        "2 retry_now -> acquiring\n"
        "5 queued left=9000 pos=-1 ticket=90 -> BUSY, acquire, acquiring ticket=90\n"
        "8 queued left=8997 pos=1 -> BUSY, queued due=6006 ticket=90\n");
}

/* The script refused it because of a hold that this client is releasing. The release may
 * come behind the next request as well, and other clients may join before that. */
static void test_refused_before_the_release_of_its_own_client(void **state)
{
    (void)state;
    trace_check(
        "0 start script -> acquire, acquiring\n"
        "5 not_granted ticket=90 -> acquire, acquiring ticket=90\n"
        "6 not_granted ticket=90 -> acquire, acquiring ticket=90\n"
        "7 queued left=9000 pos=0 ticket=90 -> BUSY, queued due=3007 ticket=90\n");
}

static void test_no_link_at_the_start(void **state)
{
    (void)state;
    trace_check("0 start unlinked -> queued\n"
                "100 retry_now -> acquire, acquiring\n"
                "105 granted fence=7 -> GRANT, held D=9998 fence=7\n");
}

static void test_an_upgrade_that_would_deadlock(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 deadlock -> FAIL EDEADLOCK, END, ended\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=0 ticket=0 -> BUSY, queued due=3005 ticket=0\n"
                "3005 due -> acquire, acquiring ticket=0\n"
                "3006 deadlock -> FAIL EDEADLOCK, release, releasing ticket=0\n"
                "3007 released -> RELEASED ENOTHELD, END, ended\n");
}

static void test_refused_for_good(void **state)
{
    (void)state;
    trace_check("0 start -> try, acquiring\n"
                "5 refused -> FAIL EREDIS, release, releasing\n"
                "6 released released -> RELEASED OK, END, ended\n");
    trace_check("0 start -> try, acquiring\n"
                "5 refused unsent -> FAIL EREDIS, END, ended\n");
}

/* After an error the outcome is unknown: the request is sent again, at growing
 * intervals. */
static void test_open_outcomes_are_asked_again(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "1 unknown -> queued due=51\n"
                "51 due -> acquire, acquiring\n"
                "52 unknown -> queued due=152\n"
                "152 due -> acquire, acquiring\n"
                "153 unknown -> queued due=353\n"
                "353 due -> acquire, acquiring\n"
                "354 unknown -> queued due=754\n"
                "754 due -> acquire, acquiring\n"
                "755 unknown -> queued due=1555\n"
                "1555 due -> acquire, acquiring\n"
                "1556 unknown -> queued due=2356\n"
                "2356 due -> acquire, acquiring\n"
                "2357 queued left=9000 pos=1 -> BUSY, queued due=8357 ticket=100\n"
                "8357 due -> acquire, acquiring ticket=100\n"
                "8358 unknown jitter=1000 -> queued due=8413 ticket=100\n"
                "8413 due -> acquire, acquiring ticket=100\n"
                "8414 unknown unlinked -> queued ticket=100\n"
                "9000 retry_now -> acquire, acquiring ticket=100\n"
                "9001 granted fence=7 -> GRANT, held D=18898 fence=7\n");
}

static const struct {
    const char *script;
    bool claims;
} cases_of_claims[] = {
    {"0 start script -> acquire, acquiring\n", false},
    {"0 start -> try, acquiring\n"
     "5 not_granted -> acquire, acquiring\n",
     false},
    {"0 start script -> acquire, acquiring\n"
     "5 queued left=600 pos=0 -> BUSY, queued due=205 ticket=100\n"
     "205 due -> acquire, acquiring ticket=100\n",
     false},
    {"0 start -> try, acquiring\n"
     "5 not_granted set -> acquire, acquiring\n",
     true},
    {"0 start -> try, acquiring\n"
     "9898 granted fence=7 -> acquire, acquiring\n",
     true},
    {TRACE_HELD "9898 undelivered -> acquire, acquiring\n"
                "9899 unknown unlinked -> queued\n"
                "9900 retry_now -> acquire, acquiring\n",
     true},
    {"0 start script -> acquire, acquiring\n"
     "5 queued left=600 pos=0 -> BUSY, queued due=205 ticket=100\n"
     "10 handed_over t=49000 fence=32 -> acquire, acquiring ticket=100\n",
     true},
    {"0 start script -> acquire, acquiring\n"
     "5 queued left=600 pos=0 -> BUSY, queued due=205 ticket=100\n"
     "10 handed_over t=49000 fence=32 -> acquire, acquiring ticket=100\n"
     "12 queued left=600 pos=0 -> BUSY, queued due=212 ticket=100\n"
     "212 due -> acquire, acquiring ticket=100\n",
     false},
};

/* A request by which the token may already hold goes before those of others: its lease
 * may be running. */
static void test_what_may_be_ours_already_is_claimed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases_of_claims) / sizeof(*cases_of_claims); i++) {
        struct trace trace;

        trace_init(&trace);
        trace_run(&trace, cases_of_claims[i].script);
        assert_int_equal(trace.machine.maybe_held, cases_of_claims[i].claims);
    }
}

/* ---- canceled ---- */

static void test_a_late_grant_is_given_back(void **state)
{
    (void)state;
    trace_check("0 start -> try, acquiring\n"
                "1 cancel -> acquiring\n"
                "5 granted fence=7 -> release, releasing\n"
                "6 released released -> RELEASED OK, END, ended\n");
    trace_check("0 start -> try, acquiring\n"
                "1 cancel -> acquiring\n"
                "5 not_granted -> release, releasing\n"
                "6 released -> RELEASED ENOTHELD, END, ended\n");
}

static void test_leaving_the_queue(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=1 -> BUSY, queued due=6005 ticket=100\n"
                "6 cancel -> release, releasing ticket=100\n"
                "9 released -> RELEASED ENOTHELD, END, ended\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "4 cancel -> acquiring\n"
                "5 queued left=9000 pos=1 -> release, releasing ticket=100\n"
                "9 released -> RELEASED ENOTHELD, END, ended\n");
}

static void test_nothing_in_redis_nothing_to_leave(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=-1 -> BUSY, queued due=3005\n"
                "6 cancel -> END, ended\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "4 cancel -> acquiring\n"
                "5 queued left=9000 pos=-1 -> END, ended\n");
    trace_check("0 start unlinked -> queued\n"
                "1 cancel -> END, ended\n");
    trace_check("0 start -> try, acquiring\n"
                "1 cancel -> acquiring\n"
                "100 unknown unsent unlinked -> END, ended\n");
}

/* The message shows that an earlier request, which seemed lost, has joined the queue
 * after all. */
static void test_handed_to_one_who_gave_up(void **state)
{
    (void)state;
    trace_check("0 start script -> acquire, acquiring\n"
                "5 handed_over t=50001 fence=5 -> acquiring\n"
                "6 cancel -> acquiring\n"
                "8 queued left=9000 pos=-1 -> release, releasing\n"
                "9 released released -> RELEASED OK, END, ended\n");
}

/* The token may be in Redis although nothing was sent since: the grant came too late, its
 * fencing token was unusable, or the reply was lost. */
static void test_what_may_be_in_redis_is_released(void **state)
{
    (void)state;
    trace_check("0 start -> try, acquiring\n"
                "9898 granted fence=7 -> acquire, acquiring\n"
                "9899 unknown unsent unlinked -> queued\n"
                "9900 cancel -> release, releasing\n"
                "9901 released released -> RELEASED OK, END, ended\n");
    trace_check("0 start -> try, acquiring\n"
                "5 not_granted -> acquire, acquiring\n"
                "6 unknown unsent unlinked -> queued\n"
                "7 cancel -> release, releasing\n"
                "8 released released -> RELEASED OK, END, ended\n");
    trace_check(TRACE_HELD "9898 undelivered -> acquire, acquiring\n"
                           "9899 unknown unsent unlinked -> queued\n"
                           "9900 cancel -> release, releasing\n"
                           "9901 released -> RELEASED ENOTHELD, END, ended\n");
    trace_check("0 start script -> acquire, acquiring\n"
                "5 queued left=9000 pos=-1 -> BUSY, queued due=3005\n"
                "10 handed_over t=50010 fence=32 -> GRANT, held_by_message D=1987.9 "
                "fence=32 due=510\n"
                "1988 undelivered -> acquire, acquiring\n"
                "1989 unknown unsent unlinked -> queued\n"
                "1990 cancel -> release, releasing\n"
                "1991 released -> RELEASED ENOTHELD, END, ended\n");
    trace_check("0 start -> try, acquiring\n"
                "100 unknown unlinked -> queued\n"
                "102 cancel unlinked -> release, releasing\n"
                "102 unknown unsent unlinked -> release_due due=10102\n"
                "5000 retry_now -> release, releasing\n"
                "5001 released released -> RELEASED OK, END, ended\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_granted_and_released),
        cmocka_unit_test(test_behind_a_sibling_it_waits_to_be_called),
        cmocka_unit_test(test_D_counts_from_the_sending),
        cmocka_unit_test(test_a_grant_at_D_is_no_grant),
        cmocka_unit_test(test_a_grant_that_could_not_be_told_in_time),
        cmocka_unit_test(test_renewals_move_D_forward_only),
        cmocka_unit_test(test_a_lease_is_made_shorter),
        cmocka_unit_test(test_votes_move_the_deadline_either_way),
        cmocka_unit_test(test_a_ticket_that_the_caller_chose_is_sent),
        cmocka_unit_test(test_a_renewal_finds_it_gone),
        cmocka_unit_test(test_lost_on_this_side_is_given_back_at_D),
        cmocka_unit_test(test_an_owner_with_other_holds),
        cmocka_unit_test(test_handed_over_and_renewed),
        cmocka_unit_test(test_polled_and_granted),
        cmocka_unit_test(test_more_dead_heads_than_one_call_looks_at),
        cmocka_unit_test(test_the_subscription_comes_while_asking),
        cmocka_unit_test(test_refused_before_the_release_of_its_own_client),
        cmocka_unit_test(test_no_link_at_the_start),
        cmocka_unit_test(test_an_upgrade_that_would_deadlock),
        cmocka_unit_test(test_refused_for_good),
        cmocka_unit_test(test_open_outcomes_are_asked_again),
        cmocka_unit_test(test_what_may_be_ours_already_is_claimed),
        cmocka_unit_test(test_a_late_grant_is_given_back),
        cmocka_unit_test(test_leaving_the_queue),
        cmocka_unit_test(test_nothing_in_redis_nothing_to_leave),
        cmocka_unit_test(test_handed_to_one_who_gave_up),
        cmocka_unit_test(test_what_may_be_in_redis_is_released),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
