/* SPDX-License-Identifier: MIT
 *
 * Tests how the read-write scripts treat a head of the queue that may not enter yet and
 * so keeps out others that could: a dead one, one that hangs, a former reader with an
 * upgrader's ticket. Independent of the C client. A test lets time pass by writing a
 * waiter's note into the past.
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

#include "hold/machine.h"
#include "script_calls.h"

static void a_dead_writer_does_not_keep_out_a_reader_that_tries_once(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    rw_queue_dead("w", "B", 0);
    granted(rw_acquire(t4, "r", "C", 0, NO_TICKET));
    assert_counts(2, 2, 0);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void behind_the_dead_a_live_writer_still_comes_before_who_tries_once(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    rw_queue_dead("w", "B", 0);
    refused(rw_acquire(t2, "w", "C", 1, NO_TICKET), 1);
    refused(rw_acquire(t4, "r", "D", 0, NO_TICKET), -1);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t2);
}

static void a_dead_request_at_its_permits_limit_keeps_nobody_out(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r1", "A", 1, NO_TICKET));
    rw_queue_dead("r1", "B", 0);
    granted(rw_acquire(t2, "r5", "C", 0, NO_TICKET));
    rw_queue_dead("r1", "D", 0);
    granted(rw_acquire(t4, "r5", "E", 1, NO_TICKET));
    assert_counts(3, 3, 0);
}

/* Time passes without a request of this waiter. */
static void hang(const char *token)
{
    assert_int_equal(script_do(&server, "HEXISTS rw a:%s", token), 1);
    script_do(&server, "HSET rw a:%s 1", token);
}

static long long count_notes(void)
{
    return script_do(&server, "EVAL %s 0",
                     "local count = 0 "
                     "for _, field in ipairs(redis.call('HKEYS', 'rw')) do "
                     "  count = count + (field:sub(1, 2) == 'a:' and 1 or 0) "
                     "end "
                     "return count");
}

static void a_writer_that_hangs_is_passed_over_and_keeps_its_place(void **state)
{
    long long ticket;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    ticket = refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
    hang(t2);
    granted(rw_acquire(t4, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "D", 1, NO_TICKET), 0);
    assert_int_equal(refused(rw_acquire(t2, "w", "B", 1, ticket), 0), ticket);
    refused(rw_acquire(t3, "w", "D", 1, NO_TICKET), 1);
    refused(rw_acquire(script_token(&a, 5, WINDOW), "r", "E", 0, NO_TICKET), -1);
    rw_released(rw_release(t1, "r", "A"), 0);
    rw_released(rw_release(t4, "r", "C"), 0);
    script_client_turn(&b, t2);
    script_client_standby(&a, t3, 50000);
}

static void a_writer_that_hangs_keeps_out_no_reader_that_tries_once(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 0, NO_TICKET), -1);
    hang(t2);
    granted(rw_acquire(t4, "r", "C", 0, NO_TICKET));
    assert_counts(2, 2, 0);
}

static void a_writer_that_hangs_leaves_readers_in_when_a_third_lets_go(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "D", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
    hang(t2);
    rw_released(rw_release(t3, "r", "D"), 0);
    script_client_turn(&b, t4);
    assert_counts(2, 2, 0);
}

static void a_release_passes_over_several_that_hang_or_are_dead(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "D", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    rw_queue_dead("w", "E", 1);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 2);
    hang(t2);
    rw_released(rw_release(t3, "r", "D"), 0);
    script_client_turn(&b, t4);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void a_writer_that_asks_does_not_hang(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
    hang(t2);
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
}

static void a_request_at_its_permits_limit_that_hangs_is_passed_over_too(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r1", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r1", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r2", "C", 1, NO_TICKET), 1);
    hang(t2);
    granted(rw_acquire(t4, "r2", "C", 1, NO_TICKET));
}

