/* SPDX-License-Identifier: MIT
 *
 * Tests what guard.lua promises: for how long a server grants no locks, and that no call
 * shortens the wait of an earlier one. Also tests that releases and renewals hand over to
 * no waiter while the guard is closed. Independent of the C client.
 *
 * The record is changed by hand to make time pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

#define RECORD "lockwire:guard"
#define GUARD 45000
#define ONE "1111:0000:-1"
#define PROMOTED "1111:2222:17"

static struct script_answer call(const char *identity, long long guard, bool goes_on)
{
    return script_run(&server, LW__SCRIPT_GUARD, 1, RECORD, identity,
                      script_number(guard), goes_on ? "1" : "0", NULL);
}

/* On a new connection. */
static long long ask(const char *identity, long long guard)
{
    return first_of(call(identity, guard, false), 1);
}

/* On a connection that had a reply before. */
static long long ask_again(const char *identity, long long guard)
{
    return first_of(call(identity, guard, true), 1);
}

static const char *record(void)
{
    static char text[128];

    (void)snprintf(text, sizeof(text), "%s", script_get(&server, "GET " RECORD));
    return text;
}

/* Writes the record of a server that has been granting locks for `since_ms`. If that is
 * negative, the server will begin to grant locks in -since_ms. */
static void plant(const char *identity, long long since_ms)
{
    static const char lua[] =
        "local t = redis.call('TIME') "
        "redis.call('SET', KEYS[1], string.format('%s 45000 %.0f', ARGV[1], "
        "  t[1] * 1000000 + t[2] - ARGV[2] * 1000), 'PX', 86400000)";

    script_do(&server, "EVAL %s 1 " RECORD " %s %lld", lua, identity, since_ms);
}

static void a_new_server_waits_for_the_guard_time(void **state)
{
    char identity[64];
    long long guard, from;

    (void)state;
    assert_int_equal(ask(ONE, GUARD), GUARD);
    assert_int_equal(sscanf(record(), "%63s %lld %lld", identity, &guard, &from), 3);
    assert_string_equal(identity, ONE);
    assert_int_equal(guard, GUARD);
    assert_true(from > 1LL << 50);
    assert_int_in_range(script_do(&server, "PTTL " RECORD), 86000000, 86400000);
}

static void a_lost_record_is_waited_for_on_any_connection(void **state)
{
    (void)state;
    assert_int_equal(ask_again(ONE, GUARD), GUARD);
    assert_int_in_range(ask_again(ONE, GUARD), GUARD - 30000, GUARD);
}

/* A second client gets the rest of the same wait. */
static void the_wait_is_the_same_for_all(void **state)
{
    char text[128];

    (void)state;
    assert_int_equal(ask(ONE, GUARD), GUARD);
    memcpy(text, record(), sizeof(text));
    assert_int_in_range(ask(ONE, GUARD), GUARD - 30000, GUARD);
    assert_int_in_range(ask_again(ONE, GUARD), GUARD - 30000, GUARD);
    assert_string_equal(record(), text);
}

static void time_that_has_passed_is_over(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(ask(ONE, GUARD), 0);
    assert_int_equal(ask(ONE, GUARD), 0);
    assert_int_equal(ask_again(ONE, GUARD), 0);
    plant(PROMOTED, 1);
    assert_int_equal(ask(PROMOTED, GUARD), 0);
    plant(ONE, -10000);
    assert_int_in_range(ask(ONE, GUARD), 1, 10000);
    assert_int_in_range(ask_again(ONE, GUARD), 1, 10000);
}

static void the_record_lives_on_while_it_is_asked_for(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(script_do(&server, "PEXPIRE " RECORD " 60000"), 1);
    assert_int_equal(ask_again(ONE, GUARD), 0);
    assert_int_in_range(script_do(&server, "PTTL " RECORD), 86000000, 86400000);
}

