/* SPDX-License-Identifier: MIT */
/* The early warning, `at_risk`: when it is given and when not, that it ends, and its
 * order among the other callbacks. test/lib/handles.c checks what is true of every call.
 * Independent of the library's timers.
 *
 * Usual course: a lock is held, replies stop ("A at risk"), and come again ("A safe"). */
#include "players.h"
#include "proxy.h"

#define LEASE 3000
#define A_THIRD 1000

/* The lock is held through a proxy, which can hold back replies. */
static struct proxy *proxy;

static struct hold *held(const struct lw_acquire_options *options)
{
    struct peer *a;

    proxy = proxy_start(stage.server.path, false);
    a = peer_start_at("a", proxy->url, client_of(.local_turns = 16));
    peer_wait_ready(a);
    struct hold *A = acquire_hold_with(a, "A", "x", options);
    EXPECT("A granted");
    return A;
}

static void mute(bool on)
{
    proxy_hold(proxy, COMMANDS, TO_CLIENT, on);
}

/* Asserts that the warning came with this much left, and not much later. */
static void assert_told_at(const struct hold *hold, int64_t left_ms)
{
    int64_t late = left_ms - hold->remaining_at_risk;

    if (late < 0 || late > 20 + 2 * stage.worst_lag_ms) {
        stage_fail("%s was warned with %lld ms left, not %lld", hold->label,
                   (long long)hold->remaining_at_risk, (long long)left_ms);
    }
}

/* ---- when ---- */

static void risk_begins_at_a_third_and_ends_with_an_answer(void **state)
{
    struct hold *A = held(asking(.lease_ms = LEASE, .at_risk = on_risk));

    (void)state;
    for (int i = 0; i < 2; i++) {
        mute(true);
        EXPECT("A at risk");
        assert_told_at(A, A_THIRD);
        mute(false);
        EXPECT("A safe");
        assert_held_by_redis(A);
    }
    assert_int_equal(A->warnings, 2);
}

static void risk_then_loss_when_the_server_is_gone(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 900, .at_risk = on_risk));
    EXPECT("A granted");
    server_kill(&stage.server);
    EXPECT("A at risk; A lost ELOST");
    server_restart(&stage.server);
}

static void risk_begins_where_the_caller_wants_it(void **state)
{
    struct hold *A =
        held(asking(.lease_ms = LEASE, .at_risk_ms = 1400, .at_risk = on_risk));

    (void)state;
    mute(true);
    EXPECT("A at risk");
    assert_told_at(A, 1400);
    mute(false);
    EXPECT("A safe");
}

static void risk_begins_half_way_to_a_large_margin(void **state)
{
    struct hold *A =
        held(asking(.lease_ms = LEASE, .margin_ms = 1200, .at_risk = on_risk));

    (void)state;
    mute(true);
    EXPECT("A at risk; A lost ELOST");
    assert_told_at(A, (1200 + LEASE / 2) / 2);
    mute(false);
}

static void risk_of_what_is_not_renewed(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x",
                      asking(.lease_ms = 900, .flags = LW_NO_RENEW, .at_risk = on_risk));
    EXPECT("A granted; A at risk; A lost ELOST");
}

static void renew(struct hold *hold, enum moment moment)
{
    if (moment == AT_RISK && hold->at_risk) {
        renew_hold(hold, 0);
    }
}

static void risk_ends_by_a_renewal_of_the_callers(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.lease_ms = LEASE, .flags = LW_NO_RENEW, .at_risk = on_risk));

    (void)state;
    A->then = renew;
    EXPECT("A granted; A at risk; A renewed OK; A safe");
}

static void shorten(struct hold *hold, enum moment moment)
{
    if (moment == AT_RISK) {
        hold->then = NULL;
        renew_hold(hold, 400);
    }
}

/* The call makes the deadline earlier at once; the reply to it does not move the deadline
 * further out. */
static void risk_ends_by_a_renewal_that_makes_the_lease_shorter(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.lease_ms = LEASE, .flags = LW_NO_RENEW, .at_risk = on_risk));

    (void)state;
    EXPECT("A granted");
    renew_hold(A, 0); /* so that the server knows the script */
    A->then = shorten;
    EXPECT("A renewed OK; A at risk; A renewed OK; A safe; A at risk; A lost ELOST");
}

/* After a reconnection the client verifies each hold; here that extends no lease. */
static void risk_is_not_put_off_by_an_answer_that_renews_nothing(void **state)
{
    struct hold *A =
        held(asking(.lease_ms = LEASE, .flags = LW_NO_RENEW, .at_risk = on_risk));

    (void)state;
    stage_run_for(LEASE / 2);
    proxy_cut(proxy, COMMANDS);
    EXPECT("A at risk");
    assert_told_at(A, A_THIRD);
    proxy_cut(proxy, COMMANDS); /* does not end it either */
    EXPECT("A lost ELOST");
}

