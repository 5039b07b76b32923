/* SPDX-License-Identifier: MIT
 *
 * Tests what the mutex scripts promise, call by call on a real server. Independent of the
 * C client. Expiry is played by deleting the key.
 *
 * Each test starts with an empty server and two live clients, a and b. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

static void a_free_name_is_granted_with_a_number(void **state)
{
    const char *token = script_token(&a, 1, WINDOW);

    (void)state;
    assert_true(granted(acquire(token, LEASE, 1, NO_TICKET)) > 1LL << 50);
    assert_holder(token);
    assert_true(script_do(&server, "PTTL n") > LEASE / 2);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void no_number_is_drawn_where_none_is_wanted(void **state)
{
    struct script_answer answer = mutex_answer(script_run(
        &server, LW__SCRIPT_MUTEX_ACQUIRE, 3, KEYS, script_token(&a, 1, WINDOW),
        script_how_long(script_how(1, NO_TICKET, 0), LEASE), NULL));

    (void)state;
    assert_int_equal(granted(answer), 0);
    assert_int_equal(script_do(&server, "EXISTS lockwire:fence"), 0);
}

static void acquire_sent_twice_is_one_grant_and_never_shortens_the_lease(void **state)
{
    const char *token = script_token(&a, 1, WINDOW);
    long long first = granted(acquire(token, LEASE, 1, NO_TICKET));

    (void)state;
    assert_true(granted(acquire(token, 100, 1, NO_TICKET)) >= first + 16);
    assert_true(script_do(&server, "PTTL n") > LEASE / 2);
    granted(acquire(token, 2 * LEASE, 1, NO_TICKET));
    assert_true(script_do(&server, "PTTL n") > LEASE);
    assert_int_equal(release(token), 1);
    assert_free();
}

static void who_does_not_wait_is_told_the_lease_and_leaves_no_trace(void **state)
{
    struct script_answer answer;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 0, NO_TICKET);
    answer = acquire(script_token(&b, 1, WINDOW), LEASE, 0, NO_TICKET);
    assert_int_equal(refused(answer, -1), answer.n[4]); /* it has just come */
    assert_true(answer.n[1] > LEASE / 2 && answer.n[1] <= LEASE);
    assert_true(answer.n[4] > 1LL << 50);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void who_waits_keeps_place_and_ticket_however_often_it_asks(void **state)
{
    const char *first = script_token(&b, 1, WINDOW),
               *second = script_token(&b, 2, WINDOW);
    long long ticket, next;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    ticket = refused(acquire(first, LEASE, 1, NO_TICKET), 0);
    next = refused(acquire(second, LEASE, 1, NO_TICKET), 1);
    assert_true(ticket > 1LL << 50 && next > ticket);
    assert_int_equal(refused(acquire(first, LEASE, 1, ticket), 0), ticket);
    assert_int_equal(refused(acquire(first, LEASE, 1, NO_TICKET), 0), ticket);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
}

static void an_old_ticket_regains_the_place_in_a_lost_queue(void **state)
{
    const char *first = script_token(&b, 1, WINDOW),
               *second = script_token(&b, 2, WINDOW);
    long long ticket, next;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    ticket = refused(acquire(first, LEASE, 1, NO_TICKET), 0);
    next = refused(acquire(second, LEASE, 1, NO_TICKET), 1);
    script_do(&server, "DEL " QUEUE);
    assert_int_equal(refused(acquire(second, LEASE, 1, next), 0), next);
    assert_int_equal(refused(acquire(first, LEASE, 1, ticket), 0), ticket);
    refused(acquire(second, LEASE, 1, next), 1);
}

/* The ticket from a waiter's first request is its place among those who have joined
 * since. */
