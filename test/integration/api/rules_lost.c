/* SPDX-License-Identifier: MIT */
/* Callback rule 6, `lost`: when, how often, why, and its order among the other callbacks.
 * Independent of the library's timers.
 *
 * Usual course: a lock is held, something ends the hold, and `lost` is called, once,
 * before any other callback. */
#include "players.h"
#include "proxy.h"

#include <string.h>

/* ---- the reasons ---- */

static void rule6_reason_ELOST_when_the_deadline_came(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));
    EXPECT("A granted; A lost ELOST");
}

static void rule6_reason_ENOTHELD_when_the_server_says_so(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    redis_ok("DEL x");
    EXPECT("A lost ENOTHELD");
}

static void rule6_reason_ETIMEOUT_when_max_hold_is_over(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 900, .max_hold_ms = 300));
    EXPECT("A granted; A lost ETIMEOUT");
    stage.keys_may_stay = true;
}

/* ---- at most once, only while held ---- */

static void rule6_once_although_both_reasons_come(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 600, .max_hold_ms = 700));

    (void)state;
    EXPECT("A granted");
    redis_ok("DEL x");
    stage_stall(900); /* deadline, max_hold and the server's reply are all due together */
    UNTIL(A->lost != PENDING);
    stage_clear_trace();
    stage_expect_nothing(300);
}

static void rule6_never_while_waiting(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "B", "x");
    EXPECT("B granted");
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.wait_ms = 700, .lease_ms = 200, .max_hold_ms = 100));
    EXPECT("A ETIMEOUT");
    assert_int_equal(A->lost, PENDING);
}

static void rule6_never_after_release_was_called(void **state)
{
    struct peer *a = peer_ready("a", client_of(.request_timeout_ms = 1000));
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    server_pause(&stage.server);
    release_hold(A);
    stage_run_for(500); /* its deadline has passed */
    server_resume(&stage.server);
    UNTIL(A->released != PENDING);
    assert_int_equal(A->lost, PENDING);
    stage_clear_trace();
    stage_expect_nothing(100);
}

/* ---- when ---- */

static void rule6_at_the_deadline_minus_the_margin_at_the_latest(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    static const uint32_t margins[] = {0, 1, 100, 250, 499};

    (void)state;
    for (size_t i = 0; i < sizeof(margins) / sizeof(*margins); i++) {
        char name[2] = {(char)('a' + i)}; /* free, so that the grant has a whole lease */
        stage_forget_lag();
        struct hold *A =
            acquire_hold_with(a, "A", name,
                              asking(.wait_ms = -1, .lease_ms = 1000,
                                     .margin_ms = margins[i], .flags = LW_NO_RENEW));
        UNTIL(A->result == LW_OK);
        int64_t deadline = now_ms() + lw_lock_remaining_ms(A->lock);
        UNTIL(A->lost != PENDING);
        int64_t late = A->lost_ms - (deadline - margins[i]);
        if (late > 20 + 2 * stage.worst_lag_ms) {
            stage_fail("lost %lld ms late with margin %u", (long long)late, margins[i]);
        }
        free_hold(A);
    }
    stage_clear_trace();
    stage.keys_may_stay = true;
}

static void rule6_when_the_server_hangs_and_requests_may_take_longer(void **state)
{
    struct peer *a = peer_ready("a", NULL); /* request_timeout_ms is 5000 */
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));

    (void)state;
    EXPECT("A granted");
    stage_run_for(100);
    server_pause(&stage.server);
    stage_forget_lag();
    int64_t end = now_ms() + lw_lock_remaining_ms(A->lock);
    EXPECT("A lost ELOST");
    server_resume(&stage.server);
    assert_true(A->lost_ms <= end + 20 + 2 * stage.worst_lag_ms);
    stage.keys_may_stay = true;
}

static void rule6_margin_with_renewals_that_cannot_come(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a =
        peer_start_at("a", proxy->url, client_of(.request_timeout_ms = 3000));

    (void)state;
    peer_wait_ready(a);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 1200, .margin_ms = 400));
    EXPECT("A granted");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    stage_forget_lag();
    EXPECT("A lost ELOST");
    stage_skip_if_lag(100);
    assert_int_in_range(A->remaining_at_lost, 200, 400);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    stage_expect_nothing(100); /* the late reply does not revive the hold */
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
}

/* ---- the first callback after a stalled loop ---- */

