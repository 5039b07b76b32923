/* SPDX-License-Identifier: MIT
 *
 * Tests how the read-write scripts treat leases that end one by one, renewals, and
 * permits. Independent of the C client. A test ends a lease by writing the hold's end
 * into the past.
 *
 * Each test starts as in rw.c. */
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

/* Returns in how many ms the hold of this token ends by its own record; 0 if it has no
 * end of its own. */
static long long own_end(const char *token)
{
    long long ends = atoll(script_get(&server, "HGET rw h:%s", token));

    if (ends == 0) {
        return 0;
    }
    return ends - script_do(&server, "EVAL %s 0",
                            "local time = redis.call('TIME') "
                            "return time[1] * 1000 + math.floor(time[2] / 1000)");
}

static struct script_answer acquire_for(const char *token, const char *asker,
                                        const char *lease)
{
    return rw_asked(script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, RW_KEYS, token, lease,
                               asker, "1 -1 0 " NUMBERS, NULL));
}

static void a_dead_reader_goes_after_its_own_lease_though_others_read_on(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 0);
    rw_end(t2);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 0);
    assert_counts(1, 1, 0);
    assert_string_not_equal(script_get(&server, "HGET rw mode"), "2 1 1 0 1 0 ");
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t4);
}

static void whoever_sees_a_dead_reader_lets_the_next_in(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    rw_end(t1);
    refused(rw_acquire(t3, "r", "C", 0, NO_TICKET), -1);
    script_client_turn(&b, t2);
    assert_counts(0, 0, 1);
}

static void a_hold_that_ended_is_neither_renewed_nor_a_grant_any_more(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    rw_end(t1);
    assert_int_equal(rw_renew(t1, LEASE), 0);
    assert_counts(1, 1, 0);
    refused(rw_acquire(t1, "r", "A", 0, NO_TICKET), -1);
    assert_int_equal(rw_renew(t3, LEASE), 1);
}

static void a_renewal_of_one_reader_drops_another_that_ended(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r2", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r2", "B", 1, NO_TICKET));
    refused(rw_acquire(t4, "r2", "C", 1, NO_TICKET), 0);
    rw_end(t2);
    assert_int_equal(rw_renew(t1, LEASE), 1);
    script_client_turn(&b, t4);
    assert_counts(2, 2, 0);
}

static void who_comes_or_goes_among_readers_drops_one_that_ended(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    rw_end(t2);
    granted(rw_acquire(t4, "r", "D", 1, NO_TICKET));
    assert_counts(3, 3, 0);
    rw_end(t3);
    rw_released(rw_release(t4, "r", "D"), 0);
    assert_counts(1, 1, 0);
}

static void a_renewal_of_a_vanished_lock_serves_the_queue(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_do(&server, "DEL rw");
    assert_int_equal(rw_renew(t1, LEASE), 0);
    script_client_turn(&b, t2);
    assert_counts(0, 0, 1);
}

static void a_batch_renews_each_name_for_itself(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    script_do(&server, "SET foreign x");
    answer = script_run(&server, LW__SCRIPT_RW_RENEW, 7, "lockwire:fence", "foreign",
                        "lockwire:2:rwqueue:{foreign}", "gone",
                        "lockwire:2:rwqueue:{gone}", "rw", RW_QUEUE, NUMBERS, t1, t1, t1,
                        "600000", NULL);
    assert_int_equal(answer.count, 3);
    assert_int_equal(answer.n[0] + answer.n[1], 0);
    assert_int_equal(answer.n[2], 1);
    assert_int_in_range(script_do(&server, "PTTL rw"), 500000, 600000);
    script_run(&server, LW__SCRIPT_RW_RENEW, 5, "lockwire:fence", "gone",
               "lockwire:2:rwqueue:{gone}", "rw", RW_QUEUE, NUMBERS, t1, t1, "1000",
               "900000", NULL);
    assert_int_in_range(script_do(&server, "PTTL rw"), 800000, 900000);
}

static void a_short_renewal_after_a_long_one_shortens_nothing(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    assert_int_equal(rw_renew(t1, 2 * LEASE), 1);
    assert_int_equal(rw_renew(t1, 1000), 1);
    assert_true(script_do(&server, "PTTL rw") > LEASE);
}

static void a_write_lease_that_ends_leaves_the_reads_and_lets_readers_in(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    rw_end(t3);
    assert_int_equal(rw_renew(t1, LEASE), 1);
    script_client_turn(&b, t2);
    assert_counts(2, 2, 0);
}