static void who_asked_first_without_joining_joins_before_who_came_later(void **state)
{
    const char *first = script_token(&b, 1, WINDOW),
               *second = script_token(&b, 2, WINDOW);
    long long ticket;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    ticket = refused(acquire(first, LEASE, 0, NO_TICKET), -1);
    assert_int_equal(refused(acquire(first, LEASE, 0, ticket), -1), ticket);
    refused(acquire(second, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(refused(acquire(first, LEASE, 1, ticket), 0), ticket);
    refused(acquire(second, LEASE, 1, NO_TICKET), 1);
}

static void a_token_with_a_limit_joins_while_fewer_are_queued(void **state)
{
    const char *held = script_token(&a, 1, WINDOW);
    const char *t[4];
    long long ticket;

    (void)state;
    for (int i = 0; i < 4; i++) {
        t[i] = script_token(&b, i + 2, WINDOW);
    }
    granted(acquire(held, LEASE, 1, NO_TICKET));
    script_limit = 1;
    ticket = refused(acquire(t[0], LEASE, 1, NO_TICKET), 0);
    assert_marked(held);
    assert_int_equal(refused(acquire(t[0], LEASE, 1, NO_TICKET), 0), ticket);
    refused(acquire(t[1], LEASE, 1, NO_TICKET), FULL);
    refused(acquire(t[1], LEASE, 1, 17), FULL); /* a ticket does not help */
    refused(acquire(t[1], LEASE, 0, NO_TICKET), FULL);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
    script_limit = 2;
    refused(acquire(t[1], LEASE, 0, NO_TICKET), -1);
    refused(acquire(t[1], LEASE, 1, NO_TICKET), 1);
    refused(acquire(t[2], LEASE, 1, NO_TICKET), FULL);
    script_limit = 0;
    refused(acquire(t[2], LEASE, 1, 0), 0);
    script_limit = 2;
    refused(acquire(t[1], LEASE, 1, NO_TICKET), 2); /* t[1] stays */
    assert_int_equal(release(held), 1);
    assert_holder(t[2]);
    script_client_turn(&b, t[2]);
}

/* A free lock goes to the first waiter, whichever token requests it, and that waiter no
 * longer counts against the limit. */
static void waiters_are_served_before_they_are_counted(void **state)
{
    const char *held = script_token(&a, 1, WINDOW), *t2 = script_token(&b, 2, WINDOW);
    const char *t3 = script_token(&b, 3, WINDOW), *t4 = script_token(&a, 4, WINDOW);

    (void)state;
    granted(acquire(held, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    expire();
    script_limit = 1;
    refused(acquire(t3, LEASE, 1, NO_TICKET), 0);
    assert_holder(t2);
    script_client_turn(&b, t2);
    refused(acquire(t4, LEASE, 1, NO_TICKET), FULL);
}

static void tickets_grow_though_the_clock_steps_back(void **state)
{
    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    script_do(&server, "ZADD " QUEUE " 4000000000000000 %s", script_token(&b, 1, WINDOW));
    script_do(&server, "PEXPIRE " QUEUE " 60000");
    assert_int_equal(
        refused(acquire(script_token(&b, 2, WINDOW), LEASE, 1, NO_TICKET), 1),
        4000000000000001);
}

static void the_queue_lives_by_its_members_asking_only(void **state)
{
    const char *member = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    refused(acquire(member, LEASE, 1, NO_TICKET), 0);
    script_do(&server, "PEXPIRE " QUEUE " 60000");
    refused(acquire(script_token(&b, 2, WINDOW), LEASE, 0, NO_TICKET), -1);
    assert_true(script_do(&server, "PTTL " QUEUE) <= 60000);
    refused(acquire(member, LEASE, 1, NO_TICKET), 0);
    assert_true(script_do(&server, "PTTL " QUEUE) > 60000);
}

/* The first waiter of a holder without the queue mark, and a waiter behind others take
 * the fast way; behind a foreign key, and behind a mark without a queue, it is the slow
 * one. */
static void all_who_join_are_answered_alike(void **state)
{
    static const char *const holders[] = {"stranger",
                                          "00000000-0000-4000-8000-000000000000:1:"
                                          "60000+",
                                          "00000000-0000-4000-8000-000000000000:1:"
                                          "60000-"};

    (void)state;
    for (int way = 0; way < 3; way++) {
        script_do(&server, "DEL " QUEUE);
        script_do(&server, "SET n %s PX 500000", holders[way]);
        for (int i = 0; i < 5; i++) {
            const char *token = script_token(i % 2 ? &a : &b, 10 + i, WINDOW);
            struct script_answer answer = acquire(token, LEASE, 1, NO_TICKET);
            long long ticket = refused(answer, i), again;

            if (way > 0 && i > 0) { /* the fast way, and others in front */
                assert_int_equal(answer.n[1], NOT_TOLD);
            } else {
                assert_int_in_range(answer.n[1], 400000, 500000);
            }
            assert_int_equal(ticket, answer.n[4]);
            assert_int_equal(atoll(script_get(&server, "ZSCORE " QUEUE " %s", token)),
                             ticket);
            answer = acquire(token, LEASE, 1, NO_TICKET);
            again = refused(answer, i);
            assert_int_equal(again, ticket);
            assert_int_in_range(answer.n[1], 400000, 500000);
        }
        assert_string_equal(script_get(&server, "GET n"), holders[way > 0]);
        assert_int_in_range(script_do(&server, "PTTL " QUEUE), 100000, 120000);
        script_do(&server, "ZADD " QUEUE " 4000000000000000 %s",
                  script_token(&b, 99, WINDOW));
        refused(acquire(script_token(&a, 20, WINDOW), LEASE, 1, NO_TICKET), 6);
        assert_int_equal(atoll(script_get(&server, "ZSCORE " QUEUE " %s",
                                          script_token(&a, 20, WINDOW))),
                         4000000000000001);
    }
}

/* Behind a queue only a request that asks for it extends the queue's TTL; behind a
 * foreign key each request does. */
static void who_joins_has_the_queue_live_on_where_it_says_so(void **state)
{
    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    refused(acquire(script_token(&b, 1, WINDOW), LEASE, 1, NO_TICKET), 0);
    script_do(&server, "PEXPIRE " QUEUE " 60000");
    refused(acquire(script_token(&b, 2, WINDOW), LEASE, 1, NO_TICKET), 1);
    assert_true(script_do(&server, "PTTL " QUEUE) <= 60000);
    refused(acquire(script_token(&b, 3, WINDOW), LEASE, 2, NO_TICKET), 2);
    assert_true(script_do(&server, "PTTL " QUEUE) > 60000);
}

static void release_sent_twice_or_by_a_stranger_frees_nothing(void **state)
{
    const char *token = script_token(&a, 1, WINDOW), *next = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(token, LEASE, 1, NO_TICKET);
    assert_int_equal(release(next), 0);
    assert_holder(token);
    assert_int_equal(release(token), 1);
    acquire(next, LEASE, 1, NO_TICKET);
    assert_int_equal(release(token), 0);
    assert_holder(next);
}

static void release_hands_over_to_the_head_alone_and_the_next_stands_by(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW), *head = script_token(&b, 1, 50000);
    const char *next = script_token(&a, 2, 40000), *third = script_token(&b, 3, WINDOW);
    struct script_turn message;
    long long fence = granted(acquire(holder, LEASE, 1, NO_TICKET));

    (void)state;
    refused(acquire(head, LEASE, 1, NO_TICKET), 0);
    refused(acquire(next, LEASE, 1, NO_TICKET), 1);
    refused(acquire(third, LEASE, 1, NO_TICKET), 2);
    assert_int_equal(release(holder), 1);
    assert_holder(head);
    assert_true(script_do(&server, "PTTL n") <= 50000);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
    message = script_client_turn(&b, head);
    assert_true(message.fence >= fence + 16);
    assert_true(message.us > 1LL << 50);
    assert_string_equal(message.name, "n");
    script_client_standby(&a, next, 50000);
    assert_int_equal(release(holder), 0);
    assert_holder(head);
}

static void who_was_handed_the_lock_asks_and_has_its_full_lease(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW), *head = script_token(&b, 1, WINDOW);
    long long fence;

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    release(holder);
    fence = script_client_turn(&b, head).fence;
    assert_true(granted(acquire(head, LEASE, 1, NO_TICKET)) >= fence + 16);
    assert_true(script_do(&server, "PTTL n") > LEASE / 2);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void foreign_set_nx_finds_no_gap_in_a_hand_over(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW), *head = script_token(&b, 1, 60000);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    release(holder);
    assert_string_equal(script_get(&server, "SET n foreign NX PX 1000"), "");
    assert_holder(head);
    script_client_turn(&b, head);
}

static void waiters_are_served_in_the_order_of_their_arrival(void **state)
{
    const char *tokens[6];

    (void)state;
    for (int i = 0; i < 6; i++) {
        tokens[i] = script_token(i % 2 ? &b : &a, i, 40000 + i);
        acquire(tokens[i], LEASE, 1, NO_TICKET);
    }
    for (int i = 1; i < 6; i++) {
        assert_int_equal(release(tokens[i - 1]), 1);
        assert_holder(tokens[i]);
        assert_true(script_do(&server, "PTTL n") <= 40000 + i);
        script_client_turn(i % 2 ? &b : &a, tokens[i]);
        if (i < 5) {
            script_client_standby(i % 2 ? &a : &b, tokens[i + 1], 40000 + i);
        }
    }
}

static void a_waiter_that_leaves_is_skipped(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *leaver = script_token(&b, 1, WINDOW);
    const char *next = script_token(&b, 2, WINDOW);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    acquire(leaver, LEASE, 1, NO_TICKET);
    acquire(next, LEASE, 1, NO_TICKET);
    assert_int_equal(release(leaver), 0);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
    release(holder);
    script_client_turn(&b, next);
}

static void leaving_a_free_name_serves_the_next(void **state)
{
    const char *leaver = script_token(&b, 1, WINDOW), *next = script_token(&b, 2, WINDOW);

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    acquire(leaver, LEASE, 1, NO_TICKET);
    acquire(next, LEASE, 1, NO_TICKET);
    expire();
    assert_int_equal(release(leaver), 0);
    assert_holder(next);
    script_client_turn(&b, next);
}

static void a_turn_given_back_goes_to_the_next(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW), *head = script_token(&b, 1, WINDOW);
    const char *next = script_token(&a, 2, WINDOW);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    acquire(next, LEASE, 1, NO_TICKET);
    release(holder);
    script_client_turn(&b, head);
    script_client_standby(&a, next, WINDOW);
    assert_int_equal(release(head), 1);
    script_client_turn(&a, next);
    assert_holder(next);
}

static void an_expired_lock_goes_to_the_head_whoever_asks(void **state)
{
    const char *head = script_token(&a, 2, WINDOW), *next = script_token(&b, 2, WINDOW);

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    acquire(next, LEASE, 1, NO_TICKET);
    expire();
    refused(acquire(script_token(&b, 3, WINDOW), LEASE, 0, NO_TICKET), -1);
    assert_holder(head);
    script_client_turn(&a, head);
    script_client_standby(&b, next, WINDOW);
    expire();
    granted(acquire(next, LEASE, 1, NO_TICKET));
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void a_foreign_holder_after_expiry_keeps_the_queue_waiting(void **state)
{
    const char *head = script_token(&b, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    expire();
    script_do(&server, "SET n foreign PX 500000");
    answer = acquire(head, LEASE, 1, NO_TICKET);
    refused(answer, 0);
    assert_true(answer.n[1] <= 500000);
    assert_holder("foreign");
    expire();
    granted(acquire(head, LEASE, 1, NO_TICKET));
}

static void renew_extends_what_is_held_and_nothing_else(void **state)
{
    const char *mine = script_token(&a, 1, WINDOW), *other = script_token(&b, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    script_do(&server, "SET n1 %s PX 100000", mine);
    script_do(&server, "SET n2 %s PX 100000", other);
    script_do(&server, "SET n3 %s PX 900000", mine);
    script_do(&server, "RPUSH foreign-list x");
    answer = script_run(&server, LW__SCRIPT_MUTEX_RENEW, 5, "n1", "n2", "n3", "n4",
                        "foreign-list", mine, mine, mine, mine, mine, "600000", NULL);
    assert_int_equal(answer.count, 5);
    assert_int_equal(answer.n[0], 1);
    assert_int_equal(answer.n[1], 0);
    assert_int_equal(answer.n[2], 1);
    assert_int_equal(answer.n[3], 0);
    assert_int_equal(answer.n[4], 0);
    assert_true(script_do(&server, "PTTL n1") > 100000);
    assert_true(script_do(&server, "PTTL n2") <= 100000);
    assert_true(script_do(&server, "PTTL n3") > 600000);
    assert_int_equal(script_do(&server, "EXISTS n4"), 0);
}

static void a_batch_with_several_leases_gives_each_name_its_own(void **state)
{
    const char *mine = script_token(&a, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    for (int i = 1; i <= 3; i++) {
        script_do(&server, "SET n%d %s PX 1000", i, mine);
    }
    answer = script_run(&server, LW__SCRIPT_MUTEX_RENEW, 3, "n1", "n2", "n3", mine, mine,
                        mine, "600000", "300000", "600000", NULL);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.n[0], 3); /* all three */
    assert_int_in_range(script_do(&server, "PTTL n1"), 500000, 600000);
    assert_int_in_range(script_do(&server, "PTTL n2"), 200000, 300000);
    assert_int_in_range(script_do(&server, "PTTL n3"), 500000, 600000);
}

/* A key without a TTL (after a PERSIST), which PEXPIREAT with GT does not change. */
static void renew_gives_back_a_ttl_that_was_taken_away(void **state)
{
    const char *mine = script_token(&a, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    script_do(&server, "SET n1 %s", mine);
    answer = script_run(&server, LW__SCRIPT_MUTEX_RENEW, 1, "n1", mine, "600000", NULL);
    assert_int_equal(answer.n[0], 1);
    assert_true(script_do(&server, "PTTL n1") > 500000);
}

/* Before 7.0 a script has no access to the server's version, and PEXPIREAT has no GT. */
static void renew_never_shortens_on_an_older_server_either(void **state)
{
    static const char older[] =
        "local redis = {call = redis.call, pcall = redis.pcall}\n";
    const char *mine = script_token(&a, 1, WINDOW);
    char text[4096];
    redisReply *reply;

    (void)state;
    (void)snprintf(text, sizeof(text), "%s%s", older,
                   lw__scripts[LW__SCRIPT_MUTEX_RENEW].text);
    script_do(&server, "SET n1 %s PX 100000", mine);
    script_do(&server, "SET n2 %s PX 900000", mine);
    reply = redisCommand(server.admin, "EVAL %s 2 n1 n2 %s %s 600000 700000", text, mine,
                         mine);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    assert_int_equal(reply->integer, 2);
    freeReplyObject(reply);
    assert_true(script_do(&server, "PTTL n1") > 500000);
    assert_true(script_do(&server, "PTTL n2") > 800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_free_name_is_granted_with_a_number),
        SCRIPT_TEST(no_number_is_drawn_where_none_is_wanted),
        SCRIPT_TEST(acquire_sent_twice_is_one_grant_and_never_shortens_the_lease),
        SCRIPT_TEST(who_does_not_wait_is_told_the_lease_and_leaves_no_trace),
        SCRIPT_TEST(who_waits_keeps_place_and_ticket_however_often_it_asks),
        SCRIPT_TEST(an_old_ticket_regains_the_place_in_a_lost_queue),
        SCRIPT_TEST(who_asked_first_without_joining_joins_before_who_came_later),
        SCRIPT_TEST(a_token_with_a_limit_joins_while_fewer_are_queued),
        SCRIPT_TEST(waiters_are_served_before_they_are_counted),
        SCRIPT_TEST(tickets_grow_though_the_clock_steps_back),
        SCRIPT_TEST(the_queue_lives_by_its_members_asking_only),
        SCRIPT_TEST(all_who_join_are_answered_alike),
        SCRIPT_TEST(who_joins_has_the_queue_live_on_where_it_says_so),
        SCRIPT_TEST(release_sent_twice_or_by_a_stranger_frees_nothing),
        SCRIPT_TEST(release_hands_over_to_the_head_alone_and_the_next_stands_by),
        SCRIPT_TEST(who_was_handed_the_lock_asks_and_has_its_full_lease),
        SCRIPT_TEST(foreign_set_nx_finds_no_gap_in_a_hand_over),
        SCRIPT_TEST(waiters_are_served_in_the_order_of_their_arrival),
        SCRIPT_TEST(a_waiter_that_leaves_is_skipped),
        SCRIPT_TEST(leaving_a_free_name_serves_the_next),
        SCRIPT_TEST(a_turn_given_back_goes_to_the_next),
        SCRIPT_TEST(an_expired_lock_goes_to_the_head_whoever_asks),
        SCRIPT_TEST(a_foreign_holder_after_expiry_keeps_the_queue_waiting),
        SCRIPT_TEST(renew_extends_what_is_held_and_nothing_else),
        SCRIPT_TEST(a_batch_with_several_leases_gives_each_name_its_own),
        SCRIPT_TEST(renew_gives_back_a_ttl_that_was_taken_away),
        SCRIPT_TEST(renew_never_shortens_on_an_older_server_either),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
