/* SPDX-License-Identifier: MIT */
/* A hold in the re-entrant modes: renewal, loss, time limits, fencing tokens. Hand-over
 * is tested in handover.c. Independent of how the scripts work.
 *
 * Usual course: a hold is renewed until it is released, once. */
#include "modes/scene.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

/* ---- renewal and loss ---- */

static void each_hold_is_renewed_for_itself(void **state)
{
    (void)state;
    two_clients();
    struct hold *W = enter_with(a, "W", "w", "anna", asking(.lease_ms = 900));
    struct hold *R = enter_with(a, "R", "r", "anna", asking(.lease_ms = 1200));
    EXPECT_SET("W granted; R granted");
    for (int64_t end = now_ms() + 3000; now_ms() < end && W->lost == PENDING;) {
        stage_run_for(50);
        stage_skip_if_lag(250);
        assert_string_equal(holds_of("x"), "write anna*1 anna=1");
        assert_entered(W);
        assert_entered(R);
    }
    get_out(W, LW_STILLHELD);
    get_out(R, LW_OK);
}

/* One batch of renewals contains names of both kinds. */
static void mutexes_and_readers_are_renewed_side_by_side(void **state)
{
    struct hold *all[20];
    char label[16], name[16];

    (void)state;
    two_clients();
    for (int i = 0; i < 20; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        (void)snprintf(name, sizeof(name), "n%d", i);
        all[i] = acquire_hold_with(
            a, label, name, asking(.mode = (enum lw_mode)(i % 3), .lease_ms = 1500));
        UNTIL(all[i]->result == LW_OK);
    }
    stage_clear_trace();
    stage_expect_nothing(4000);
    stage_skip_if_lag(400);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(lw_lock_state(all[i]->lock), LW_HELD);
    }
}

static void a_long_renewal_lengthens_one_hold_alone(void **state)
{
    (void)state;
    two_clients();
    struct hold *A =
        enter_with(a, "A", "r", "anna", asking(.lease_ms = 20000, .flags = LW_NO_RENEW));
    struct hold *B =
        enter_with(b, "B", "r", "bert", asking(.lease_ms = 20000, .flags = LW_NO_RENEW));
    EXPECT_SET("A granted; B granted");
    renew_hold(A, 90000);
    EXPECT("A renewed OK");
    assert_true(lw_lock_remaining_ms(A->lock) > 60000);
    assert_true(lw_lock_remaining_ms(B->lock) <= 20000);
    assert_true(redis_int("PTTL x") > 60000);
    struct hold *W = enter(b, "W", "w", "carl", 0);
    EXPECT("W EBUSY");
    assert_int_in_range(lw_lock_retry_ms(W->lock), 1, 20000); /* bert's, not anna's */
    HOLDS("x", "read anna=1 bert=1");
}

