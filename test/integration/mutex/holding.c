/* SPDX-License-Identifier: MIT */
/*
 * A lock that is held: automatic renewals and lw_renew, how long the holder may rely on
 * the lock, and each way to lose it. Independent of when exactly renewals are sent.
 *
 * Usual course: the lock is granted, renewed for as long as it is held, and released.
 */
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>

/* Waits for `ms`, or until the lock is lost. Checks I1 every 20 ms: the holder never
 * relies on the lock for longer than Redis stores it. */
static void hold_for(struct hold *hold, int64_t ms)
{
    for (int64_t end = now_ms() + ms; now_ms() < end;) {
        stage_run_for(20);
        if (hold->lost != PENDING) {
            return;
        }
        assert_held_by_redis(hold);
    }
}

static void renewal_keeps_a_short_lease_for_long(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));

    (void)state;
    EXPECT("A granted");
    hold_for(A, 4000);
    stage_skip_if_lag(300);
    assert_int_equal(A->lost, PENDING);
    assert_int_in_range(peer_stats(a).renewed, 8, 40);
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void renewals_of_many_go_in_batches(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *all[64];
    char name[16], label[16];

    (void)state;
    for (int i = 0; i < 64; i++) {
        (void)snprintf(name, sizeof(name), "x%d", i);
        (void)snprintf(label, sizeof(label), "A%d", i);
        all[i] = acquire_hold_with(a, label, name, asking(.lease_ms = 3000));
    }
    for (int i = 0; i < 64; i++) {
        UNTIL(all[i]->result == LW_OK);
    }
    stage_clear_trace();
    monitor_start();
    stage_expect_nothing(6000);
    struct lw_stats stats = peer_stats(a);
    int commands = monitor_count("evalsha") + monitor_count("eval");
    if (commands == 0 || (uint64_t)commands * 4 > stats.renewed) {
        stage_fail("%d commands for %d renewals", commands, (int)stats.renewed);
    }
    for (int i = 0; i < 64; i++) {
        assert_held_by_redis(all[i]);
    }
}

static void no_renew_ends_at_the_lease(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 600, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    int64_t remaining = lw_lock_remaining_ms(A->lock);
    assert_int_in_range(remaining, 1, 592); /* 1 % and 2 ms off */
    EXPECT("A lost ELOST");
    assert_true(A->lost_ms - A->asked_ms <= 600 + 50 + 3 * stage.worst_lag_ms);
    assert_int_equal(peer_stats(a).renewed, 0);
    assert_int_equal(peer_stats(a).lost_deadline, 1);
}

static void no_renew_is_extended_by_hand(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    for (int i = 0; i < 4; i++) {
        stage_run_for(600);
        renew_hold(A, 0);
        EXPECT("A renewed OK");
        assert_held_by_redis(A);
    }
    EXPECT("A lost ELOST");
    stage_skip_if_lag(300);
    assert_true(A->lost_ms - A->asked_ms >= 2400 + 1400);
}

/* ---- losses ---- */

static void deleted_key_is_noticed_within_a_renewal_interval(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500));

    (void)state;
    EXPECT("A granted");
    stage_run_for(50);
    int64_t before = now_ms();
    redis_ok("DEL x");
    EXPECT("A lost ENOTHELD");
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
    stage_skip_if_lag(100);
    assert_int_in_range(A->lost_ms - before, 0, 500 + 250);
    assert_int_equal(peer_stats(a).lost_taken, 1);
    release_refused(A, LW_ENOTHELD);
}

static void stolen_key_is_noticed_and_left_to_the_thief(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "stranger", asking(.lease_ms = 900));

    (void)state;
    EXPECT("A granted");
    redis_ok("SET stranger thief PX 60000");
    EXPECT("A lost ENOTHELD");
    free_hold(A);
    stage_expect_nothing(100);
    assert_string_equal(redis_text("GET stranger"), "thief");
}

