/* SPDX-License-Identifier: MIT */
/*
 * Renewals of many locks, and of locks that are not to be renewed. Independent of how
 * batches are made.
 *
 * Usual course: one client holds more than a thousand locks; a few dozen commands renew
 * them all.
 */
#include "monitor.h"
#include "players.h"

#include <stdio.h>

#define MANY 1100

static struct hold *all[MANY];

static void hold_many(struct peer *a, uint32_t lease_ms)
{
    char name[16];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        all[i] =
            acquire_hold_with(a, name, name,
                              asking(.wait_ms = -1, .lease_ms = lease_ms,
                                     .mode = i % 100 == 0 ? LW_EXCLUSIVE : LW_MUTEX));
    }
    for (int i = 0; i < MANY; i++) {
        UNTIL(all[i]->result == LW_OK);
    }
    stage_clear_trace();
}

static void let_many_go(void)
{
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(all[i]->lost, PENDING);
        release_hold(all[i]);
    }
    for (int i = 0; i < MANY; i++) {
        UNTIL(all[i]->released == LW_OK);
        free_hold(all[i]);
    }
    stage_clear_trace();
}

static void many_are_renewed_by_few_commands(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    hold_many(a, 9000);
    monitor_start();
    UNTIL(peer_stats(a).renewed >= MANY);
    int commands = monitor_count("evalsha") + monitor_count("eval");
    monitor_stop();
    if (commands > MANY / 8) {
        stage_fail("%d commands for %d renewals", commands, MANY);
    }
    let_many_go();
    assert_int_equal(peer_stats(a).held, 0);
}

static void many_come_and_go_again(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (int round = 0; round < 3; round++) {
        hold_many(a, 30000);
        let_many_go();
    }
    assert_int_equal(peer_stats(a).granted, 3 * MANY);
    assert_int_equal(peer_stats(a).lost_deadline, 0);
}

/* A batch has one reply. A lock that is lost in it does not affect the others. */
static void what_was_lost_in_a_batch_is_lost_alone(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_min_ms = 1));
    const struct lw_acquire_options *options =
        asking(.lease_ms = 60000, .wait_ms = -1, .flags = LW_NO_RENEW);
    struct hold *A = acquire_hold_with(a, "A", "w", options);
    struct hold *E =
        acquire_hold_with(a, "E", "z", asking(.lease_ms = 60000, .wait_ms = -1));

    (void)state;
    acquire_hold_with(a, "B", "x", options);
    acquire_hold_with(a, "C", "y", options);
    acquire_hold_with(a, "D", "{y}", options);
    EXPECT_SET("A granted; B granted; C granted; D granted; E granted");
    redis_ok("PEXPIRE z 40000");
    redis_ok("DEL x {y}");
    redis_ok("SET y foreign");
    redis_ok("RPUSH {y} foreign");
    monitor_start();
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    EXPECT_SET("B lost ENOTHELD; C lost ENOTHELD; D lost ENOTHELD");
    assert_int_equal(monitor_count("evalsha"), 2); /* the renewal, and the seed */
    UNTIL(peer_stats(a).renewed == 2);
    assert_int_in_range(redis_int("PTTL z"), 40001, 60000);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    assert_int_equal(lw_lock_state(E->lock), LW_HELD);
    assert_string_equal(redis_text("GET y"), "foreign");
    redis_ok("DEL y {y}");
}

/* A new connection verifies every hold, but does not extend these leases. */
static void what_is_not_renewed_is_verified_all_the_same(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_min_ms = 1, .local_turns = 1));

    (void)state;
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 60000, .flags = LW_NO_RENEW));
    struct hold *B =
        acquire_hold_with(a, "B", "y", asking(.lease_ms = 60000, .flags = LW_NO_RENEW));
    EXPECT("A granted; B granted");
    redis_ok("PEXPIRE x 40000");
    redis_ok("DEL y");
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    EXPECT("B lost ENOTHELD");
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    assert_int_in_range(redis_int("PTTL x"), 1, 40000);
    assert_int_equal(lw_lock_state(B->lock), LW_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(many_are_renewed_by_few_commands),
        STAGE_TEST(many_come_and_go_again),
        STAGE_TEST(what_was_lost_in_a_batch_is_lost_alone),
        STAGE_TEST(what_is_not_renewed_is_verified_all_the_same),
    };

    return STAGE_RUN(tests);
}
