/* SPDX-License-Identifier: MIT */
/*
 * Local hand-over if the next handle is not renewed or gives up, or if the lock or the
 * link is lost during it. Independent of how handles are queued.
 *
 * Usual course: B holds with sixteen fencing tokens, and C waits and wants no renewal; C
 * gets a whole lease before it is granted, and the next token.
 */
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <string.h>

#define LEASE_MS 20000

static struct proxy *proxy;
static struct peer *a;
static struct hold *B, *C;

static struct hold *unrenewed(const char *label)
{
    return acquire_hold_with(
        a, label, "x", asking(.wait_ms = -1, .lease_ms = LEASE_MS, .flags = LW_NO_RENEW));
}

/* Starts the client. From here on the server knows the scripts, so that no command is
 * sent a second time for that. */
static void start_turning(void)
{
    proxy = proxy_start(stage.server.path, false);
    a = peer_start_at("a", proxy->url, client_of(.local_turns = 16, .backoff_min_ms = 1));
    peer_wait_ready(a);
    struct hold *V = acquire_and_wait(a, "V", "w"), *W = acquire_hold(a, "W", "w", -1);
    release_hold(V);
    EXPECT("V granted; V released OK; W granted");
    renew_hold(W, 0);
    EXPECT("W renewed OK");
    release_hold(W);
    EXPECT("W released OK");
}

/* B holds by a script's grant, which has drawn tokens for further handles; C waits. */
static void b_holds_and_c_waits(uint32_t lease_of_B)
{
    start_turning();
    struct hold *A = acquire_and_wait(a, "A", "x");
    B = acquire_hold_with(a, "B", "x", asking(.wait_ms = -1, .lease_ms = lease_of_B));
    release_hold(A);
    EXPECT("A granted; A released OK; B granted");
    C = unrenewed("C");
}

/* C would lose the lock before its renewal is answered. B's release and a request of its
 * own give it a whole lease instead. */
static void what_is_left_of_a_lease_is_not_passed(void **state)
{
    uint64_t passed;

    (void)state;
    start_turning();
    struct hold *A = acquire_and_wait(a, "A", "x");
    B = acquire_hold_with(a, "B", "x",
                          asking(.wait_ms = -1, .lease_ms = 4000, .flags = LW_NO_RENEW));
    release_hold(A);
    EXPECT("A granted; A released OK; B granted");
    C = acquire_hold(a, "C", "x", -1);
    UNTIL(lw_lock_remaining_ms(B->lock) < 450);
    stage_skip_if_lag(300);
    passed = peer_stats(a).passed;
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_int_equal(peer_stats(a).passed, passed);
    assert_true(lw_lock_remaining_ms(C->lock) > 4000);
    release_hold(C);
    EXPECT("C released OK");
}

static void who_is_not_renewed_gets_a_whole_lease_first(void **state)
{
    (void)state;
    b_holds_and_c_waits(6000);
    stage_run_for(300);
    monitor_start();
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_int_in_range(lw_lock_remaining_ms(C->lock), LEASE_MS / 2, LEASE_MS);
    assert_true(C->fence == B->fence + 1);
    assert_int_equal(monitor_count(""), 1); /* that renewal alone */
    monitor_stop();
    assert_held_by_redis(C);
    assert_int_equal(peer_stats(a).passed, 1);
}

static void who_gives_up_before_that_leaves_it_to_nobody(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    release_hold(B);
    free_hold(C);
    EXPECT("B released OK");
    UNTIL(redis_int("EXISTS x") == 0);
}

static void hold_back_the_renewal(void)
{
    long long sent = proxy->bytes[COMMANDS][TO_SERVER];

    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(proxy->bytes[COMMANDS][TO_SERVER] > sent);
}

