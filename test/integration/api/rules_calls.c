/* SPDX-License-Identifier: MIT */
/* The callback rules 1 to 5, each clause by name. test/lib/players.h checks rules 1, 2, 3
 * and 5 at every callback of every other test, too; this file has what only a scene of
 * its own can show. Rule 4 is also tested in reentrancy.c. Independent of the library's
 * internals.
 *
 * Usual course: a scene for the clause, and what must not have happened in it. */
#include "players.h"

/* ---- 1: no callback runs inside an API call; all run from the event loop ---- */

static void rule1_nothing_fires_until_the_loop_runs(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *held = acquire_and_wait(a, "H", "h");

    (void)state;
    EXPECT("H granted");
    acquire_hold(a, "A", "x", 0);
    struct hold *gone = acquire_hold(a, "G", "x", 0);
    renew_hold(held, 0);
    release_hold(held);
    free_hold(gone);
    stage_stall(200); /* anything due or answered by now has to wait for the loop */
    assert_string_equal(stage.trace, "");
    EXPECT_SET("H renewed ECANCELED; H released OK; A granted");
}

static void rule1_failure_known_at_once_still_comes_from_the_loop(void **state)
{
    struct server nobody;

    (void)state;
    server_absent(&nobody);
    struct peer *a = peer_start_at("a", nobody.url, NULL);
    UNTIL(a->downs > 0); /* the client backs off: it knows that there is no server */
    struct hold *A = acquire_hold(a, "A", "x", 0);
    assert_int_equal(A->result, PENDING);
    assert_int_equal(lw_lock_state(A->lock), LW_WAITING);
    EXPECT("A ECONN");
    server_stop(&nobody);
}

static void rule1_local_refusal_still_comes_from_the_loop(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16));

    (void)state;
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    /* The name is held by the same client: this needs no command. */
    struct hold *B = acquire_hold(a, "B", "x", 0);
    assert_int_equal(lw_lock_state(B->lock), LW_WAITING);
    EXPECT("B EBUSY");
}

static void rule1_log_callback_may_come_inside_a_call_and_nothing_else(void **state)
{
    struct peer *a = peer_start("a", NULL); /* logs at every level; players.h checks */

    (void)state;
    UNTIL(a->up);
    assert_true(peer_logged(a, "connected"));
}

/* ---- 2: negative: nothing was started; zero: exactly one callback ---- */

static void rule2_refused_call_starts_nothing(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    uint64_t commands = peer_stats(a).commands;

    (void)state;
    acquire_refused(a, "", NULL, LW_EINVAL, "name");
    acquire_refused(a, "x", asking(.lease_ms = 1), LW_EINVAL, "lease");
    struct hold *A = acquire_and_wait(a, "A", "x");
    release_hold(A);
    EXPECT("A granted; A released OK");
    uint64_t before = peer_stats(a).commands;
    release_refused(A, LW_ENOTHELD);
    renew_refused(A, 0, LW_ENOTHELD);
    stage_expect_nothing(100);
    assert_int_equal(peer_stats(a).commands, before);
    assert_true(before > commands);
}

static void rule2_each_accepted_call_has_one_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *all[40];

    (void)state;
    for (int i = 0; i < 40; i++) {
        all[i] = acquire_hold(i % 2 ? a : b, "A", i % 3 ? "x" : "y", i % 4 ? 100 : 0);
    }
    for (int i = 0; i < 40; i++) {
        UNTIL(all[i]->result != PENDING);
    }
    stage_run_for(300); /* players.h would notice a second one */
    stage_clear_trace();
}

static void rule2_each_renew_and_release_has_one_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    for (int i = 0; i < 20; i++) {
        renew_hold(A, 0);
    }
    UNTIL(A->renewals == 0);
    for (int i = 0; i < 20; i++) {
        renew_hold(A, 0);
    }
    release_hold(A);
    UNTIL(A->released != PENDING);
    assert_int_equal(A->renewals, 0);
    stage_clear_trace();
    stage_expect_nothing(200);
}

/* ---- 3: the handle is the caller's until lw_lock_free, then silence ---- */

static void rule3_handle_outlives_its_failure_and_its_loss(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", 0), *C;

    (void)state;
    EXPECT("A granted; B EBUSY");
    C = acquire_hold_with(a, "C", "y", asking(.lease_ms = 200, .flags = LW_NO_RENEW));
    EXPECT("C granted; C lost ELOST");
    release_hold(A);
    EXPECT("A released OK");
    stage_run_for(100);
    assert_string_equal(lw_lock_name(A->lock), "x");
    assert_string_equal(lw_lock_name(B->lock), "x");
    assert_string_equal(lw_lock_name(C->lock), "y");
    assert_true(lw_lock_fence(C->lock) == C->fence);
    assert_true(lw_lock_fence(A->lock) == A->fence);
    assert_int_equal(lw_lock_fence(B->lock), 0);
    assert_true(lw_lock_retry_ms(B->lock) > 0);
}