static void release_of_a_stolen_lock_tells(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "stranger");

    (void)state;
    redis_ok("SET stranger thief PX 60000");
    release_hold(A);
    EXPECT("A granted; A released ENOTHELD");
    assert_string_equal(redis_text("GET stranger"), "thief");
}

static void I1_stopped_server_loses_no_later_than_the_deadline(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));

    (void)state;
    EXPECT("A granted");
    server_pause(&stage.server);
    stage_forget_lag();
    int64_t deadline = now_ms() + lw_lock_remaining_ms(A->lock);
    EXPECT("A lost ELOST");
    server_resume(&stage.server);
    if (A->lost_ms > deadline + 30 + 2 * stage.worst_lag_ms) {
        stage_fail("I1: lost %lld ms after the deadline",
                   (long long)(A->lost_ms - deadline));
    }
    assert_true(A->remaining_at_lost <= 1);
    stage.keys_may_stay = true;
}

/* A slow reply shortens the time for which a holder may rely on the lock, after a grant,
 * a renewal and a hand-over. */
static void I1_belief_counts_from_the_sending(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, NULL), *b = peer_ready("b", NULL);

    (void)state;
    peer_wait_ready(a);
    release_hold(acquire_and_wait(a, "F", "f"));
    EXPECT("F granted; F released OK");
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 400);
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 400);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 5000, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    assert_true(lw_lock_remaining_ms(A->lock) <= 5000 - 400 - 52);
    assert_held_by_redis(A);
    renew_hold(A, 9000);
    EXPECT("A renewed OK");
    assert_true(lw_lock_remaining_ms(A->lock) <= 9000 - 400 - 92);
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT("A released OK");
    struct hold *B = acquire_and_wait(b, "B", "x"), *C = acquire_hold(a, "C", "x", -1);
    wait_queued("x", 1);
    stage_run_for(500); /* until the reply that C is queued has come, too */
    release_hold(B);
    EXPECT("B granted; B released OK; C granted");
    assert_held_by_redis(C);
}

static void margin_tells_before_the_deadline(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.lease_ms = 2000, .margin_ms = 600, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    int64_t deadline = now_ms() + lw_lock_remaining_ms(A->lock);
    EXPECT("A lost ELOST");
    if (A->lost_ms > deadline - 600 + 30 + 2 * stage.worst_lag_ms) {
        stage_fail("lost %lld ms before the deadline",
                   (long long)(deadline - A->lost_ms));
    }
    stage_skip_if_lag(200);
    assert_int_in_range(A->remaining_at_lost, 200, 605); /* time is left to step down */
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
    UNTIL(lw_lock_remaining_ms(A->lock) == 0);
    release_refused(A, LW_ENOTHELD);
}

static void max_hold_ends_the_hold_although_the_server_is_well(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000, .max_hold_ms = 1700));

    (void)state;
    EXPECT("A granted");
    acquire_hold(b, "B", "x", -1);
    stage_forget_lag();
    while (A->lost == PENDING) {
        stage_run_for(20);
        if (A->lost == PENDING) {
            assert_held_by_redis(A);
        }
    }
    EXPECT("A lost ETIMEOUT");
    stage_skip_if_lag(250);
    assert_int_in_range(A->lost_ms - A->asked_ms, 1500, 1700 + 100);
    assert_int_equal(peer_stats(a).lost_max_hold, 1);
    EXPECT("B granted");
}

static void max_hold_shorter_than_the_lease(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.max_hold_ms = 400));

    (void)state;
    EXPECT("A granted");
    assert_true(lw_lock_remaining_ms(A->lock) <= 400);
    EXPECT("A lost ETIMEOUT");
    assert_true(A->lost_ms - A->asked_ms <= 400 + 30 + 3 * stage.worst_lag_ms);
    stage.keys_may_stay = true;
}

static void hear_nothing(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)arg;
    stage_note("plain %s", status_name(status));
}

