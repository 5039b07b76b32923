/* SPDX-License-Identifier: MIT
 *
 * Detaching and adopting: mutex_detach, rw_detach, mutex_adopt and rw_adopt. The lease of
 * a detached token may become shorter; that of any other token may not (which script_run
 * checks). An adopter has a token and a fencing token of its own. Each script sent twice
 * has the effect of once. A detach has the first live waiter stand by. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

#define SHORT 60000
#define SPARE 50000 /* more than a slow machine takes */

static void assert_ttl(const char *key, long long ms)
{
    long long left = script_do(&server, "PTTL %s", key);

    if (left > ms || left < ms - SPARE) {
        fail_msg("%lld ms are left, not %lld", left, ms);
    }
}

/* ---- a mutex ---- */

static void a_lease_is_shortened_or_extended(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(detach(t1, SHORT), 1);
    assert_ttl("n", SHORT);
    assert_int_equal(detach(t1, 2 * LEASE), 1);
    assert_ttl("n", 2 * LEASE);
    assert_unmarked(t1);
}

static void what_is_left_may_stay(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(detach(t1, -SHORT), 1);
    assert_ttl("n", LEASE);
    script_do(&server, "PERSIST n");
    assert_int_equal(detach(t1, -SHORT), 1);
    assert_ttl("n", SHORT);
}

static void only_the_holder_is_detached(void **state)
{
    (void)state;
    assert_int_equal(detach(t1, SHORT), 0);
    assert_free();
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(detach(t2, SHORT), 0);
    assert_ttl("n", LEASE);
    assert_int_equal(detach(t1, SHORT), 1); /* also if the value is marked */
    script_client_standby(&b, t2, SHORT);
    assert_ttl("n", SHORT);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
}

static void waiters_get_a_detached_lock_when_it_is_released(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
    assert_int_equal(release(t1), 1);
    script_client_turn(&b, t2);
    assert_holder(t2);
    assert_int_equal(detach(t1, SHORT), 0); /* too late */
    assert_holder(t2);
}

static void an_adopter_has_its_own_token_and_number(void **state)
{
    long long first, second;
    struct script_answer answer;

    (void)state;
    first = granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(detach(t1, SHORT), 1);
    answer = adopt(t1, t2, LEASE);
    second = answer.n[0];
    assert_true(second > first);
    assert_unmarked(t2);
    assert_ttl("n", LEASE);
    answer = adopt(t1, t2, LEASE); /* sent twice */
    assert_true(answer.n[0] > second + 15);
    assert_unmarked(t2);
    assert_int_equal(adopt(t1, t4, LEASE).n[0], -1); /* a second adopter's */
    assert_int_equal(detach(t1, SHORT), 0);          /* late duplicates */
    assert_int_equal(release(t1), 0);
    assert_ttl("n", LEASE);
    assert_unmarked(t2);
}

static void adopting_shortens_nothing(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_true(adopt(t1, t2, SHORT).n[0] > 0);
    assert_ttl("n", LEASE);
    assert_true(adopt(t1, t2, SHORT).n[0] > 0);
    assert_ttl("n", LEASE);
    script_do(&server, "PERSIST n");
    assert_true(adopt(t2, t3, SHORT).n[0] > 0);
    assert_ttl("n", SHORT);
}

static void the_queue_and_its_mark_stay(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_marked(t1);
    assert_true(adopt(t1, t3, LEASE).n[0] > 0);
    assert_marked(t3);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
    assert_true(adopt(t1, t3, LEASE).n[0] > 0); /* sent twice */
    assert_marked(t3);
    assert_int_equal(drop(t3), 0);
    assert_int_equal(release(t3), 1);
    script_client_turn(&b, t2);
}