static void who_gives_up_during_that_leaves_it_to_nobody(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    hold_back_the_renewal();
    free_hold(C);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

static void who_gives_up_during_that_leaves_it_to_the_next(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    struct hold *D = acquire_hold(a, "D", "x", -1);
    hold_back_the_renewal();
    free_hold(C);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("D granted");
    assert_held_by_redis(D);
    assert_true(D->fence > B->fence);
}

/* The requested lease is C's; D's margin is longer than that. */
static void a_next_one_for_whom_it_is_too_short_gets_a_grant_of_its_own(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    struct hold *D = acquire_hold_with(
        a, "D", "x",
        asking(.wait_ms = -1, .lease_ms = 3 * LEASE_MS, .margin_ms = LEASE_MS + 1000));
    hold_back_the_renewal();
    free_hold(C);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("D granted");
    assert_held_by_redis(D);
    assert_true(lw_lock_remaining_ms(D->lock) > LEASE_MS);
    assert_int_equal(peer_stats(a).passed, 0);
}

static void an_answer_that_is_lost_makes_it_a_grant_of_its_own(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    hold_back_the_renewal();
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("C granted");
    assert_held_by_redis(C);
    assert_true(C->fence > B->fence);
}

static void a_lock_that_is_gone_makes_it_a_grant_of_its_own(void **state)
{
    (void)state;
    b_holds_and_c_waits(LEASE_MS);
    redis_ok("DEL x");
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_held_by_redis(C);
    assert_true(C->fence > B->fence);
    assert_int_equal(peer_stats(a).passed, 0);
}

/* Restarts the server without data. Client a may connect again only when another client
 * has acquired the lock there. */
static struct hold *the_server_loses_all(void)
{
    struct hold *D;

    b_holds_and_c_waits(LEASE_MS);
    free_hold(C);
    C = acquire_hold(a, "C", "x", -1); /* it is renewed, and so needs no command first */
    proxy_refuse(proxy, true);
    server_kill(&stage.server);
    UNTIL(!a->up);
    server_restart(&stage.server);
    D = acquire_and_wait(peer_ready("d", NULL), "D", "x");
    EXPECT("D granted");
    assert_true(D->fence > B->fence);
    return D;
}

static void let_B_go(struct peer *peer)
{
    if (peer->up) {
        release_hold(B);
    }
}

static void numbers_of_a_lost_server_are_not_passed(void **state)
{
    struct hold *D;

    (void)state;
    D = the_server_loses_all();
    a->on_link = let_B_go; /* before the client finds out that B has lost the lock */
    proxy_refuse(proxy, false);
    EXPECT("B released ENOTHELD");
    stage_expect_nothing(50);
    release_hold(D);
    EXPECT_SET("D released OK; C granted");
    assert_true(C->fence > D->fence);
}

static void numbers_are_not_passed_while_there_is_no_server(void **state)
{
    struct hold *D;

    (void)state;
    D = the_server_loses_all();
    release_hold(B);
    stage_expect_nothing(50);
    proxy_refuse(proxy, false);
    EXPECT("B released ENOTHELD");
    release_hold(D);
    EXPECT_SET("D released OK; C granted");
    assert_true(C->fence > D->fence);
}

/* The renewal in flight was sent with B's lease, which may be shorter than C's. */
static void a_renewal_in_flight_makes_it_a_grant_of_its_own(void **state)
{
    (void)state;
    b_holds_and_c_waits(3000);
    long long sent = proxy->bytes[COMMANDS][TO_SERVER];
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    UNTIL(proxy->bytes[COMMANDS][TO_SERVER] > sent);
    release_hold(B);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("B released OK; C granted");
    assert_held_by_redis(C);
    assert_int_in_range(lw_lock_remaining_ms(C->lock), LEASE_MS / 2, LEASE_MS);
}

/* The replies to a release and to the request behind it are lost, and that request's
 * handle is gone when the lock is handed over to it. The message does not count while
 * there is no command link whose server could have sent it. The next request finds that
 * the release before it was done, and the lock is released. */
static void a_hand_over_to_a_request_without_a_waiter_is_released(void **state)
{
    (void)state;
    start_turning();
    struct peer *c = peer_ready("c", NULL);
    struct hold *Y = acquire_and_wait(c, "Y", "y"), *A = acquire_and_wait(a, "A", "x");
    acquire_hold(a, "E", "y", 0); /* its reply has the server's time */
    EXPECT("Y granted; A granted; E EBUSY");
    struct hold *X = acquire_hold(c, "X", "x", -1), *W = acquire_hold(a, "W", "x", -1);
    wait_queued("x", 1);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    release_hold(A);
    EXPECT("X granted");
    wait_queued("x", 1); /* the request behind the release */
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    UNTIL(!a->up);
    free_hold(W);
    release_hold(X);
    EXPECT("X released OK");
    proxy_refuse(proxy, false);
    EXPECT("A released OK");
    UNTIL(redis_int("EXISTS x") == 0);
    assert_int_equal(lw_lock_state(Y->lock), LW_HELD);
}

/* A reply grants the lock before the hand-over message comes. The message comes while the
 * release of the token is in flight. */
static void a_late_message_releases_nothing_that_is_being_released(void **state)
{
    (void)state;
    proxy = proxy_start(stage.server.path, false);
    a = peer_start_at("a", proxy->url, client_of(.local_turns = 2));
    peer_wait_ready(a);
    struct peer *c = peer_ready("c", NULL);
    struct hold *X = acquire_hold_with(c, "X", "x", asking(.lease_ms = 600)),
                *Y = acquire_and_wait(c, "Y", "y");
    struct hold *W = acquire_hold(a, "W", "x", -1), *V = acquire_hold(a, "V", "x", -1);
    acquire_hold(a, "U", "x", -1);
    acquire_hold(a, "E", "y", -1);
    wait_queued("x", 1);
    wait_queued("y", 1);
    proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, true);
    EXPECT("X granted; Y granted");
    release_hold(X);
    EXPECT("X released OK; W granted"); /* by its own poll */
    release_hold(W);
    EXPECT("W released OK; V granted"); /* the second of its two local turns */
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    long long sent = proxy->bytes[COMMANDS][TO_SERVER];
    release_hold(V);
    UNTIL(proxy->bytes[COMMANDS][TO_SERVER] > sent);
    release_hold(Y);
    EXPECT("Y released OK");
    proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, false);
    EXPECT("E granted"); /* by a message after the late one */
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("V released OK; U granted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(what_is_left_of_a_lease_is_not_passed),
        STAGE_TEST(who_is_not_renewed_gets_a_whole_lease_first),
        STAGE_TEST(who_gives_up_before_that_leaves_it_to_nobody),
        STAGE_TEST(who_gives_up_during_that_leaves_it_to_nobody),
        STAGE_TEST(who_gives_up_during_that_leaves_it_to_the_next),
        STAGE_TEST(a_next_one_for_whom_it_is_too_short_gets_a_grant_of_its_own),
        STAGE_TEST(an_answer_that_is_lost_makes_it_a_grant_of_its_own),
        STAGE_TEST(a_lock_that_is_gone_makes_it_a_grant_of_its_own),
        STAGE_TEST(numbers_of_a_lost_server_are_not_passed),
        STAGE_TEST(numbers_are_not_passed_while_there_is_no_server),
        STAGE_TEST(a_renewal_in_flight_makes_it_a_grant_of_its_own),
        STAGE_TEST(a_hand_over_to_a_request_without_a_waiter_is_released),
        STAGE_TEST(a_late_message_releases_nothing_that_is_being_released),
    };

    return STAGE_RUN(tests);
}
