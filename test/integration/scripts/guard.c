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

static struct script_answer call(const char *identity, long long guard, long long uptime)
{
    return script_run(&server, LW__SCRIPT_GUARD, 1, RECORD, identity,
                      script_number(guard), script_number(uptime), NULL);
}

static long long ask(const char *identity, long long guard, long long uptime)
{
    return first_of(call(identity, guard, uptime), 1);
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
    assert_int_equal(ask(ONE, GUARD, 0), GUARD);
    assert_int_equal(sscanf(record(), "%63s %lld %lld", identity, &guard, &from), 3);
    assert_string_equal(identity, ONE);
    assert_int_equal(guard, GUARD);
    assert_true(from > 1LL << 50);
    assert_int_in_range(script_do(&server, "PTTL " RECORD), 86000000, 86400000);
}

static void the_uptime_is_part_of_the_wait(void **state)
{
    (void)state;
    assert_int_equal(ask(ONE, GUARD, 44000), 1000);
    assert_int_equal(script_do(&server, "DEL " RECORD), 1);
    assert_int_equal(ask(ONE, GUARD, GUARD), 0);
    assert_int_equal(script_do(&server, "DEL " RECORD), 1);
    assert_int_equal(ask(ONE, GUARD, 1000000000), 0);
}

/* A second client gets the rest of the same wait, whatever uptime it sends. */
static void the_wait_is_the_same_for_all(void **state)
{
    char text[128];

    (void)state;
    assert_int_equal(ask(ONE, GUARD, 0), GUARD);
    memcpy(text, record(), sizeof(text));
    assert_int_in_range(ask(ONE, GUARD, 0), GUARD - 30000, GUARD);
    assert_int_in_range(ask(ONE, GUARD, 1000000000), GUARD - 30000, GUARD);
    assert_string_equal(record(), text);
}

static void time_that_has_passed_is_over(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(ask(ONE, GUARD, 0), 0);
    assert_int_equal(ask(ONE, GUARD, 0), 0);
    plant(ONE, -10000);
    assert_int_in_range(ask(ONE, GUARD, 0), 1, 10000);
}

static void the_record_lives_on_while_it_is_asked_for(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(script_do(&server, "PEXPIRE " RECORD " 60000"), 1);
    assert_int_equal(ask(ONE, GUARD, 0), 0);
    assert_int_in_range(script_do(&server, "PTTL " RECORD), 86000000, 86400000);
}

static void another_identity_begins_another_wait(void **state)
{
    (void)state;
    plant(ONE, 1);
    assert_int_equal(ask(PROMOTED, GUARD, 0), GUARD);
    assert_int_in_range(ask(PROMOTED, GUARD, 0), GUARD - 30000, GUARD);
    plant(PROMOTED, 1);
    assert_int_equal(ask("1111:2222:18", GUARD, 0), GUARD);
    assert_int_equal(ask("3333:2222:18", GUARD, 15000), GUARD - 15000);
}

/* A promoted server without replicas forgets after repl-backlog-ttl that it was promoted,
 * and then has another identity. */
static void another_identity_does_not_shorten_a_wait(void **state)
{
    (void)state;
    plant(PROMOTED, -10000);
    assert_int_in_range(ask("1111:0000:-1", GUARD, 1000000000), 1, 10000);
    assert_int_in_range(ask("1111:0000:-1", GUARD, 1000000000), 1, 10000);
    plant(ONE, -10000);
    assert_int_equal(ask(PROMOTED, GUARD, 0), GUARD);
    plant(ONE, -1000000000); /* of another process, by its server's clock */
    assert_int_equal(ask("3333:0000:-1", GUARD, 1000000000), 0);
}

static void another_guard_time_changes_nothing(void **state)
{
    char text[128];

    (void)state;
    plant(ONE, 1);
    memcpy(text, record(), sizeof(text));
    assert_int_equal(script_do(&server, "PEXPIRE " RECORD " 60000"), 1);
    assert_int_equal(ask(ONE, GUARD + 1, 0), -1);
    assert_int_equal(ask(PROMOTED, GUARD - 1, 0), -1);
    assert_string_equal(record(), text);
    assert_true(script_do(&server, "PTTL " RECORD) <= 60000);
    assert_int_equal(script_do(&server, "DEL " RECORD), 1);
    assert_int_equal(ask(ONE, GUARD + 1, 0), GUARD + 1);
}

static void a_record_without_meaning_is_a_lost_one(void **state)
{
    static const char *const texts[] = {"",        "x",      ONE,    "1 2",
                                        "1 2 3 4", "1 -2 3", "1 2 x"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        script_do(&server, "SET " RECORD " %s PX 60000", texts[i]);
        assert_int_equal(ask(ONE, GUARD, 0), GUARD);
    }
    script_do(&server, "DEL " RECORD);
    script_do(&server, "LPUSH " RECORD " 1");
    script_do(&server, "PEXPIRE " RECORD " 60000");
    assert_true(call(ONE, GUARD, 0).error);
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
        SCRIPT_TEST(the_uptime_is_part_of_the_wait),
        SCRIPT_TEST(the_wait_is_the_same_for_all),
        SCRIPT_TEST(time_that_has_passed_is_over),
        SCRIPT_TEST(the_record_lives_on_while_it_is_asked_for),
        SCRIPT_TEST(another_identity_begins_another_wait),
        SCRIPT_TEST(another_identity_does_not_shorten_a_wait),
        SCRIPT_TEST(another_guard_time_changes_nothing),
        SCRIPT_TEST(a_record_without_meaning_is_a_lost_one),
        TOKENS_TEST(a_release_while_closed_frees_the_name_alone),
        TOKENS_TEST(a_release_while_closed_is_of_its_own_token),
        TOKENS_TEST(a_read_write_release_while_closed_lets_in_no_waiter),
        TOKENS_TEST(a_renewal_while_closed_extends_and_lets_in_no_waiter),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
