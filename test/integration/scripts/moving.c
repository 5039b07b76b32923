/* SPDX-License-Identifier: MIT
 *
 * Tests the scripts that use only the key of a read-write lock, because its slot is
 * moving to another node of a cluster: a hold is extended (rw_keepalive) or released
 * (rw_release_one_key), and no waiter enters. Independent of clusters.
 *
 * Each test starts as in rw.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

static void a_hold_is_kept_by_its_name_alone(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    script_do(&server, "PEXPIRE rw 1000");
    assert_int_equal(rw_keepalive(t1, LEASE), 1);
    assert_int_in_range(script_do(&server, "PTTL rw"), LEASE - 100000, LEASE);
    assert_int_equal(rw_keepalive(t3, LEASE), 0);
    assert_counts(2, 2, 0);
}

static void what_is_no_more_is_not_kept(void **state)
{
    (void)state;
    assert_int_equal(rw_keepalive(t1, LEASE), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_int_equal(rw_release_one_key(t1).n[0], 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
}

static void a_hold_is_taken_away_and_nobody_let_in(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    rw_released(rw_release_one_key(t1), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    assert_int_equal(rw_release_one_key(t1).n[0], 0); /* a duplicate */
    granted(rw_acquire(t2, "w", "B", 1, 0)); /* t2 has kept its place, and requests */
}

static void the_other_holds_stay(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    assert_counts(3, 2, 0);
    rw_released(rw_release_one_key(t1), 1); /* A has one more hold */
    assert_counts(2, 2, 0);
    assert_int_equal(rw_release_one_key(t1).n[0], 0);
    rw_released(rw_release_one_key(t3), 0);
    assert_counts(1, 1, 0);
    assert_int_equal(rw_keepalive(t2, LEASE), 1);
    rw_released(rw_release(t2, "r", "B"), 0); /* the slot has arrived */
}

static void a_writer_that_reads_too(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    rw_released(rw_release_one_key(t1), 1);
    assert_counts(1, 1, 0);
    rw_released(rw_release_one_key(t3), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
}

static void a_stranger_is_left_alone(void **state)
{
    (void)state;
    script_do(&server, "SET rw foreign PX 600000");
    assert_int_equal(rw_release_one_key(t1).n[0], 0);
    assert_int_equal(rw_keepalive(t1, 1000), 0);
    assert_string_equal(script_get(&server, "GET rw"), "foreign");
    assert_int_in_range(script_do(&server, "PTTL rw"), 500000, 600000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_hold_is_kept_by_its_name_alone),
        TOKENS_TEST(what_is_no_more_is_not_kept),
        TOKENS_TEST(a_hold_is_taken_away_and_nobody_let_in),
        TOKENS_TEST(the_other_holds_stay),
        TOKENS_TEST(a_writer_that_reads_too),
        TOKENS_TEST(a_stranger_is_left_alone),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
