/* SPDX-License-Identifier: MIT
 *
 * Tests what the read-write scripts promise to owners, readers, writers and upgraders, on
 * a real server. Independent of the C client. After every script the fixture compares the
 * counts with the holds.
 *
 * Each test starts as in mutex.c; owners are A, B, C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

static void readers_share_and_a_writer_excludes_all_others(void **state)
{
    long long first = granted(rw_acquire(t1, "r", "A", 0, NO_TICKET));

    (void)state;
    assert_true(granted(rw_acquire(t2, "r", "B", 0, NO_TICKET)) > first);
    assert_counts(2, 2, 0);
    refused(rw_acquire(t3, "w", "C", 0, NO_TICKET), -1);
    rw_released(rw_release(t1, "r", "A"), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    granted(rw_acquire(t3, "w", "C", 0, NO_TICKET));
    refused(rw_acquire(t1, "r", "A", 0, NO_TICKET), -1);
    refused(rw_acquire(t2, "w", "B", 0, NO_TICKET), -1);
    rw_released(rw_release(t3, "w", "C"), 0);
}

static void who_asked_first_without_joining_joins_before_who_came_later(void **state)
{
    long long ticket;

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    ticket = refused(rw_acquire(t2, "w", "B", 0, NO_TICKET), -1);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 0);
    assert_int_equal(refused(rw_acquire(t2, "w", "B", 1, ticket), 0), ticket);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 1);
}

static void a_request_with_a_limit_joins_while_fewer_are_queued(void **state)
{
    const char *t5 = script_token(&a, 5, WINDOW);

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t5, "r", "D", 1, NO_TICKET));
    script_limit = 1;
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0); /* t2 stays */
    refused(rw_acquire(t3, "r", "C", 1, NO_TICKET), FULL);
    refused(rw_acquire(t3, "r", "C", 1, 17), FULL);
    refused(rw_acquire(t3, "r", "C", 0, NO_TICKET), FULL);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 0); /* its owner already reads */
    script_limit = 3;
    refused(rw_acquire(t3, "r", "C", 1, NO_TICKET), 2);
}

static void an_owner_that_is_let_in_by_its_own_request_has_no_limit(void **state)
{
    const char *t5 = script_token(&a, 5, WINDOW);

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t5, "r", "D", 1, NO_TICKET), 1);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 2);
    script_do(&server, "DEL rw");
    script_limit = 1;
    refused(rw_acquire(t4, "w", "B", 1, NO_TICKET), 0); /* B and D enter to read */
    script_client_turn(&b, t2);
    script_client_turn(&a, t5);
    script_client_standby(&a, t3, 60000);
    assert_counts(2, 2, 0);
}

static void an_acquire_sent_twice_counts_once(void **state)
{
    long long fence = granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));

    (void)state;
    assert_int_equal(granted(rw_acquire(t1, "r", "A", 1, NO_TICKET)), fence);
    assert_counts(1, 1, 0);
    rw_released(rw_release(t1, "r", "A"), 0);
    fence = granted(rw_acquire(t2, "w", "B", 1, NO_TICKET));
    assert_int_equal(granted(rw_acquire(t2, "w", "B", 1, NO_TICKET)), fence);
    assert_counts(0, 0, 1);
}

static void a_release_sent_twice_counts_once(void **state)
{
    struct script_answer again;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    rw_released(rw_release(t1, "r", "A"), 1);
    again = rw_release(t1, "r", "A");
    assert_int_equal(again.n[0], 0);
    assert_int_equal(again.n[1], 1);
    assert_counts(1, 1, 0);
}

static void an_owner_s_holds_are_counted_and_share_its_number(void **state)
{
    long long fence = granted(rw_acquire(t1, "w", "A owner", 1, NO_TICKET));

    (void)state;
    assert_int_equal(granted(rw_acquire(t3, "w", "A owner", 1, NO_TICKET)), fence);
    assert_int_equal(granted(rw_acquire(t4, "r", "A owner", 1, NO_TICKET)), fence);
    assert_counts(1, 1, 2);
    rw_released(rw_release(t1, "w", "A owner"), 2);
    rw_released(rw_release(t4, "r", "A owner"), 1);
    rw_released(rw_release(t3, "w", "A owner"), 0);
    assert_true(granted(rw_acquire(t1, "w", "A owner", 1, NO_TICKET)) > fence);
}

static void an_owner_that_is_not_named_is_the_token(void **state)
{
    char member[200], reads[64];
    long long fence = granted(rw_acquire(t1, "r", "", 1, NO_TICKET)), higher;

    (void)state;
    (void)snprintf(reads, sizeof(reads), "1 %lld", fence);
    assert_string_equal(script_get(&server, "HGET rw r:%s", t1), reads);
    assert_string_equal(strchr(script_get(&server, "HGET rw h:%s", t1), 'r') + 2, t1);
    higher = granted(rw_acquire(t3, "w", t1, 1, NO_TICKET));
    assert_true(higher > fence);
    refused(rw_acquire(t2, "w", "", 1, NO_TICKET), 0);
    (void)snprintf(member, sizeof(member), "w0 %s %s", t2, t2);
    assert_string_equal(script_get(&server, "ZRANGE " RW_QUEUE " 0 0"), member);
    assert_int_equal(rw_release(t2, "w", "").n[0], 0);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
    rw_released(rw_release(t3, "w", t1), 1);
    assert_int_equal(granted(rw_acquire(t1, "r", "", 1, NO_TICKET)), higher);
    rw_released(rw_release(t1, "r", ""), 0);
    higher = granted(rw_acquire(t4, "w", "", 1, NO_TICKET));
    assert_non_null(strstr(script_get(&server, "HGET rw mode"), t4));
    assert_int_equal(granted(rw_acquire(t2, "r", t4, 1, NO_TICKET)), higher);
}