static void a_number_is_drawn_only_if_it_is_wanted(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    script_do(&server, "DEL lockwire:fence");
    answer = script_run(&server, LW__SCRIPT_MUTEX_ADOPT, 2, "n", "lockwire:fence", t1, t2,
                        script_number(LEASE), "-", NULL);
    assert_int_equal(answer.n[0], 0);
    assert_unmarked(t2);
    assert_int_equal(script_do(&server, "EXISTS lockwire:fence"), 0);
    assert_true(adopt(t2, t1, LEASE).n[0] > 1LL << 50); /* the counter begins again */
}

static void a_foreign_key_is_left_alone(void **state)
{
    (void)state;
    assert_int_equal(adopt(t1, t2, LEASE).n[0], -1);
    assert_free();
    script_do(&server, "SET n stranger PX 600000");
    assert_int_equal(adopt(t1, t2, LEASE).n[0], -1);
    assert_int_equal(detach(t1, SHORT), 0);
    assert_ttl("n", LEASE);
}

static void a_key_of_another_type_is_told(void **state)
{
    struct script_answer answer;

    (void)state;
    script_do(&server, "HSET foreign a 1");
    answer = script_run(&server, LW__SCRIPT_MUTEX_ADOPT, 2, "foreign", "lockwire:fence",
                        t1, t2, script_number(LEASE), "f", NULL);
    assert_int_equal(answer.n[0], -2);
    answer = script_run(&server, LW__SCRIPT_RW_ADOPT, 2, "foreign", "lockwire:fence", t1,
                        t2, script_number(LEASE), "r ", NULL);
    assert_int_equal(answer.n[0], -2);
    answer = script_run(&server, LW__SCRIPT_MUTEX_DETACH, 1, "foreign", t1,
                        script_number(LEASE), NULL);
    assert_int_equal(answer.n[0], 0);
    answer = script_run(&server, LW__SCRIPT_RW_DETACH, 1, "foreign", t1,
                        script_number(LEASE), NULL);
    assert_int_equal(answer.n[0], 0);
    assert_int_equal(script_do(&server, "HLEN foreign"), 1);
    assert_int_equal(script_do(&server, "PTTL foreign"), -1);
}

/* ---- the waiter that learns when the lease ends ---- */

static void the_first_waiter_stands_by(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    assert_int_equal(detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
    assert_int_equal(detach(t1, SHORT / 2), 1); /* sent again */
    script_client_standby(&b, t2, SHORT / 2);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
}

/* Also if it is of the process that has detached the lock. */
static void a_waiter_of_the_same_client_stands_by(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t3, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(detach(t1, SHORT), 1);
    script_client_standby(&a, t3, SHORT);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t3, "r", "C", 1, NO_TICKET), 0);
    assert_int_equal(rw_detach(t1, SHORT), 1);
    script_client_standby(&a, t3, SHORT);
}

static void dead_waiters_are_passed_over(void **state)
{
    struct script_client dead;

    (void)state;
    script_client_dead(&dead, 0x77);
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    for (int i = 0; i < 15; i++) {
        refused(acquire(script_token(&dead, 10 + i, 2000), LEASE, 1, NO_TICKET), i);
        refused(rw_acquire(script_token(&dead, 10 + i, 2000), "w", "D", 1, NO_TICKET), i);
    }
    refused(acquire(t2, LEASE, 1, NO_TICKET), 15);
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 15);
    assert_int_equal(detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
    assert_int_equal(rw_detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 16);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 16);
    script_do(&server, "ZADD " QUEUE " 0 dead");
    script_do(&server, "ZADD " RW_QUEUE " 0 dead");
    assert_int_equal(detach(t1, SHORT), 1); /* too many */
    assert_int_equal(rw_detach(t1, SHORT), 1);
}

static void a_hold_among_others_has_the_first_waiter_stand_by(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "r2", "B", 1, NO_TICKET), 0);
    assert_int_equal(rw_detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
}

/* A message cannot express a longer lease; the waiter polls in the meantime. While the
 * slot is migrating the queue cannot be read. */