static void the_next_asks_when_the_earliest_hold_ends_not_the_key(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(acquire_for(t2, "r B", "200000"));
    rw_released(rw_release(t1, "r", "A"), 0);
    assert_true(script_do(&server, "PTTL rw") > 200000);
    answer = rw_acquire(t4, "w", "C", 1, NO_TICKET);
    refused(answer, 0);
    assert_true(answer.n[1] <= 200000);
}

static void the_only_hold_ends_with_the_key_until_another_comes(void **state)
{
    (void)state;
    script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);
    for (int i = 0; i < 2; i++) {
        granted(acquire_for(t1, "r A", "300000"));
        assert_int_equal(own_end(t1), 0);
        assert_int_equal(rw_renew(t1, 400000), 1);
        assert_int_equal(own_end(t1), 0);
        granted(acquire_for(t2, i ? "r A" : "r B", "200000"));
        assert_int_in_range(own_end(t1), 300000, 400000);
        assert_int_in_range(own_end(t2), 100000, 200000);
        assert_int_equal(rw_renew(t1, 500000), 1);
        assert_int_in_range(own_end(t1), 400000, 500000);
        rw_released(rw_release(t1, "r", "A"), i);
        /* The key lives longer because of t1. */
        assert_int_equal(rw_renew(t2, 300000), 1);
        assert_int_in_range(own_end(t2), 200000, 300000);
        assert_int_equal(rw_renew(t2, 600000), 1);
        assert_int_equal(own_end(t2), 0);
        assert_int_in_range(script_do(&server, "PTTL rw"), 500000, 600000);
        rw_released(rw_release(t2, "r", i ? "A" : "B"), 0);
    }
}

/* Redis before 7.0 does not report when a key ends. */
static void the_end_that_an_only_hold_gets_is_not_before_the_key_s(void **state)
{
    long long key_ends;

    (void)state;
    script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);
    granted(acquire_for(t1, "r A", "300000"));
    key_ends = script_do(&server, "EVAL %s 1 rw",
                         "local ends = redis.pcall('PEXPIRETIME', KEYS[1]) "
                         "return type(ends) == 'number' and ends or 0");
    granted(acquire_for(t2, "r B", "200000"));
    assert_true(atoll(script_get(&server, "HGET rw h:%s", t1)) >= key_ends);
}

/* The hold's own end is the later one if all of this happens within a millisecond. No
 * machine is certain to be that fast, so the end is moved forward here. */
static void the_key_s_end_is_taken_only_where_it_is_the_later_one(void **state)
{
    long long end;

    (void)state;
    granted(acquire_for(t1, "r A", "300000"));
    granted(acquire_for(t2, "r B", "200000"));
    rw_released(rw_release(t2, "r", "B"), 0);
    end = atoll(script_get(&server, "HGET rw h:%s", t1)) + 900;
    script_do(&server, "EVAL %s 1 rw %s %s",
              "redis.call('HSET', KEYS[1], 'h:' .. ARGV[1], ARGV[2] .. ' r A', "
              "'mode', '2 1 1 0 ' .. ARGV[2] .. ' 0 ') return 1",
              t1, script_number(end));
    assert_int_equal(rw_renew(t1, 300100), 1); /* no end moves to an earlier time */
}

/* A script may have broken off while it gave the hold an end of its own. The expiry of
 * another hold must not remove the renewed one. */
static void an_only_hold_s_end_that_is_not_the_key_s_is_put_right_by_its_renewal(
    void **state)
{
    char record[160];

    (void)state;
    granted(acquire_for(t1, "r A", "300000"));
    (void)snprintf(record, sizeof(record), "1 r A"); /* an end long ago */
    script_do(&server, "HSET rw h:%s %s", t1, record);
    assert_int_equal(rw_renew(t1, 400000), 1);
    assert_int_equal(own_end(t1), 0);
    script_do(&server, "HSET rw h:%s %s", t1, record);
    granted(acquire_for(t1, "r A", "400000"));
    assert_int_equal(own_end(t1), 0);
    granted(acquire_for(t2, "r B", "200000"));
    rw_end(t2);
    refused(rw_acquire(t4, "w", "C", 0, NO_TICKET), -1);
    assert_counts(1, 1, 0);
    assert_int_in_range(own_end(t1), 300000, 400000);
}

static void an_only_hold_of_a_key_without_ttl_gets_one_again(void **state)
{
    (void)state;
    script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);
    granted(acquire_for(t1, "r A", "300000"));
    script_do(&server, "PERSIST rw");
    assert_int_equal(rw_renew(t1, 400000), 1);
    assert_int_in_range(script_do(&server, "PTTL rw"), 300000, 400000);
    script_do(&server, "PERSIST rw");
    granted(acquire_for(t2, "r B", "200000"));
    assert_int_in_range(own_end(t1), 100000, 200000);
    assert_int_in_range(script_do(&server, "PTTL rw"), 100000, 200000);
}