/* However long the process has been running. */
static void another_identity_begins_another_wait(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(ask(PROMOTED, GUARD), GUARD);
    assert_int_in_range(ask(PROMOTED, GUARD), GUARD - 30000, GUARD);
    plant(PROMOTED, 1);
    assert_int_equal(ask("1111:2222:18", GUARD), GUARD);
    plant(ONE, 1);
    assert_int_equal(ask("3333:0000:-1", GUARD), GUARD);
    plant(ONE, 1);
    assert_int_equal(ask_again("3333:0000:-1", GUARD), GUARD);
    plant(ONE, 1);
    assert_int_equal(ask("11:0000:-1", GUARD), GUARD);
}

/* A promoted server without replicas forgets after repl-backlog-ttl that it was promoted.
 */
static void a_process_that_forgets_its_promotion_keeps_its_wait(void **state)
{
    (void)state;
    plant(PROMOTED, 1);
    assert_int_equal(ask(ONE, GUARD), 0);
    plant(PROMOTED, -10000);
    assert_int_in_range(ask(ONE, GUARD), 1, 10000);
    assert_int_in_range(ask(ONE, GUARD), 1, 10000);
    plant(ONE, -10000);
    assert_int_equal(ask(PROMOTED, GUARD), GUARD);
    plant("3333:2222:17", 1);
    assert_int_equal(ask(ONE, GUARD), GUARD);
}

/* Two connections of one process may have two identities, if only one of them is from
 * before the server forgot its promotion. */
static void a_connection_that_goes_on_changes_no_wait(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(ask_again(PROMOTED, GUARD), 0);
    assert_int_equal(ask_again(ONE, GUARD), 0);
    plant(ONE, -10000);
    assert_int_in_range(ask_again(PROMOTED, GUARD), 1, 10000);
}

static void no_wait_exceeds_the_guard_time(void **state)
{
    (void)state;
    plant(ONE, -1000000000); /* the server's clock was set back */
    assert_int_equal(ask(ONE, GUARD), GUARD);
    assert_int_in_range(ask(ONE, GUARD), GUARD - 30000, GUARD);
}

static void assert_refused(const char *identity, long long guard, long long by)
{
    char text[128];

    memcpy(text, record(), sizeof(text));
    assert_int_equal(script_do(&server, "PEXPIRE " RECORD " 60000"), 1);
    assert_int_equal(ask(identity, guard), -by);
    assert_int_equal(ask_again(identity, guard), -by);
    assert_string_equal(record(), text);
    assert_true(script_do(&server, "PTTL " RECORD) <= 60000);
}

static void another_guard_time_changes_nothing(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_refused(ONE, GUARD + 1, GUARD);
    assert_refused(PROMOTED, GUARD - 1, GUARD);
    assert_refused("3333:0000:-1", GUARD + 1, GUARD);
    plant(ONE, -10000);
    assert_refused(ONE, GUARD - 1, GUARD);
    assert_refused("3333:0000:-1", GUARD - 1, GUARD);
    assert_int_equal(script_do(&server, "DEL " RECORD), 1);
    assert_int_equal(ask(ONE, GUARD + 1), GUARD + 1);
}

/* No lock was granted under the record yet. */
static void a_longer_guard_time_replaces_one_that_is_waited_for(void **state)
{
    (void)state;
    plant(ONE, -10000);
    assert_int_equal(ask(ONE, GUARD + 1), GUARD + 1);
    assert_refused(ONE, GUARD, GUARD + 1);
    plant(ONE, -10000);
    assert_int_equal(ask_again(ONE, GUARD + 1), GUARD + 1);
    plant("3333:0000:-1", -10000);
    assert_int_equal(ask(ONE, GUARD + 1), GUARD + 1);
    assert_int_in_range(ask(ONE, GUARD + 1), GUARD - 30000, GUARD + 1);
}

static void a_record_without_meaning_is_a_lost_one(void **state)
{
    static const char *const texts[] = {"",
                                        "x",
                                        ONE,
                                        "1 2",
                                        "1 2 3 4",
                                        "1 -2 3",
                                        "1 2 x",
                                        "1 0 0",
                                        "1 2147483648 0",
                                        "1 99999999999999999999 0"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        script_do(&server, "SET " RECORD " %s PX 60000", texts[i]);
        assert_int_equal(ask(ONE, GUARD), GUARD);
    }
    script_do(&server, "DEL " RECORD);
    script_do(&server, "LPUSH " RECORD " 1");
    script_do(&server, "PEXPIRE " RECORD " 60000");
    assert_true(call(ONE, GUARD, false).error);
    assert_int_equal(script_do(&server, "LLEN " RECORD), 1);
}