static void many_that_hang_are_passed_over_at_once(void **state)
{
    enum { MANY = 140 };

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    for (int i = 0; i < MANY; i++) {
        refused(rw_acquire(script_token(&a, 100 + i, WINDOW), "w", "B", 1, NO_TICKET), i);
    }
    assert_int_equal(count_notes(), 128); /* the most that one call reads */
    for (int i = 0; i < MANY; i++) {
        script_do(&server, "HSET rw a:%s 1", script_token(&a, 100 + i, WINDOW));
    }
    /* `again` is set: the call is to be repeated. */
    assert_int_equal(rw_acquire(t4, "r", "C", 0, NO_TICKET).n[5], 1);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), MANY - 128);
    granted(rw_acquire(t4, "r", "C", 0, NO_TICKET));
    assert_int_equal(count_notes(), 0);
}

/* A waiter hangs after three of its longest polls, by the client's own rule, and its
 * window. */
static void the_time_to_ask_again_is_that_of_the_place(void **state)
{
    static const int places[] = {0, 1, 2, 3, 4, 99, 100, 127};

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        long long longest = lw__machine_poll_us(-1, places[i], 1000) / 1000, before, due;
        char member[120];

        script_do(&server, "DEL " RW_QUEUE);
        for (int place = 0; place < places[i]; place++) {
            (void)snprintf(member, sizeof(member), "w0 %s:%d:60000- X", a.uuid, place);
            script_do(&server, "ZADD " RW_QUEUE " %d %s", place + 1, member);
        }
        script_do(&server, "PEXPIRE " RW_QUEUE " 120000");
        before = atoll(script_get(&server, "TIME")) * 1000;
        refused(rw_acquire(t3, "w", "B", 1, NO_TICKET), places[i]);
        due = atoll(script_get(&server, "HGET rw a:%s", t3)) - 3 * longest - 40000;
        assert_true(due >= before);
        assert_true(due <= atoll(script_get(&server, "TIME")) * 1000 + 1000);
    }
}

/* A lock that was free for a moment has lost the notes of its waiters' last requests. */
static void of_whom_nothing_is_known_counts_as_if_it_asked_now(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(script_token(&a, 5, WINDOW), "r", "R", 1, NO_TICKET), 0);
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 1);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 2);
    refused(rw_acquire(t4, "r", "D", 1, NO_TICKET), 3);
    rw_released(rw_release(t1, "w", "A"), 0);
    script_client_turn(&a, script_token(&a, 5, WINDOW));
    script_client_standby(&b, t2, WINDOW);
    refused(rw_acquire(t4, "r", "D", 1, NO_TICKET), 2);
    hang(t2);
    hang(t3); /* t3 was noted together with t2, and costs no time of its own */
    granted(rw_acquire(t4, "r", "D", 1, NO_TICKET));
}

static void notes_go_with_who_leaves_and_with_the_last_read(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    assert_int_equal(count_notes(), 2);
    rw_release(t2, "w", "B");
    assert_int_equal(count_notes(), 1);
    granted(rw_acquire(t3, "w", "A", 1, NO_TICKET));
    /* The writer also reads: it may become only a reader again. */
    assert_int_equal(count_notes(), 1);
    rw_released(rw_release(t1, "r", "A"), 1);
    assert_int_equal(count_notes(), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 0);
    assert_int_equal(count_notes(), 0); /* no other waiter could enter before it */
    rw_released(rw_release(t3, "w", "A"), 0);
    script_client_turn(&b, t4);
}

static void notes_of_queues_that_expired_do_not_pile_up(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    for (int i = 0; i < 300; i++) {
        refused(rw_acquire(script_token(&a, 100 + i, WINDOW), "w", "B", 1, NO_TICKET), 0);
        script_do(&server, "DEL " RW_QUEUE);
    }
    assert_true(count_notes() <= 257);
}

static void out_of_memory_who_waits_is_noted_all_the_same(void **state)
{
    long long ticket;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    ticket = refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    hang(t2);
    script_do(&server, "CONFIG SET maxmemory 1");
    refused(rw_acquire(t2, "w", "B", 1, ticket), 0);
    assert_string_not_equal(script_get(&server, "HGET rw a:%s", t2), "1");
    script_do(&server, "HDEL rw a:%s", t2);
    refused(rw_acquire(t4, "r", "C", 0, NO_TICKET), -1);
    assert_int_equal(count_notes(), 1);
}

