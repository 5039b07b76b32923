/* SPDX-License-Identifier: MIT */
/* LW_REDISSON with many waiters: one handle requests the lock for all handles of its
 * client, they are granted it in order of arrival, and when that handle leaves, the next
 * one requests.
 *
 * Usual course: fifty handles wait, Redisson unlocks, and each handle that is granted the
 * lock releases it: two commands for each. */
#include "monitor.h"
#include "redisson/scene.h"

#include <stdio.h>
#include <string.h>

static void release_at_once(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT) {
        release_hold(hold);
    }
}

static void each_grant_costs_two_commands_in_order_of_arrival(void **state)
{
    enum { MANY = 50 };
    struct hold *line[MANY];
    char expected[32];

    (void)state;
    line_behind_java(line, MANY);
    for (int i = 0; i < MANY; i++) {
        line[i]->then = release_at_once;
    }
    java_unlocks("x", "0");
    UNTIL(line[MANY - 1]->released != PENDING);
    for (int i = 0; i + 1 < MANY; i++) {
        assert_int_equal(line[i]->result, LW_OK);
        assert_true(line[i]->released_ms <= line[i + 1]->result_ms);
    }
    assert_int_in_range(scripts_sent(), 2 * MANY, 2 * MANY + MANY / 5);
    monitor_stop();
    (void)snprintf(expected, sizeof(expected), "%d granted", MANY - 1);
    assert_true(stage_has(expected));
    stage_clear_trace();
}

static void a_try_does_not_overtake_who_waits(void **state)
{
    struct hold *line[1];

    (void)state;
    line_behind_java(line, 1);
    struct hold *B = try_once(a, "B");
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, HOUR_MS);
    assert_int_equal(scripts_sent(), 0);
    monitor_stop();
    java_unlocks("x", "0");
    EXPECT("0 granted");
}

/* The holder's lease has run on since the first waiter was refused. The server and the
 * client each round by up to a millisecond. */
static void a_try_is_told_what_is_left_of_the_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, 60000);
    join_line(a, "A");
    UNTIL(listeners(CHANNEL) == 1);
    stage_expect_nothing(300);
    int64_t left_ms = redis_int("PTTL x");
    struct hold *B = try_once(a, "B");
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), left_ms - 10000, left_ms + 2);
    redis_ok("DEL x");
}

/* `leave` makes the first waiter leave; the second one requests in its place. */
static void asking_is_handed_on(void (*leave)(struct hold *first))
{
    struct hold *line[3];

    line_behind_java(line, 3);
    leave(line[0]);
    UNTIL(scripts_sent() == 1);
    stage_expect_nothing(100);
    assert_int_equal(scripts_sent(), 1); /* the third waiter stays asleep */
    java_unlocks("x", "0");
    EXPECT("1 granted");
    release_hold(line[1]);
    EXPECT_SET("1 released OK; 2 granted");
    monitor_stop();
}

static void who_leaves_hands_the_asking_on(void **state)
{
    (void)state;
    asking_is_handed_on(free_hold);
}

static void who_gives_up_hands_the_asking_on(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, HOUR_MS);
    want(a, "A", asking(.wait_ms = 1000));
    struct hold *B = join_line(a, "B");
    UNTIL(listeners(CHANNEL) == 1);
    stage_run_for(100);
    monitor_start();
    EXPECT("A ETIMEOUT");
    UNTIL(scripts_sent() == 1);
    monitor_stop();
    java_unlocks("x", "0");
    EXPECT("B granted");
    assert_true(B->result_ms - B->asked_ms < 9000); /* earlier than its poll */
}

/* A waiter leaves while its request is in flight: if the reply grants the lock, it is
 * released. */
static void who_leaves_while_asking_hands_the_asking_on(void **state)
{
    struct hold *line[2];

    (void)state;
    line_behind_java(line, 2);
    redis_ok("DEL x");
    redis_ok("CLIENT PAUSE 200 ALL");
    free_hold(join_line(a, "C"));
    free_hold(line[0]); /* its successor requests, */
    struct hold *D = join_line(a, "D");
    free_hold(line[1]); /* and leaves at once */
    EXPECT("D granted");
    assert_int_equal(redis_int("HLEN x"), 1);
    release_hold(D);
    EXPECT("D released OK");
    monitor_stop();
}

/* The request in flight was for the lease of the handle that left. */
static void who_follows_one_who_left_while_asking_has_its_own_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    release_hold(take(a, "A")); /* the server knows the script from now on */
    EXPECT("A released OK");
    redis_ok("CLIENT PAUSE 200 ALL");
    struct hold *A = want(a, "A", asking(.lease_ms = 1000, .wait_ms = -1));
    stage_run_for(50);
    struct hold *B =
        want(a, "B", asking(.lease_ms = 30000, .wait_ms = -1, .flags = LW_NO_RENEW));
    free_hold(A);
    EXPECT("B granted");
    UNTIL(lw_lock_remaining_ms(B->lock) > 20000);
    release_hold(B);
    EXPECT("B released OK");
}

/* All request before the link is up. */
static void a_try_behind_one_that_is_granted_is_busy(void **state)
{
    (void)state;
    a = peer_start("a", NULL);
    struct hold *A = join_line(a, "A"), *B = try_once(a, "B"), *C = join_line(a, "C");
    EXPECT_SET("A granted; B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, 20000);
    assert_int_equal(redis_int("HLEN x"), 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    release_hold(C);
    EXPECT("C released OK");
}

/* The link is not up yet. The try ends when the link comes up, and no waiter sends a
 * request for it. */
static void a_try_that_joins_a_sleeper_has_it_sleep_on(void **state)
{
    (void)state;
    java_holds("x", 1, HOUR_MS);
    monitor_start();
    a = peer_start("a", NULL);
    struct hold *A = join_line(a, "A");
    join_line(a, "B");
    try_once(a, "C");
    EXPECT("C EBUSY");
    UNTIL(listeners(CHANNEL) == 1);
    stage_expect_nothing(300);
    assert_true(monitor_saw(":1\" \"20000\""));
    assert_false(monitor_saw(":2\" \"20000\""));
    monitor_clear();
    stage_expect_nothing(4000);
    assert_int_equal(scripts_sent(), 0);
    monitor_stop();
    java_unlocks("x", "0");
    EXPECT("A granted");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void a_sibling_whose_release_never_comes_is_outlived(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = want(a, "A", asking(.lease_ms = 1000, .flags = LW_NO_RENEW));
    struct hold *B = join_line(a, "B"), *C = join_line(a, "C");
    EXPECT("A granted; A lost ELOST; B granted");
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    free_hold(A);
    release_hold(C);
    EXPECT("C released OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(each_grant_costs_two_commands_in_order_of_arrival),
        STAGE_TEST(a_try_does_not_overtake_who_waits),
        STAGE_TEST(a_try_is_told_what_is_left_of_the_lease),
        STAGE_TEST(who_leaves_hands_the_asking_on),
        STAGE_TEST(who_gives_up_hands_the_asking_on),
        STAGE_TEST(who_leaves_while_asking_hands_the_asking_on),
        STAGE_TEST(who_follows_one_who_left_while_asking_has_its_own_lease),
        STAGE_TEST(a_try_behind_one_that_is_granted_is_busy),
        STAGE_TEST(a_try_that_joins_a_sleeper_has_it_sleep_on),
        STAGE_TEST(a_sibling_whose_release_never_comes_is_outlived),
    };

    return STAGE_RUN(tests);
}