static void in_these_cases_no_waiter_stands_by(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    assert_int_equal(detach(t1, SHORT + 1), 1);
    assert_int_equal(rw_detach(t1, SHORT + 1), 1);
    assert_int_equal(rw_detach(t1, -1), 1); /* nothing has changed */
    assert_int_equal(detach_one_key(t1, SHORT), 1);
    assert_ttl("n", SHORT);
    assert_int_equal(rw_detach_one_key(t1, SHORT), 1);
    assert_ttl("rw", SHORT);
    assert_true(adopt(t1, t3, LEASE).n[0] > 0);
    assert_int_equal(detach(t1, 1), 0); /* a late duplicate */
    assert_true(rw_adopt(t1, t3, LEASE, "w ").n[0] > 0);
    assert_int_equal(rw_detach(t1, 1), 0);
    assert_ttl("n", LEASE);
    assert_ttl("rw", LEASE);
}

static void a_refused_message_does_not_fail_a_detach(void **state)
{
    static const char *const rules[] = {"-publish", "resetchannels", "-pubsub",
                                        "-zrange"};

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    for (int i = 0; i < 4; i++) {
        script_server_become(&server, rules[i]);
        assert_int_equal(detach(t1, SHORT - i), 1);
        assert_int_equal(rw_detach(t1, SHORT - i), 1);
        assert_ttl("n", SHORT - i);
        assert_ttl("rw", SHORT - i);
    }
}

/* ---- a read-write lock ---- */

static long long adopted(struct script_answer answer, const char *owner)
{
    if (answer.error || answer.count != 1) {
        fail_msg("%s", answer.text);
    }
    assert_string_equal(answer.text, owner);
    return answer.n[0];
}

static void the_only_hold_ends_with_the_key(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    assert_int_equal(rw_detach(t1, SHORT), 1);
    assert_ttl("rw", SHORT);
    assert_int_equal(rw_detach(t1, -1), 1);
    assert_ttl("rw", SHORT);
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    rw_released(rw_release(t3, "r", "A"), 1); /* from now on t1 has an end of its own */
    assert_int_equal(rw_detach(t1, SHORT), 1);
    assert_ttl("rw", SHORT);
    assert_string_equal(script_get(&server, "HGET rw h:%s", t1), "0 w A");
}

static void a_hold_among_others_gets_an_end_of_its_own(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    assert_int_equal(rw_detach(t1, SHORT), 1);
    assert_ttl("rw", LEASE);
    rw_released(rw_release(t2, "r", "B"), 0);
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    assert_counts(2, 2, 0);
    assert_int_equal(rw_detach(t1, 2 * LEASE), 1);
    assert_ttl("rw", 2 * LEASE);
    rw_end(t1);
    assert_int_equal(rw_detach(t1, LEASE), 0); /* expired */
    assert_int_equal(rw_adopt(t1, t4, LEASE, "r ").n[0], -1);
    assert_int_equal(rw_detach(t4, LEASE), 0);
}

static void a_detached_hold_that_has_ended_lets_waiters_in(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    assert_int_equal(rw_detach(t1, SHORT), 1);
    script_client_standby(&b, t2, SHORT);
    rw_end(t1);
    rw_released(rw_release(t3, "r", "C"), 0);
    script_client_turn(&b, t2);
}

static void an_adopted_hold_keeps_its_owner_and_counts(void **state)
{
    long long first, second, third;

    (void)state;
    first = granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    assert_int_equal(granted(rw_acquire(t3, "r", "A", 1, NO_TICKET)), first);
    second = adopted(rw_adopt(t1, t4, LEASE, "r "), "A");
    assert_true(second > first);
    assert_counts(3, 2, 0);
    assert_int_equal(adopted(rw_adopt(t1, t4, LEASE, "r "), "A"), second); /* twice */
    assert_counts(3, 2, 0);
    assert_int_equal(rw_adopt(t1, t2, LEASE, "r ").n[0] > 0, 1); /* t2 has a hold */
    assert_counts(3, 2, 0);
    third = adopted(rw_adopt(t3, t1, LEASE, "r A"), "A");
    assert_true(third > second);
    assert_int_equal(rw_release(t3, "r", "A").n[0], 0); /* that token is gone */
}