static void the_end_of_writing_leaves_a_read_lock_and_lets_readers_in(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "w", "A"), 1);
    assert_counts(2, 2, 0);
    assert_string_equal(script_client_turn(&b, t2).name, "rw");
    granted(rw_acquire(t4, "r", "C", 1, NO_TICKET));
}

static void the_sole_reader_upgrades_at_once_with_a_new_number(void **state)
{
    long long fence = granted(rw_acquire(t1, "r", "A", 1, NO_TICKET)), higher;

    (void)state;
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    higher = granted(rw_acquire(t3, "w", "A", 0, NO_TICKET));
    assert_true(higher > fence);
    assert_counts(1, 1, 1);
    rw_released(rw_release(t3, "w", "A"), 1);
    assert_true(granted(rw_acquire(t3, "w", "A", 0, NO_TICKET)) > higher);
}

static void an_upgrader_waits_for_the_readers_before_all_queued_writers(void **state)
{
    long long fence = granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));

    (void)state;
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 0);
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    assert_true(script_client_turn(&a, t3).fence > fence);
    script_client_standby(&b, t4, 40000);
    assert_counts(1, 1, 1);
}

static void of_two_upgraders_the_second_is_told_of_the_deadlock(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    answer = rw_acquire(t4, "w", "B", 1, NO_TICKET);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.n[0], -1);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&a, t3);
}

static void a_dead_upgrader_is_no_deadlock(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    rw_queue_dead("w", "A", 0);
    refused(rw_acquire(t4, "w", "B", 1, NO_TICKET), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t4);
}

static void two_upgrades_of_one_owner_are_no_deadlock(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    assert_int_equal(refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 1), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    assert_int_equal(script_client_turn(&a, t3).fence, script_client_turn(&b, t4).fence);
    assert_counts(1, 1, 2);
}

static void an_upgrader_that_lost_its_reads_waits_as_a_writer(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "r", "A"), 0);
    granted(rw_acquire(t4, "w", "B", 1, NO_TICKET));
    rw_released(rw_release(t4, "w", "B"), 1);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&a, t3);
}

static void ticket_0_is_worth_nothing_without_a_hold(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    assert_true(refused(rw_acquire(t4, "w", "C", 1, 0), 1) > 1LL << 50);
}

static void a_hold_that_is_queued_besides_is_not_counted_again(void **state)
{
    char member[120];

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "w", "A", 1, NO_TICKET));
    (void)snprintf(member, sizeof(member), "w0 %s A", t3);
    script_do(&server, "ZADD " RW_QUEUE " 1 %s", member);
    script_do(&server, "PEXPIRE " RW_QUEUE " 120000");
    rw_released(rw_release(t1, "w", "A"), 1);
    script_client_turn(&a, t3);
    assert_counts(0, 0, 1);
}

/* Waiting. */

static void new_readers_queue_behind_a_waiting_writer_and_re_entrant_ones_do_not(
    void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
    refused(rw_acquire(t4, "r", "C", 0, NO_TICKET), 1);
    granted(rw_acquire(t3, "r", "A", 1, NO_TICKET));
    assert_counts(2, 1, 0);
}

static void readers_enter_when_the_writer_before_them_gives_up(void **state)
{
    struct script_answer left;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
    left = rw_release(t2, "w", "B");
    assert_int_equal(left.n[0] + left.n[1] + left.n[2], 0);
    script_client_turn(&b, t4);
    assert_counts(2, 2, 0);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void a_dead_writer_does_not_keep_readers_out_though_a_pattern_listens(void **state)
{
    redisContext *spy = redisConnectUnix(server.socket);
    redisReply *reply = redisCommand(spy, "PSUBSCRIBE *");

    (void)state;
    assert_non_null(reply);
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    rw_queue_dead("w", "B", 0);
    granted(rw_acquire(t4, "r", "C", 1, NO_TICKET));
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
    freeReplyObject(reply);
    redisFree(spy);
}

static void a_writer_is_handed_the_lock_by_the_last_reader(void **state)
{
    long long fence;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    fence = granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_silent(&b);
    rw_released(rw_release(t3, "r", "C"), 0);
    assert_true(script_client_turn(&b, t2).fence > fence);
    assert_true(script_do(&server, "PTTL rw") <= 50000);
    granted(rw_acquire(t2, "w", "B", 1, NO_TICKET));
    assert_true(script_do(&server, "PTTL rw") > LEASE / 2);
    assert_counts(0, 0, 1);
}

static void a_run_of_readers_enters_together_and_the_writer_behind_stands_by(void **state)
{
    struct script_client dead;
    const char *t5 = script_token(&a, 5, WINDOW), *t6 = script_token(&b, 6, WINDOW);

    (void)state;
    script_client_dead(&dead, 99);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(script_token(&dead, 1, WINDOW), "r", "D", 1, NO_TICKET), 1);
    refused(rw_acquire(t3, "r", "C", 1, NO_TICKET), 2);
    refused(rw_acquire(t5, "w", "E", 1, NO_TICKET), 3);
    refused(rw_acquire(t6, "r", "F", 1, NO_TICKET), 4);
    rw_released(rw_release(t1, "w", "A"), 0);
    assert_counts(2, 2, 0);
    script_client_turn(&b, t2);
    script_client_turn(&a, t3);
    script_client_standby(&a, t5, 50000);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 2);
}