static void an_acquire_sent_again_after_the_end_is_a_new_grant(void **state)
{
    long long fence = granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));

    (void)state;
    rw_end(t1);
    assert_true(granted(rw_acquire(t1, "w", "A", 1, NO_TICKET)) > fence);
    assert_counts(0, 0, 1);
}

static void an_owner_s_old_handle_ends_and_its_new_one_stays(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    rw_end(t1);
    granted(rw_acquire(t3, "w", "A", 1, NO_TICKET));
    assert_int_equal(rw_renew(t1, LEASE), 0);
    answer = rw_release(t1, "w", "A");
    assert_int_equal(answer.n[0], 0);
    assert_int_equal(answer.n[1], 1);
    assert_counts(0, 0, 1);
    assert_int_equal(rw_renew(t3, LEASE), 1);
}

static void a_late_release_of_a_hold_nobody_dropped_yet_counts(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    rw_end(t1);
    rw_released(rw_release(t1, "r", "A"), 0);
    assert_counts(1, 1, 0);
}

/* Permits: each request's own limit on the number of owners that read. */

static void permits_bound_the_owners(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r2", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r2", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "r2", "C", 0, NO_TICKET), -1);
    refused(rw_acquire(t3, "r2", "C", 1, NO_TICKET), 0);
    rw_released(rw_release(t2, "r2", "B"), 0);
    script_client_turn(&a, t3);
    assert_counts(2, 2, 0);
}

static void a_re_entrant_hold_takes_no_permit(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r1", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r1", "A", 0, NO_TICKET));
    refused(rw_acquire(t2, "r1", "B", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "r1", "A"), 1);
    script_client_silent(&b);
    rw_released(rw_release(t3, "r1", "A"), 0);
    script_client_turn(&b, t2);
}

static void permits_are_each_request_s_own_and_order_stays(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r1", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r1", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t3, "r5", "C", 1, NO_TICKET), 1);
    rw_released(rw_release(t1, "r1", "A"), 0);
    script_client_turn(&b, t2);
    script_client_turn(&a, t3);
    refused(rw_acquire(t4, "r2", "D", 0, NO_TICKET), -1);
    granted(rw_acquire(t4, "r3", "D", 0, NO_TICKET));
}

static void a_dead_owner_frees_its_permit_when_its_lease_is_over(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r2", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r2", "B", 1, NO_TICKET));
    rw_end(t1);
    granted(rw_acquire(t3, "r2", "C", 1, NO_TICKET));
    assert_counts(2, 2, 0);
}

/* Removing an expired hold makes room for many waiters, but a grant's reply has no
 * element for `again`. */
static void a_re_entrant_grant_tells_the_head_it_could_not_serve(void **state)
{
    char member[120];

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    for (int i = 0; i < 130; i++) {
        (void)snprintf(member, sizeof(member), "r0 %s:%d:60000- reader %d", a.uuid,
                       100 + i, i);
        script_do(&server, "ZADD " RW_QUEUE " %d %s", i + 1, member);
    }
    script_do(&server, "PEXPIRE " RW_QUEUE " 120000");
    granted(rw_acquire(t4, "r", "B", 1, NO_TICKET));
    for (int i = 0; i < 128; i++) {
        script_client_turn(&a, script_token(&a, 100 + i, 60000));
    }
    script_client_standby(&a, script_token(&a, 228, 60000), 1);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 2);
}

/* A script that broke off may have left a state that counts too many holds. */
static void a_wrong_count_is_corrected_when_a_hold_expires(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
        granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
        rw_end(t3);
        script_do(&server, "HSET rw mode %s r:D %s", "2 5 4 0 1 0 ",
                  "1 1763690000000001");
        script_do(&server, "CONFIG SET maxmemory %d", full);
        assert_int_equal(rw_renew(t1, 2 * LEASE), 1);
        assert_counts(1, 1, 0);
        assert_int_equal(script_do(&server, "HEXISTS rw r:D"), 0);
        script_do(&server, "CONFIG SET maxmemory 0");
        granted(rw_acquire(t2, "r2", "B", 0, NO_TICKET)); /* the second of two permits */
        rw_released(rw_release(t2, "r", "B"), 0);
        rw_released(rw_release(t1, "r", "A"), 0);
        assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    }
}