/* ---- when not ---- */

/* A claim window is shorter than the remaining time at which a warning is due. */
static void risk_is_none_in_a_hand_over_by_message(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.wait_ms = STAGE_WAIT_MS, .at_risk = on_risk));

    (void)state;
    wait_queued("x", 1);
    release_hold(B);
    EXPECT_SET("B granted; B released OK; A granted");
    assert_int_equal(peer_stats(a).handed_over, 1);
    assert_true(lw_lock_remaining_ms(A->lock) <= 2000);
    UNTIL(lw_lock_remaining_ms(A->lock) > 20000);
    assert_int_equal(A->warnings, 0);
}

static void risk_is_none_in_a_turn_with_a_short_rest(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16));
    struct hold *B =
        acquire_hold_with(a, "B", "x", asking(.lease_ms = LEASE, .flags = LW_NO_FENCE));
    struct hold *A = acquire_hold_with(
        a, "A", "x",
        asking(.wait_ms = STAGE_WAIT_MS, .flags = LW_NO_FENCE, .at_risk = on_risk));

    (void)state;
    EXPECT("B granted");
    release_hold(B);
    EXPECT_SET("B released OK; A granted");
    assert_int_equal(peer_stats(a).passed, 1);
    UNTIL(lw_lock_remaining_ms(A->lock) > 20000);
    assert_int_equal(A->warnings, 0);
}

static void risk_is_none_where_max_hold_ends_it(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x",
                      asking(.lease_ms = 900, .max_hold_ms = 600, .at_risk = on_risk));
    EXPECT("A granted; A lost ETIMEOUT");
    acquire_hold_with(a, "B", "y", /* also if it is renewed before */
                      asking(.lease_ms = 900, .max_hold_ms = 1200, .at_risk = on_risk));
    EXPECT("B granted; B lost ETIMEOUT");
    acquire_hold_with(a, "C", "z",
                      asking(.lease_ms = 900, .max_hold_ms = 600, .flags = LW_NO_RENEW,
                             .at_risk = on_risk));
    EXPECT("C granted; C lost ETIMEOUT");
    stage.keys_may_stay = true;
}

static void risk_before_max_hold_where_the_lease_ends_first(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x",
                      asking(.lease_ms = 900, .max_hold_ms = 2000, .flags = LW_NO_RENEW,
                             .at_risk = on_risk));
    EXPECT("A granted; A at risk; A lost ELOST");
}

/* With a shorter lease the warning comes at half of it. */
static void risk_with_a_lease_made_shorter(void **state)
{
    struct hold *A =
        held(asking(.lease_ms = LEASE, .at_risk_ms = 1400, .at_risk = on_risk));
    uint64_t before;

    (void)state;
    renew_hold(A, 1200);
    EXPECT("A renewed OK");
    before = peer_stats(A->peer).renewed;
    stage_forget_lag();
    UNTIL(peer_stats(A->peer).renewed >= before + 3);
    stage_skip_if_lag(100);
    assert_int_equal(A->warnings, 0);
    mute(true);
    EXPECT("A at risk");
    assert_true(A->remaining_at_risk <= 600);
    mute(false);
    EXPECT("A safe");
}

/* ---- calls inside the warning ---- */

static void let_it_go(struct hold *hold, enum moment moment)
{
    if (moment == AT_RISK) {
        release_hold(hold);
    }
}

static void free_it(struct hold *hold, enum moment moment)
{
    if (moment == AT_RISK) {
        free_hold(hold);
    }
}

static void free_its_client(struct hold *hold, enum moment moment)
{
    if (moment == AT_RISK) {
        peer_free(hold->peer);
    }
}

static void rule4_release_when_at_risk(void **state)
{
    struct hold *A = held(asking(.lease_ms = LEASE, .at_risk = on_risk));

    (void)state;
    A->then = let_it_go;
    mute(true);
    EXPECT("A at risk");
    mute(false);
    EXPECT("A released OK");
}

static void rule4_free_when_at_risk(void **state)
{
    struct hold *A = held(asking(.lease_ms = LEASE, .at_risk = on_risk));

    (void)state;
    A->then = free_it;
    mute(true);
    EXPECT("A at risk");
    mute(false);
    UNTIL(redis_int("EXISTS x") == 0);
}

static void rule4_free_the_client_when_at_risk(void **state)
{
    struct hold *A = held(asking(.lease_ms = LEASE, .at_risk = on_risk));

    (void)state;
    A->then = free_its_client;
    mute(true);
    EXPECT("A at risk");
    assert_int_equal(lw_lock_state(A->lock), LW_DONE);
    stage.keys_may_stay = true;
}