/* ---- releases and renewals ---- */

static void a_release_while_closed_frees_the_name_alone(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    script_numbers = CLOSED;
    assert_int_equal(release(t1), 1);
    assert_free();
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
    assert_int_equal(release(t1), 0); /* a duplicate */
    assert_int_equal(release(t3), 0); /* t3 leaves the queue */
    assert_free();
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
    script_client_silent(&b);
    script_numbers = NUMBERS;
    assert_int_equal(release(t1), 0); /* serves the queue */
    assert_holder(t2);
    script_client_turn(&b, t2);
}

static void a_release_while_closed_is_of_its_own_token(void **state)
{
    (void)state;
    script_numbers = CLOSED;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(release(t2), 0);
    assert_unmarked(t1);
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t4, LEASE, 1, NO_TICKET), 1);
    script_do(&server, "SET n %s PX 600000", t1); /* without the mark */
    assert_int_equal(release(t4), 0);
    assert_marked(t1);
    assert_int_equal(release(t1), 1);
    assert_free();
}

static void a_read_write_release_while_closed_lets_in_no_waiter(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 1);
    script_numbers = CLOSED;
    rw_released(rw_release(t1, "w", "A"), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 2);
    assert_int_equal(script_do(&server, "HEXISTS rw h:%s", t2), 0);
    assert_int_equal(rw_release(t3, "w", "C").n[0], 0); /* t3 leaves the queue */
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    assert_int_equal(rw_renew(t1, LEASE), 0); /* t1 has been released */
    assert_int_equal(script_do(&server, "HEXISTS rw h:%s", t2), 0);
    script_client_silent(&b);
    script_numbers = NUMBERS;
    assert_int_equal(rw_release(t1, "w", "A").n[0], 0);
    script_client_turn(&b, t2);
    assert_counts(1, 1, 0);
}

static void a_renewal_while_closed_extends_and_lets_in_no_waiter(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r2", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r2", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "r2", "C", 1, NO_TICKET), 0);
    rw_end(t2);
    script_numbers = CLOSED;
    assert_int_equal(rw_renew(t1, LEASE), 1);
    assert_counts(1, 1, 0); /* the expired hold is removed */
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    script_client_silent(&a);
    script_numbers = NUMBERS;
    assert_int_equal(rw_release(t2, "r2", "B").n[0], 0);
    script_client_turn(&a, t3);
    assert_counts(2, 2, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_new_server_waits_for_the_guard_time),
        SCRIPT_TEST(a_lost_record_is_waited_for_on_any_connection),
        SCRIPT_TEST(the_wait_is_the_same_for_all),
        SCRIPT_TEST(time_that_has_passed_is_over),
        SCRIPT_TEST(the_record_lives_on_while_it_is_asked_for),
        SCRIPT_TEST(another_identity_begins_another_wait),
        SCRIPT_TEST(a_process_that_forgets_its_promotion_keeps_its_wait),
        SCRIPT_TEST(a_connection_that_goes_on_changes_no_wait),
        SCRIPT_TEST(no_wait_exceeds_the_guard_time),
        SCRIPT_TEST(another_guard_time_changes_nothing),
        SCRIPT_TEST(a_longer_guard_time_replaces_one_that_is_waited_for),
        SCRIPT_TEST(a_record_without_meaning_is_a_lost_one),
        TOKENS_TEST(a_release_while_closed_frees_the_name_alone),
        TOKENS_TEST(a_release_while_closed_is_of_its_own_token),
        TOKENS_TEST(a_read_write_release_while_closed_lets_in_no_waiter),
        TOKENS_TEST(a_renewal_while_closed_extends_and_lets_in_no_waiter),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
