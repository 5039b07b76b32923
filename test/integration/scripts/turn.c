/* SPDX-License-Identifier: MIT
 *
 * Tests what mutex_turn promises: it returns {released, the reply of mutex_acquire}, and
 * has the effect of once however often it is sent. Independent of the C client.
 *
 * Each test starts as in mutex.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

static void a_turn_nobody_else_waits_for_goes_on_at_once(void **state)
{
    const char *old = script_token(&a, 1, WINDOW), *token = script_token(&a, 2, WINDOW);
    long long fence = granted(acquire(old, LEASE, 1, NO_TICKET));
    struct script_answer answer = turn(old, token, NULL);

    (void)state;
    assert_int_equal(answer.count, 3);
    assert_int_equal(answer.n[0], 1);
    assert_int_equal(answer.n[1], 1);
    assert_true(answer.n[2] >= fence + 16);
    assert_holder(token);
    answer = turn(old, token, NULL);
    assert_int_equal(answer.n[0], 0);
    assert_int_equal(answer.n[1], 1);
    assert_holder(token);
}

static void a_turn_others_wait_for_ends_at_their_tail(void **state)
{
    const char *old = script_token(&a, 1, WINDOW), *token = script_token(&a, 2, WINDOW);
    const char *head = script_token(&b, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    acquire(old, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    for (int i = 0; i < 2; i++) {
        answer = turn(old, token, NULL);
        assert_int_equal(answer.count, 7);
        assert_int_equal(answer.n[0], i == 0);
        assert_int_equal(answer.n[1], 0);
        assert_int_equal(answer.n[3], 0);
        assert_holder(head);
    }
    /* The reply has the remaining time, so that no message is needed. */
    assert_true(answer.n[2] > 0 && answer.n[2] <= WINDOW);
    script_client_turn(&b, head);
    assert_int_equal(release(head), 1);
    script_client_turn(&a, token);
    answer = turn(old, token, NULL);
    assert_int_equal(answer.n[1], 1);
    assert_holder(token);
}

static void a_turn_sent_again_does_not_bring_back_a_released_token(void **state)
{
    const char *old = script_token(&a, 1, WINDOW), *token = script_token(&a, 2, WINDOW);
    struct script_answer answer;

    (void)state;
    acquire(old, LEASE, 1, NO_TICKET);
    turn(old, token, NULL);
    assert_int_equal(release(token), 1);
    answer = turn(old, token, NULL);
    assert_int_equal(answer.count, 7);
    assert_int_equal(answer.n[0] + answer.n[1], 0);
    assert_int_equal(answer.n[3], -1);
    assert_free();
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void a_spent_turn_still_serves_the_queue(void **state)
{
    const char *old = script_token(&a, 1, WINDOW), *head = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(old, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    expire();
    assert_int_equal(turn(old, script_token(&a, 2, WINDOW), NULL).n[3], -1);
    assert_holder(head);
    script_client_turn(&b, head);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

static void a_turn_of_a_token_that_still_waits_queues_the_new_one(void **state)
{
    const char *old = script_token(&b, 1, WINDOW), *token = script_token(&b, 2, WINDOW);
    struct script_answer answer;

    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    refused(acquire(old, LEASE, 1, NO_TICKET), 0);
    answer = turn(old, token, NULL);
    assert_int_equal(answer.n[0] + answer.n[1] + answer.n[3], 0);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
}

static void a_turn_without_subscription_asks_and_does_not_queue(void **state)
{
    const char *old = script_token(&a, 1, WINDOW), *token = script_token(&a, 2, WINDOW);
    const char *head = script_token(&b, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    acquire(old, LEASE, 1, NO_TICKET);
    acquire(head, LEASE, 1, NO_TICKET);
    answer = turn(old, token, "0");
    assert_int_equal(answer.n[0], 1);
    assert_int_equal(answer.n[1], 0);
    assert_int_equal(answer.n[3], -1);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
    script_client_turn(&b, head);
    answer = turn(head, script_token(&b, 2, WINDOW), "0");
    assert_int_equal(answer.n[0] + answer.n[1], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(a_turn_nobody_else_waits_for_goes_on_at_once),
        SCRIPT_TEST(a_turn_others_wait_for_ends_at_their_tail),
        SCRIPT_TEST(a_turn_sent_again_does_not_bring_back_a_released_token),
        SCRIPT_TEST(a_spent_turn_still_serves_the_queue),
        SCRIPT_TEST(a_turn_of_a_token_that_still_waits_queues_the_new_one),
        SCRIPT_TEST(a_turn_without_subscription_asks_and_does_not_queue),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}