/* ---- its order among the callbacks ---- */

static void rule6_only_lost_after_a_stalled_loop(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 900, .at_risk = on_risk));
    EXPECT("A granted");
    stage_stall(1000);
    EXPECT("A lost ELOST");
    stage_expect_nothing(100);
}

static void risk_after_a_stall_that_left_some_of_the_lease(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.lease_ms = LEASE, .at_risk = on_risk));
    EXPECT("A granted");
    stage_stall(LEASE - A_THIRD / 2);
    EXPECT("A at risk; A safe");
}

static struct hold *warned;
static void (*at_once)(struct hold *hold);
static bool too_slow;

/* T's result is queued before the warning of `warned`, which comes due here. */
static void ask_and_stall(struct hold *hold, enum moment moment);

static void do_at_once(struct hold *hold, enum moment moment)
{
    (void)hold, (void)moment;
    too_slow = now_ms() - warned->asked_ms > LEASE * 9 / 10;
    if (!too_slow) {
        at_once(warned);
    }
}

static void ask_and_stall(struct hold *hold, enum moment moment)
{
    (void)moment;
    acquire_hold(hold->peer, "T", "x", 0)->then = do_at_once;
    stage_stall(LEASE - A_THIRD + 50);
}

static void queue_a_warning(void (*then)(struct hold *hold))
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16));

    warned = acquire_hold_with(
        a, "A", "x", asking(.lease_ms = LEASE, .flags = LW_NO_RENEW, .at_risk = on_risk));
    at_once = then;
    EXPECT("A granted");
    acquire_hold(a, "S", "s", 0)->then = ask_and_stall;
    UNTIL(stage_has("T EBUSY"));
    stage_skip_if(too_slow);
    EXPECT("S granted; T EBUSY");
}

static void close_it(struct hold *hold)
{
    peer_close(hold->peer);
}

static void stall_past_the_deadline(struct hold *hold)
{
    (void)hold;
    stage_stall(A_THIRD);
}

static void nothing(struct hold *hold)
{
    (void)hold;
}

/* The precondition of the four tests below. */
static void risk_is_told_behind_what_was_queued_before(void **state)
{
    (void)state;
    queue_a_warning(nothing);
    EXPECT("A at risk; A lost ELOST");
}

static void risk_queued_is_dropped_by_a_release(void **state)
{
    (void)state;
    queue_a_warning(release_hold);
    EXPECT("A released OK");
    stage_expect_nothing(100);
}

static void risk_queued_is_dropped_by_a_free(void **state)
{
    (void)state;
    queue_a_warning(free_hold);
    stage_expect_nothing(100);
}

static void risk_queued_is_dropped_by_a_close(void **state)
{
    (void)state;
    queue_a_warning(close_it);
    EXPECT("a closed");
}

static void risk_queued_is_dropped_by_the_loss(void **state)
{
    (void)state;
    queue_a_warning(stall_past_the_deadline);
    EXPECT("A lost ELOST");
    stage_expect_nothing(100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(risk_begins_at_a_third_and_ends_with_an_answer),
        STAGE_TEST(risk_then_loss_when_the_server_is_gone),
        STAGE_TEST(risk_begins_where_the_caller_wants_it),
        STAGE_TEST(risk_begins_half_way_to_a_large_margin),
        STAGE_TEST(risk_of_what_is_not_renewed),
        STAGE_TEST(risk_ends_by_a_renewal_of_the_callers),
        STAGE_TEST(risk_ends_by_a_renewal_that_makes_the_lease_shorter),
        STAGE_TEST(risk_is_not_put_off_by_an_answer_that_renews_nothing),
        STAGE_TEST(risk_is_none_in_a_hand_over_by_message),
        STAGE_TEST(risk_is_none_in_a_turn_with_a_short_rest),
        STAGE_TEST(risk_is_none_where_max_hold_ends_it),
        STAGE_TEST(risk_before_max_hold_where_the_lease_ends_first),
        STAGE_TEST(risk_with_a_lease_made_shorter),
        STAGE_TEST(rule4_release_when_at_risk),
        STAGE_TEST(rule4_free_when_at_risk),
        STAGE_TEST(rule4_free_the_client_when_at_risk),
        STAGE_TEST(rule6_only_lost_after_a_stalled_loop),
        STAGE_TEST(risk_after_a_stall_that_left_some_of_the_lease),
        STAGE_TEST(risk_is_told_behind_what_was_queued_before),
        STAGE_TEST(risk_queued_is_dropped_by_a_release),
        STAGE_TEST(risk_queued_is_dropped_by_a_free),
        STAGE_TEST(risk_queued_is_dropped_by_a_close),
        STAGE_TEST(risk_queued_is_dropped_by_the_loss),
    };

    return STAGE_RUN(tests);
}