/* A re-entry draws no fencing token, so another write must come before its message. */
static void a_read_only_server_tells_nobody_who_is_in_already(void **state)
{
    long long ticket;
    char member[120];

    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    ticket = refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    (void)snprintf(member, sizeof(member), "w0 %s A", t3);
    script_do(&server, "ZADD " RW_QUEUE " 1 %s", member);
    script_do(&server, "REPLICAOF 127.0.0.1 1");
    assert_non_null(strstr(rw_acquire(t2, "w", "B", 1, ticket).text, "READONLY"));
    script_client_silent(&a);
    script_do(&server, "REPLICAOF NO ONE");
    refused(rw_acquire(t2, "w", "B", 1, ticket), 0);
    script_client_turn(&a, t3);
    script_client_standby(&b, t2, 40000);
}

/* An upgrader's ticket, 0, gives it its place only while its owner holds. */

static void a_former_reader_waits_behind_whoever_came_meanwhile(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    rw_released(rw_release(t1, "r", "A"), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
    rw_released(rw_release(t4, "w", "C"), 0);
    script_client_turn(&a, t3);
}

static void a_former_reader_that_asks_is_told_its_new_ticket(void **state)
{
    long long place, ticket;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    place = refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    rw_end(t1);
    ticket = refused(rw_acquire(t3, "w", "A", 1, 0), 1);
    assert_true(ticket > place);
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, 0), 1), ticket);
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, ticket), 1), ticket);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

static void a_former_reader_of_a_lock_that_vanished_is_no_upgrader_either(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    script_do(&server, "DEL rw");
    assert_int_equal(rw_renew(t1, LEASE), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

/* Otherwise it would wait for a writer that waits for the end of its own read hold. */
static void a_waiting_writer_that_becomes_a_reader_waits_as_an_upgrader(void **state)
{
    char t5[80];

    (void)state;
    strcpy(t5, script_token(&a, 5, WINDOW));
    granted(rw_acquire(t1, "w", "X", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "A", 1, NO_TICKET), 0);
    refused(rw_acquire(t5, "r", "B", 1, NO_TICKET), 1);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 2);
    refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 3);
    rw_released(rw_release(t1, "w", "X"), 0);
    script_client_turn(&b, t2);
    script_client_turn(&a, t5);
    script_client_standby(&a, t3, 60000);
    assert_int_equal(refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 0), 0);
    rw_released(rw_release(t5, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_dead_writer_does_not_keep_out_a_reader_that_tries_once),
        TOKENS_TEST(behind_the_dead_a_live_writer_still_comes_before_who_tries_once),
        TOKENS_TEST(a_dead_request_at_its_permits_limit_keeps_nobody_out),
        TOKENS_TEST(a_writer_that_hangs_is_passed_over_and_keeps_its_place),
        TOKENS_TEST(a_writer_that_hangs_keeps_out_no_reader_that_tries_once),
        TOKENS_TEST(a_writer_that_hangs_leaves_readers_in_when_a_third_lets_go),
        TOKENS_TEST(a_release_passes_over_several_that_hang_or_are_dead),
        TOKENS_TEST(a_writer_that_asks_does_not_hang),
        TOKENS_TEST(a_request_at_its_permits_limit_that_hangs_is_passed_over_too),
        TOKENS_TEST(many_that_hang_are_passed_over_at_once),
        TOKENS_TEST(the_time_to_ask_again_is_that_of_the_place),
        TOKENS_TEST(of_whom_nothing_is_known_counts_as_if_it_asked_now),
        TOKENS_TEST(notes_go_with_who_leaves_and_with_the_last_read),
        TOKENS_TEST(notes_of_queues_that_expired_do_not_pile_up),
        TOKENS_TEST(out_of_memory_who_waits_is_noted_all_the_same),
        TOKENS_TEST(a_read_only_server_tells_nobody_who_is_in_already),
        TOKENS_TEST(a_former_reader_waits_behind_whoever_came_meanwhile),
        TOKENS_TEST(a_former_reader_that_asks_is_told_its_new_ticket),
        TOKENS_TEST(a_former_reader_of_a_lock_that_vanished_is_no_upgrader_either),
        TOKENS_TEST(a_waiting_writer_that_becomes_a_reader_waits_as_an_upgrader),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