static void a_reader_whose_lease_ends_goes_although_others_read_on(void **state)
{
    (void)state;
    two_clients();
    enter_with(a, "A", "r", "anna", asking(.lease_ms = 600, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    struct hold *B = get_in(b, "B", "r", "bert");
    EXPECT("A lost ELOST");
    struct hold *W = enter(a, "W", "w", "carl", -1);
    wait_rw_queued(1);
    /* anna's deadline comes a little before her lease ends, and only a script removes her
     * hold */
    UNTIL(strcmp(holds_of("x"), "read bert=1") == 0);
    release_hold(B);
    EXPECT_SET("B released OK; W granted");
    get_out(W, LW_OK);
}

static void a_write_lease_that_ends_leaves_the_reads(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "R", "r", "anna");
    enter_with(a, "W", "w", "anna", asking(.lease_ms = 600, .flags = LW_NO_RENEW));
    EXPECT("W granted");
    enter(b, "B", "r", "bert", -1);
    wait_rw_queued(1);
    EXPECT_SET("W lost ELOST; B granted");
    HOLDS("x", "read anna=1 bert=1");
}

static void a_deleted_key_is_lost_within_a_renewal_interval(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = enter_with(a, "A", "r", "anna", asking(.lease_ms = 2000));
    EXPECT("A granted");
    redis_ok("DEL x");
    int64_t deleted = now_ms();
    EXPECT("A lost ENOTHELD");
    stage_skip_if_lag(200);
    assert_int_in_range(now_ms() - deleted, 0, 1200);
    release_refused(A, LW_ENOTHELD);
}

static void lost_with_a_server_restarted_empty(const char *kind)
{
    two_clients();
    struct hold *A = get_in(a, "A", kind, "anna");
    server_kill(&stage.server);
    UNTIL(!a->up && !b->up);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    server_restart(&stage.server);
    EXPECT("A lost ENOTHELD");
    peer_wait_ready(b);
    struct hold *B = get_in(b, "B", "w", "bert");
    assert_true(B->fence > A->fence);
    release_refused(A, LW_ENOTHELD);
}

static void a_server_restarted_empty_has_lost_the_reader(void **state)
{
    (void)state;
    lost_with_a_server_restarted_empty("r");
}

static void a_server_restarted_empty_has_lost_the_writer(void **state)
{
    (void)state;
    lost_with_a_server_restarted_empty("w");
}

static void margin_and_max_hold_end_a_hold(void **state)
{
    (void)state;
    two_clients();
    struct hold *A =
        enter_with(a, "A", "r", "anna",
                   asking(.lease_ms = 1000, .margin_ms = 300, .flags = LW_NO_RENEW));
    EXPECT("A granted; A lost ELOST");
    stage_skip_if_lag(100);
    assert_int_in_range(A->remaining_at_lost, 150, 300);
    enter_with(b, "B", "w", "bert",
               asking(.lease_ms = 1000, .max_hold_ms = 1500, .wait_ms = -1));
    EXPECT("B granted; B lost ETIMEOUT");
    UNTIL(redis_int("EXISTS x") == 0);
}

static void I1_a_stopped_server_loses_no_later_than_the_deadline(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = enter_with(a, "A", "w", "anna", asking(.lease_ms = 1000));
    EXPECT("A granted");
    int64_t deadline = now_ms() + lw_lock_remaining_ms(A->lock);
    server_pause(&stage.server);
    EXPECT("A lost ELOST");
    server_resume(&stage.server);
    stage_skip_if_lag(100);
    assert_true(A->lost_ms <= deadline + 1000); /* one renewal may have been in flight */
    assert_true(A->remaining_at_lost <= 1);
}

/* ---- fences ---- */

static void fences_grow_over_entry_upgrade_and_other_modes(void **state)
{
    uint64_t last = 0;

    (void)state;
    two_clients();
    for (int i = 0; i < 3; i++) {
        struct hold *R = get_in(a, "R", "r", "anna");
        assert_true(R->fence > last);
        struct hold *R2 = get_in(b, "R2", "r", "anna");
        assert_true(R2->fence == R->fence);
        struct hold *B = get_in(b, "B", "r", "bert");
        assert_true(B->fence > R->fence);
        get_out(B, LW_OK);
        struct hold *W = get_in(a, "W", "w", "anna");
        assert_true(W->fence > B->fence);
        struct hold *W2 = get_in(b, "W2", "w", "anna");
        assert_true(W2->fence == W->fence);
        last = W->fence;
        get_out(W2, LW_STILLHELD);
        get_out(W, LW_STILLHELD);
        get_out(R, LW_STILLHELD);
        get_out(R2, LW_OK);
        struct hold *M = acquire_and_wait(a, "M", "x");
        EXPECT("M granted");
        assert_true(M->fence > last);
        last = M->fence;
        get_out(M, LW_OK);
        redis_ok(
            "DEL lockwire:fence"); /* the next fencing token is larger all the same */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(each_hold_is_renewed_for_itself),
        STAGE_TEST(mutexes_and_readers_are_renewed_side_by_side),
        STAGE_TEST(a_long_renewal_lengthens_one_hold_alone),
        STAGE_TEST(a_reader_whose_lease_ends_goes_although_others_read_on),
        STAGE_TEST(a_write_lease_that_ends_leaves_the_reads),
        STAGE_TEST(a_deleted_key_is_lost_within_a_renewal_interval),
        STAGE_TEST(a_server_restarted_empty_has_lost_the_reader),
        STAGE_TEST(a_server_restarted_empty_has_lost_the_writer),
        STAGE_TEST(margin_and_max_hold_end_a_hold),
        STAGE_TEST(I1_a_stopped_server_loses_no_later_than_the_deadline),
        STAGE_TEST(fences_grow_over_entry_upgrade_and_other_modes),
    };

    return STAGE_RUN(tests);
}