/* The handle is freed at each of the first turns of the loop after each kind of call.
 * players.h would complain about any later callback. */
static void rule3_nothing_fires_after_free_at_any_moment(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .lease_ms = 1000));
        if (i >= 20) {
            UNTIL(A->result == LW_OK);
        }
        struct hold *B = acquire_hold(b, "B", "x", i % 2 ? 20 : -1);
        if (i >= 30) {
            renew_hold(A, 0);
        }
        if (i >= 40) {
            release_hold(A);
        }
        for (int turn = 0; turn < i % 10; turn++) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        free_hold(A);
        if (i % 3) {
            UNTIL(B->result != PENDING);
        }
        free_hold(B);
        UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
    }
    stage_clear_trace();
}

static void read_arg(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    stage_note("read %d %s", *(int *)arg, status_name(status));
}

static void rule3_arg_may_be_freed_with_the_handle(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_lock *lock = NULL;
    int *arg;

    (void)state;
    for (int i = 0; i < 10; i++) {
        arg = calloc(1, sizeof(*arg)); /* ASan would find its use after free() */
        assert_int_equal(
            lw_acquire(a->client, "x", asking(.wait_ms = 1000), read_arg, arg, &lock),
            LW_OK);
        lw_lock_free(lock);
        free(arg);
    }
    stage_expect_nothing(100);
}

/* ---- 4: any call is legal inside any callback (all of them: reentrancy.c) ---- */

static void free_all(struct hold *hold, enum moment moment)
{
    (void)moment;
    hold->then = NULL;
    free_hold(hold);
    peer_free(hold->peer);
}

static void rule4_handle_and_client_freed_inside_the_callback(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct peer *a = peer_ready("a", NULL);
        struct hold *A = acquire_hold(a, "A", "x", -1);
        A->then = free_all;
        UNTIL(a->client == NULL);
        redis_ok("DEL x");
    }
    EXPECT("A granted; A granted; A granted");
    stage.keys_may_stay = true;
}

/* ---- 5: state changes at the call or when a callback runs, never between ---- */

static void rule5_answer_that_came_changes_nothing_before_its_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold(a, "A", "x", 0);

    (void)state;
    stage_run_for(0);
    UNTIL(redis_int("EXISTS x") == 1 || A->result == LW_OK);
    while (A->result == PENDING) {
        assert_int_equal(lw_lock_state(A->lock), LW_WAITING);
        assert_int_equal(lw_lock_remaining_ms(A->lock), 0);
        assert_int_equal(lw_lock_fence(A->lock), 0);
        event_base_loop(stage.base, EVLOOP_ONCE);
    }
    EXPECT("A granted");
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
}

static void rule5_state_stays_held_past_the_deadline_until_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    stage_stall(400);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    assert_int_equal(lw_lock_remaining_ms(A->lock), 0); /* 0 by the clock alone */
    EXPECT("A lost ELOST");
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
}

static void rule5_remaining_is_0_from_the_call_of_release(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    assert_true(lw_lock_remaining_ms(A->lock) > 0);
    assert_int_equal(lw_release(A->lock, NULL, NULL), LW_OK);
    assert_int_equal(lw_lock_remaining_ms(A->lock), 0);
    assert_int_equal(lw_lock_state(A->lock), LW_RELEASING);
    UNTIL(lw_lock_state(A->lock) == LW_DONE);
}

static void rule5_release_after_the_deadline_but_before_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    stage_stall(400);
    release_hold(A); /* it is still LW_HELD */
    EXPECT("A released ENOTHELD");
    stage_expect_nothing(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(rule1_nothing_fires_until_the_loop_runs),
        STAGE_TEST(rule1_failure_known_at_once_still_comes_from_the_loop),
        STAGE_TEST(rule1_local_refusal_still_comes_from_the_loop),
        STAGE_TEST(rule1_log_callback_may_come_inside_a_call_and_nothing_else),
        STAGE_TEST(rule2_refused_call_starts_nothing),
        STAGE_TEST(rule2_each_accepted_call_has_one_callback),
        STAGE_TEST(rule2_each_renew_and_release_has_one_callback),
        STAGE_TEST(rule3_handle_outlives_its_failure_and_its_loss),
        STAGE_TEST(rule3_nothing_fires_after_free_at_any_moment),
        STAGE_TEST(rule3_arg_may_be_freed_with_the_handle),
        STAGE_TEST(rule4_handle_and_client_freed_inside_the_callback),
        STAGE_TEST(rule5_answer_that_came_changes_nothing_before_its_callback),
        STAGE_TEST(rule5_state_stays_held_past_the_deadline_until_lost),
        STAGE_TEST(rule5_remaining_is_0_from_the_call_of_release),
        STAGE_TEST(rule5_release_after_the_deadline_but_before_lost),
    };

    return STAGE_RUN(tests);
}