static void lost_callback_may_be_absent(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_lock *lock = NULL;

    (void)state;
    assert_int_equal(lw_acquire(a->client, "x",
                                asking(.lease_ms = 300, .flags = LW_NO_RENEW),
                                hear_nothing, NULL, &lock),
                     LW_OK);
    EXPECT("plain OK");
    UNTIL(lw_lock_state(lock) == LW_LOST);
    lw_lock_free(lock);
}

/* ---- lw_renew ---- */

static void renew_longer_reaches_redis(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 2000));

    (void)state;
    EXPECT("A granted");
    renew_hold(A, 60000);
    /* The reply has not come yet. */
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, 2000);
    EXPECT("A renewed OK");
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 30000, 59400);
    assert_int_in_range(redis_int("PTTL x"), 30000, 60000);
    assert_held_by_redis(A);
}

static void I1_renew_shorter_takes_effect_here_at_once(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 60000));

    (void)state;
    EXPECT("A granted");
    renew_hold(A, 5000);
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, 5000);
    EXPECT("A renewed OK");
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, 5000);
    assert_int_in_range(redis_int("PTTL x"), 30000, 60000); /* no script shortens a TTL */
    assert_held_by_redis(A);
}

static void renewed_lease_stays_for_later_renewals(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 30000));

    (void)state;
    EXPECT("A granted");
    renew_hold(A, 900);
    EXPECT("A renewed OK");
    stage_forget_lag();
    for (int i = 0; i < 100; i++) {
        stage_run_for(20);
        stage_skip_if_lag(250);
        assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, 900);
    }
    assert_true(peer_stats(a).renewed >= 4);
}

static void several_renewals_pending_each_get_their_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    for (int i = 0; i < 5; i++) {
        renew_hold(A, 10000 + (uint32_t)i);
    }
    EXPECT("A renewed OK; A renewed OK; A renewed OK; A renewed OK; A renewed OK");
    assert_held_by_redis(A);
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, 10004);
}

static void renew_does_not_pass_max_hold(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000, .max_hold_ms = 1500));

    (void)state;
    EXPECT("A granted");
    renew_hold(A, 60000);
    EXPECT("A renewed OK");
    assert_true(lw_lock_remaining_ms(A->lock) <= 1500);
    EXPECT("A lost ETIMEOUT");
    assert_true(A->lost_ms - A->asked_ms <= 1500 + 30 + 3 * stage.worst_lag_ms);
}

static void renew_of_a_stolen_lock_is_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "stranger");

    (void)state;
    redis_ok("SET stranger thief PX 60000");
    renew_hold(A, 0);
    EXPECT("A granted; A lost ENOTHELD; A renewed ELOST");
    assert_string_equal(redis_text("GET stranger"), "thief");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(renewal_keeps_a_short_lease_for_long),
        STAGE_TEST(renewals_of_many_go_in_batches),
        STAGE_TEST(no_renew_ends_at_the_lease),
        STAGE_TEST(no_renew_is_extended_by_hand),
        STAGE_TEST(deleted_key_is_noticed_within_a_renewal_interval),
        STAGE_TEST(stolen_key_is_noticed_and_left_to_the_thief),
        STAGE_TEST(release_of_a_stolen_lock_tells),
        STAGE_TEST(I1_stopped_server_loses_no_later_than_the_deadline),
        STAGE_TEST(I1_belief_counts_from_the_sending),
        STAGE_TEST(margin_tells_before_the_deadline),
        STAGE_TEST(max_hold_ends_the_hold_although_the_server_is_well),
        STAGE_TEST(max_hold_shorter_than_the_lease),
        STAGE_TEST(lost_callback_may_be_absent),
        STAGE_TEST(renew_longer_reaches_redis),
        STAGE_TEST(I1_renew_shorter_takes_effect_here_at_once),
        STAGE_TEST(renewed_lease_stays_for_later_renewals),
        STAGE_TEST(several_renewals_pending_each_get_their_callback),
        STAGE_TEST(renew_does_not_pass_max_hold),
        STAGE_TEST(renew_of_a_stolen_lock_is_lost),
    };

    return STAGE_RUN(tests);
}