static void a_writer_is_adopted_with_its_read_holds(void **state)
{
    long long first, second;

    (void)state;
    first = granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    second = adopted(rw_adopt(t1, t2, LEASE, "w "), "A");
    assert_true(second > first);
    assert_counts(1, 1, 1);
    assert_int_equal(adopted(rw_adopt(t1, t2, LEASE, "w "), "A"), second);
    assert_true(adopted(rw_adopt(t3, t4, LEASE, "r "), "A") > second);
    assert_counts(1, 1, 1);
    rw_released(rw_release(t2, "w", "A"), 1);
    rw_released(rw_release(t4, "r", "A"), 0);
}

static void another_kind_or_owner_is_told(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    assert_int_equal(rw_adopt(t1, t2, LEASE, "w ").n[0], -2);
    assert_int_equal(rw_adopt(t1, t2, LEASE, "r B").n[0], -2);
    assert_int_equal(rw_adopt(t3, t2, LEASE, "r ").n[0], -1);
    assert_counts(1, 1, 0);
    assert_true(adopted(rw_adopt(t1, t2, SHORT, "r A"), "A") > 0);
    assert_ttl("rw", LEASE); /* nothing is shortened */
}

static void the_default_owner_stays(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "", 1, NO_TICKET));
    assert_true(adopted(rw_adopt(t1, t2, LEASE, "w "), t1) > 0);
    rw_released(rw_release(t2, "w", ""), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
}

/* ---- without memory ---- */

static void out_of_memory_locks_are_detached_and_adopted(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    script_do(&server, "CONFIG SET maxmemory 1");
    assert_int_equal(detach(t1, SHORT), 1);
    assert_int_equal(rw_detach(t1, SHORT), 1);
    assert_true(adopt(t1, t3, LEASE).n[0] > 0);
    assert_holder(t3);
    assert_true(rw_adopt(t1, t3, LEASE, "r ").n[0] > 0);
    assert_counts(2, 2, 0);
    rw_released(rw_release(t3, "r", "A"), 0);
    script_do(&server, "CONFIG SET maxmemory 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_lease_is_shortened_or_extended),
        TOKENS_TEST(what_is_left_may_stay),
        TOKENS_TEST(only_the_holder_is_detached),
        TOKENS_TEST(waiters_get_a_detached_lock_when_it_is_released),
        TOKENS_TEST(an_adopter_has_its_own_token_and_number),
        TOKENS_TEST(adopting_shortens_nothing),
        TOKENS_TEST(the_queue_and_its_mark_stay),
        TOKENS_TEST(a_number_is_drawn_only_if_it_is_wanted),
        TOKENS_TEST(a_foreign_key_is_left_alone),
        TOKENS_TEST(a_key_of_another_type_is_told),
        TOKENS_TEST(the_first_waiter_stands_by),
        TOKENS_TEST(a_waiter_of_the_same_client_stands_by),
        TOKENS_TEST(dead_waiters_are_passed_over),
        TOKENS_TEST(a_hold_among_others_has_the_first_waiter_stand_by),
        TOKENS_TEST(in_these_cases_no_waiter_stands_by),
        TOKENS_TEST(a_refused_message_does_not_fail_a_detach),
        TOKENS_TEST(the_only_hold_ends_with_the_key),
        TOKENS_TEST(a_hold_among_others_gets_an_end_of_its_own),
        TOKENS_TEST(a_detached_hold_that_has_ended_lets_waiters_in),
        TOKENS_TEST(an_adopted_hold_keeps_its_owner_and_counts),
        TOKENS_TEST(a_writer_is_adopted_with_its_read_holds),
        TOKENS_TEST(another_kind_or_owner_is_told),
        TOKENS_TEST(the_default_owner_stays),
        TOKENS_TEST(out_of_memory_locks_are_detached_and_adopted),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