static void a_reader_s_turn_given_back_goes_on(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 1);
    rw_released(rw_release(t1, "w", "A"), 0);
    script_client_turn(&b, t2);
    script_client_standby(&a, t3, 50000);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&a, t3);
    assert_counts(0, 0, 1);
}

static void queue_readers(int count)
{
    char member[120];

    for (int i = 0; i < count; i++) {
        (void)snprintf(member, sizeof(member), "r0 %s:%d:60000- reader %d", a.uuid,
                       100 + i, i);
        script_do(&server, "ZADD " RW_QUEUE " %d %s", i + 1, member);
    }
    script_do(&server, "PEXPIRE " RW_QUEUE " 120000");
}

static void members_of_no_known_form_are_dropped_from_the_queue(void **state)
{
    static const char *const members[] = {"hello",         "r0 x",
                                          "x0 t:1:100- o", "r t:1:100- o",
                                          "r0 t:1:0- o",   "w0 t:1:60001- o"};
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        script_do(&server, "ZADD " RW_QUEUE " %d %s", (int)i, members[i]);
    }
    script_do(&server, "PEXPIRE " RW_QUEUE " 120000");
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "w", "A"), 0);
    script_client_turn(&b, t2);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void a_run_of_300_readers_enters_128_a_call(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    queue_readers(300);
    for (int call = 0; call < 3; call++) {
        int from = 128 * call, to = call < 2 ? from + 128 : 300;

        answer = rw_release(t1, "w", "A");
        assert_int_equal(answer.n[0], call == 0);
        assert_int_equal(answer.n[2], call < 2);
        for (int i = from; i < to; i++) {
            script_client_turn(&a, script_token(&a, 100 + i, 60000));
        }
        if (call < 2) {
            script_client_standby(&a, script_token(&a, 100 + to, 60000), 1);
        }
    }
    assert_counts(300, 300, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(readers_share_and_a_writer_excludes_all_others),
        TOKENS_TEST(who_asked_first_without_joining_joins_before_who_came_later),
        TOKENS_TEST(a_request_with_a_limit_joins_while_fewer_are_queued),
        TOKENS_TEST(an_owner_that_is_let_in_by_its_own_request_has_no_limit),
        TOKENS_TEST(an_acquire_sent_twice_counts_once),
        TOKENS_TEST(a_release_sent_twice_counts_once),
        TOKENS_TEST(an_owner_s_holds_are_counted_and_share_its_number),
        TOKENS_TEST(an_owner_that_is_not_named_is_the_token),
        TOKENS_TEST(the_end_of_writing_leaves_a_read_lock_and_lets_readers_in),
        TOKENS_TEST(the_sole_reader_upgrades_at_once_with_a_new_number),
        TOKENS_TEST(an_upgrader_waits_for_the_readers_before_all_queued_writers),
        TOKENS_TEST(of_two_upgraders_the_second_is_told_of_the_deadlock),
        TOKENS_TEST(a_dead_upgrader_is_no_deadlock),
        TOKENS_TEST(two_upgrades_of_one_owner_are_no_deadlock),
        TOKENS_TEST(an_upgrader_that_lost_its_reads_waits_as_a_writer),
        TOKENS_TEST(ticket_0_is_worth_nothing_without_a_hold),
        TOKENS_TEST(a_hold_that_is_queued_besides_is_not_counted_again),
        TOKENS_TEST(new_readers_queue_behind_a_waiting_writer_and_re_entrant_ones_do_not),
        TOKENS_TEST(readers_enter_when_the_writer_before_them_gives_up),
        TOKENS_TEST(a_dead_writer_does_not_keep_readers_out_though_a_pattern_listens),
        TOKENS_TEST(a_writer_is_handed_the_lock_by_the_last_reader),
        TOKENS_TEST(a_run_of_readers_enters_together_and_the_writer_behind_stands_by),
        TOKENS_TEST(a_reader_s_turn_given_back_goes_on),
        TOKENS_TEST(members_of_no_known_form_are_dropped_from_the_queue),
        TOKENS_TEST(a_run_of_300_readers_enters_128_a_call),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