static void rule6_first_callback_after_a_stalled_loop(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");

    (void)state;
    EXPECT("B granted");
    for (int i = 0; i < 5; i++) {
        stage_forget_lag();
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));
        /* The time-out of C also comes in the stall. */
        struct hold *C = acquire_hold(a, "C", "y", 250);
        struct hold *D = acquire_hold(a, "D", "z", 0);
        EXPECT_SET("A granted; D granted");
        struct hold *E = acquire_hold(a, "E", "w", 0); /* answered during the stall */
        renew_hold(D, 0);
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        stage_skip_if_lag(100);
        stage_clear_trace();
        stage_stall(500);
        UNTIL(E->result != PENDING && C->result != PENDING && D->renewed != PENDING &&
              A->lost != PENDING);
        if (strncmp(stage.trace, "A lost ELOST", 12) != 0) {
            stage_fail("rule 6: lost was not the first: %s", stage.trace);
        }
        stage_clear_trace();
        free_hold(A), free_hold(C), free_hold(D), free_hold(E);
        UNTIL(redis_int("EXISTS x z w %s", queue_of("y")) == 0);
    }
    free_hold(B);
}

static void rule6_several_are_lost_before_anything_else(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *last;
    char name[2] = "a";

    (void)state;
    for (; name[0] < 'f'; name[0]++) {
        acquire_hold_with(a, name, name, asking(.lease_ms = 400, .flags = LW_NO_RENEW));
    }
    EXPECT_SET("a granted; b granted; c granted; d granted; e granted");
    last = acquire_and_wait(a, "L", "l");
    EXPECT("L granted");
    server_pause(&stage.server); /* it replies during the stall */
    release_hold(last);
    event_base_loop(stage.base, EVLOOP_NONBLOCK);
    assert_int_equal(last->released, PENDING);
    server_resume(&stage.server);
    stage_stall(500);
    EXPECT_SET("a lost ELOST; b lost ELOST; c lost ELOST; d lost ELOST; e lost ELOST");
    EXPECT("L released OK");
}

static void stall_inside(struct hold *hold, enum moment moment)
{
    (void)moment;
    hold->then = NULL;
    stage_stall(500);
}

/* A callback of the host takes longer than the lease of another lock. */
static void rule6_next_callback_after_one_that_took_too_long(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 400, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    acquire_hold(a, "S", "s", 0)->then = stall_inside;
    acquire_hold(a, "T", "t", 0);
    acquire_hold(a, "U", "u", 0);
    EXPECT("S granted; A lost ELOST; T granted; U granted");
}

static void I1_grant_that_arrives_past_its_deadline_is_discarded(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, NULL);

    (void)state;
    peer_wait_ready(a);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .wait_ms = 0));
    UNTIL(redis_int("EXISTS x") == 1);
    stage_run_for(400);
    assert_int_equal(A->result, PENDING);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    /* If the lock is granted, players.h checks that time remains. */
    UNTIL(A->result != PENDING);
    stage_clear_trace();
}

static void I1_grant_whose_callback_comes_too_late_is_not_told(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .wait_ms = 0));
    event_base_loop(stage.base, EVLOOP_NONBLOCK);
    stage_stall(400);
    UNTIL(A->result != PENDING);
    stage_clear_trace();
    free_hold(A);
    UNTIL(redis_int("EXISTS x") == 0);
}

/* ---- renewals pending ---- */

static void rule6_renew_pending_at_lost_gets_ELOST_after_it(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    redis_ok("DEL x");
    renew_hold(A, 0);
    renew_hold(A, 0);
    EXPECT("A granted; A lost ENOTHELD; A renewed ELOST; A renewed ELOST");
}

static void rule6_renew_pending_at_release_gets_ECANCELED_before_it(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    renew_hold(A, 0);
    release_hold(A);
    EXPECT("A granted; A renewed ECANCELED; A released OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(rule6_reason_ELOST_when_the_deadline_came),
        STAGE_TEST(rule6_reason_ENOTHELD_when_the_server_says_so),
        STAGE_TEST(rule6_reason_ETIMEOUT_when_max_hold_is_over),
        STAGE_TEST(rule6_once_although_both_reasons_come),
        STAGE_TEST(rule6_never_while_waiting),
        STAGE_TEST(rule6_never_after_release_was_called),
        STAGE_TEST(rule6_at_the_deadline_minus_the_margin_at_the_latest),
        STAGE_TEST(rule6_when_the_server_hangs_and_requests_may_take_longer),
        STAGE_TEST(rule6_margin_with_renewals_that_cannot_come),
        STAGE_TEST(rule6_first_callback_after_a_stalled_loop),
        STAGE_TEST(rule6_several_are_lost_before_anything_else),
        STAGE_TEST(rule6_next_callback_after_one_that_took_too_long),
        STAGE_TEST(I1_grant_that_arrives_past_its_deadline_is_discarded),
        STAGE_TEST(I1_grant_whose_callback_comes_too_late_is_not_told),
        STAGE_TEST(rule6_renew_pending_at_lost_gets_ELOST_after_it),
        STAGE_TEST(rule6_renew_pending_at_release_gets_ECANCELED_before_it),
    };

    return STAGE_RUN(tests);
}
