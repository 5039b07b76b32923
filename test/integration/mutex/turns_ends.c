/* SPDX-License-Identifier: MIT */
/*
 * Local hand-over if a hold does not end by its release: it is lost, or max_hold_ms has
 * passed. Also handles with different leases. Independent of how handles are queued.
 *
 * Usual course: A holds, and other handles of its client wait; A's hold ends, and only
 * A's `lost` is called.
 */
#include "players.h"

static struct peer *turning(const char *label)
{
    return peer_ready(label, client_of(.local_turns = 16));
}

static void lost_goes_to_the_holder_alone(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    struct hold *B = acquire_hold(a, "B", "x", -1);
    acquire_hold(a, "C", "x", -1);
    redis_ok("DEL x");
    EXPECT("A lost ENOTHELD; B granted"); /* the waiters queue again */
    assert_held_by_redis(B);
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_int_equal(B->lost, PENDING);
}

static void lost_to_a_thief_keeps_the_others_waiting(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "stranger", asking(.lease_ms = 900));
    EXPECT("A granted");
    struct hold *B = acquire_hold(a, "B", "stranger", -1);
    redis_ok("SET stranger thief PX 1500");
    EXPECT("A lost ENOTHELD");
    free_hold(A);
    assert_string_equal(redis_text("GET stranger"), "thief");
    assert_int_equal(B->result, PENDING);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

static void max_hold_counts_from_each_one_s_own_grant(void **state)
{
    struct peer *a = turning("a");
    struct lw_acquire_options options =
        *asking(.wait_ms = -1, .lease_ms = 5000, .max_hold_ms = 700);

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "x", &options);
    EXPECT("A granted");
    struct hold *B = acquire_hold_with(a, "B", "x", &options);
    stage_run_for(400);
    release_hold(A);
    EXPECT("A released OK; B granted");
    assert_int_in_range(lw_lock_remaining_ms(B->lock), 1, 700);
    EXPECT("B lost ETIMEOUT");
    stage_skip_if_lag(100);
    assert_int_in_range(B->lost_ms - B->result_ms, 600, 800);
}

static void max_hold_s_end_releases_and_does_not_pass(void **state)
{
    struct peer *a = turning("a"), *b = turning("b");

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.max_hold_ms = 300));
    EXPECT("A granted");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    acquire_hold(a, "C", "x", -1); /* later than B */
    EXPECT("A lost ETIMEOUT; B granted");
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
}

static void successor_has_its_own_lease_renewed(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500));
    EXPECT("A granted");
    struct hold *B =
        acquire_hold_with(a, "B", "x", asking(.wait_ms = -1, .lease_ms = 20000));
    struct hold *C =
        acquire_hold_with(a, "C", "x", asking(.wait_ms = -1, .lease_ms = 1000));
    release_hold(A);
    EXPECT("A released OK; B granted");
    UNTIL(lw_lock_remaining_ms(B->lock) > 10000);
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_held_by_redis(C);
    stage_forget_lag();
    stage_run_for(2500);
    stage_skip_if_lag(300);
    assert_held_by_redis(C);
}

static void successor_without_renewal_gets_a_whole_lease(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500));
    EXPECT("A granted");
    struct hold *B = acquire_hold_with(
        a, "B", "x", asking(.wait_ms = -1, .lease_ms = 20000, .flags = LW_NO_RENEW));
    stage_run_for(300);
    release_hold(A);
    EXPECT("A released OK; B granted");
    assert_int_in_range(lw_lock_remaining_ms(B->lock), 10000, 20000);
    assert_held_by_redis(B);
}

/* The grant was requested with the lease of a handle that has left in the meantime. */
static void grant_of_another_s_lease_is_made_whole(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .lease_ms = 2000));
    struct hold *B = acquire_hold_with(
        a, "B", "x", asking(.wait_ms = -1, .lease_ms = 20000, .flags = LW_NO_RENEW));
    free_hold(A);
    EXPECT("B granted");
    UNTIL(lw_lock_remaining_ms(B->lock) > 10000);
    assert_held_by_redis(B);
}

static void lock_passes_only_before_the_deadline(void **state)
{
    struct peer *a = turning("a");

    (void)state;
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 400, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    acquire_hold(a, "B", "x", -1);
    stage_stall(500); /* past the deadline, before `lost` is called */
    release_hold(A);
    UNTIL(A->released != PENDING && stage_has("B granted")); /* B by a grant of its own */
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(lost_goes_to_the_holder_alone),
        STAGE_TEST(lost_to_a_thief_keeps_the_others_waiting),
        STAGE_TEST(max_hold_counts_from_each_one_s_own_grant),
        STAGE_TEST(max_hold_s_end_releases_and_does_not_pass),
        STAGE_TEST(successor_has_its_own_lease_renewed),
        STAGE_TEST(successor_without_renewal_gets_a_whole_lease),
        STAGE_TEST(grant_of_another_s_lease_is_made_whole),
        STAGE_TEST(lock_passes_only_before_the_deadline),
    };

    return STAGE_RUN(tests);
}