static void a_count_that_is_too_low_is_corrected_when_a_hold_expires(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    rw_end(t3);
    script_do(&server, "HSET rw mode %s", "2 1 1 0 1 0 ");
    script_do(&server, "HSET rw r:B %s", "4 1763690000000001");
    assert_int_equal(rw_renew(t1, LEASE), 1);
    assert_int_equal(rw_renew(t2, LEASE), 1);
    assert_counts(2, 2, 0);
    rw_released(rw_release(t1, "r", "A"), 0);
    refused(rw_acquire(t4, "w", "D", 0, NO_TICKET), -1);
    rw_released(rw_release(t2, "r", "B"), 0);
}

/* The owner of a damaged hold is unknown: the hold excludes others until the key
 * expires. */
static void a_damaged_hold_is_counted_among_the_others(void **state)
{
    static const char *const states[] = {"2 7 6 0 1 0 ", "2 7 6 1 1 1763690000000001 A"};
    static const char *const counts[] = {"2 2 2 0 ", "2 2 1 1 "};
    struct script_answer answer;

    (void)state;
    for (int i = 0; i < 2; i++) {
        script_do(&server, "DEL foreign");
        script_do(&server, "HSET foreign mode %s h:%s %s h:%s %s h:%s broken", states[i],
                  t1, "4000000000000 r A", t3, "1 r C", t2);
        /* A's field was lost. */
        script_do(&server, "HSET foreign r:C %s", "1 1763690000000002");
        script_do(&server, "PEXPIRE foreign 600000");
        answer = script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "foreign",
                            "lockwire:2:rwqueue:{foreign}", NUMBERS, t1, "600000", NULL);
        assert_int_equal(first_of(answer, 1), 1);
        assert_int_equal(strncmp(script_get(&server, "HGET foreign r:A"), "1 1", 3), 0);
        assert_int_equal(script_do(&server, "HEXISTS foreign r:C"), 0);
        assert_int_equal(script_do(&server, "HEXISTS foreign h:%s", t3), 0);
        assert_int_equal(script_do(&server, "HEXISTS foreign h:%s", t2), 1);
        assert_int_equal(strncmp(script_get(&server, "HGET foreign mode"), counts[i], 8),
                         0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_dead_reader_goes_after_its_own_lease_though_others_read_on),
        TOKENS_TEST(whoever_sees_a_dead_reader_lets_the_next_in),
        TOKENS_TEST(a_hold_that_ended_is_neither_renewed_nor_a_grant_any_more),
        TOKENS_TEST(a_renewal_of_one_reader_drops_another_that_ended),
        TOKENS_TEST(who_comes_or_goes_among_readers_drops_one_that_ended),
        TOKENS_TEST(a_renewal_of_a_vanished_lock_serves_the_queue),
        TOKENS_TEST(a_batch_renews_each_name_for_itself),
        TOKENS_TEST(a_short_renewal_after_a_long_one_shortens_nothing),
        TOKENS_TEST(a_write_lease_that_ends_leaves_the_reads_and_lets_readers_in),
        TOKENS_TEST(the_next_asks_when_the_earliest_hold_ends_not_the_key),
        TOKENS_TEST(the_only_hold_ends_with_the_key_until_another_comes),
        TOKENS_TEST(the_end_that_an_only_hold_gets_is_not_before_the_key_s),
        TOKENS_TEST(the_key_s_end_is_taken_only_where_it_is_the_later_one),
        TOKENS_TEST(an_only_hold_s_end_that_is_not_the_key_s_is_put_right_by_its_renewal),
        TOKENS_TEST(an_only_hold_of_a_key_without_ttl_gets_one_again),
        TOKENS_TEST(an_acquire_sent_again_after_the_end_is_a_new_grant),
        TOKENS_TEST(an_owner_s_old_handle_ends_and_its_new_one_stays),
        TOKENS_TEST(a_late_release_of_a_hold_nobody_dropped_yet_counts),
        TOKENS_TEST(permits_bound_the_owners),
        TOKENS_TEST(a_re_entrant_hold_takes_no_permit),
        TOKENS_TEST(permits_are_each_request_s_own_and_order_stays),
        TOKENS_TEST(a_dead_owner_frees_its_permit_when_its_lease_is_over),
        TOKENS_TEST(a_re_entrant_grant_tells_the_head_it_could_not_serve),
        TOKENS_TEST(a_wrong_count_is_corrected_when_a_hold_expires),
        TOKENS_TEST(a_count_that_is_too_low_is_corrected_when_a_hold_expires),
        TOKENS_TEST(a_damaged_hold_is_counted_among_the_others),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
