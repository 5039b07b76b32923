/* SPDX-License-Identifier: MIT */
/* LW_REDISSON: levels (handles of one owner) that come and go in quick succession, and a
 * subscription link with much traffic. Tests margins and losses of several levels,
 * thousands of channels, and a half-open link.
 *
 * Usual course: anna holds, and enters again with a margin for which the rest of the
 * lease is too short. The lease is renewed first, then the second level is granted. */
#include "monitor.h"
#include "proxy.h"
#include "redisson/scene.h"

#include <stdio.h>
#include <string.h>

#define CHANNELS(pattern)                                                                \
    (redis_int("EVAL %s 0 %s", "return #redis.call('PUBSUB', 'CHANNELS', ARGV[1])",      \
               "redisson_lock__channel:{" pattern "}"))

static struct hold *anna(const char *label, const struct lw_acquire_options *options)
{
    struct lw_acquire_options hers = *options;

    hers.owner = "anna";
    return want(a, label, &hers);
}

static void start_here(void)
{
    a = peer_ready("a", NULL);
}

/* ---- levels and leases ---- */

/* A holds with a lease of 5 s; B wants a margin of 9 s. */
static struct hold *short_hold_and_long_margin(struct hold **second)
{
    struct hold *first = anna("A", asking(.lease_ms = 60000));

    EXPECT("A granted");
    renew_hold(first, 5000);
    EXPECT("A renewed OK");
    *second = anna("B", asking(.wait_ms = -1, .lease_ms = 20000, .margin_ms = 9000));
    return first;
}

static void who_needs_more_than_is_left_has_it_renewed_first(void **state)
{
    struct hold *A, *B;

    (void)state;
    start_here();
    A = short_hold_and_long_margin(&B);
    EXPECT("B granted");
    assert_int_in_range(lw_lock_remaining_ms(B->lock), 9001, 20000);
    release_hold(A);
    EXPECT("A released STILLHELD");
    release_hold(B);
    EXPECT("B released OK");
}

static void who_waits_for_more_gets_a_grant_of_its_own_if_the_lock_goes(void **state)
{
    struct hold *A, *B;

    (void)state;
    start_here();
    A = short_hold_and_long_margin(&B);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_int_equal(redis_int("HLEN x"), 1);
    release_hold(B);
    EXPECT("B released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* B, which waited for the renewal, is freed before the renewal's reply comes. */
static void who_waits_for_more_may_give_up(void **state)
{
    struct hold *A, *B;

    (void)state;
    start_here();
    A = short_hold_and_long_margin(&B);
    free_hold(B);
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void renewals_keep_every_level(void **state)
{
    (void)state;
    start_here();
    struct hold *A = anna("A", asking(.lease_ms = 3000));
    struct hold *B = anna("B", asking(.lease_ms = 3000, .margin_ms = 500));
    EXPECT("A granted; B granted");
    stage_run_for(4000); /* longer than the leases as of the grants */
    if (lw_lock_state(A->lock) == LW_HELD && lw_lock_state(B->lock) == LW_HELD) {
        release_hold(A);
        release_hold(B);
        EXPECT("A released STILLHELD; B released OK");
    } else {
        stage_skip_if_lag(200);
        stage_fail("a level was lost");
    }
}

/* Without replies no lease is renewed: each level is lost at its own margin, and both by
 * the deadline. */
static void each_level_is_lost_at_its_own_margin(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at("a", proxy->url, NULL);
    peer_wait_ready(a);
    struct hold *A = anna("A", asking(.lease_ms = 1500));
    struct hold *B = anna("B", asking(.lease_ms = 1500, .margin_ms = 700));
    EXPECT("A granted; B granted");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    EXPECT("B lost ELOST; A lost ELOST");
    assert_true(B->remaining_at_lost > 0);
    release_refused(A, LW_ENOTHELD);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    UNTIL(redis_int("EXISTS x") == 0);
}

static void stall(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_RESULT) {
        stage_stall(1200);
    }
}

/* B's margin begins while A's callback stalls the loop. B's grant has not been delivered,
 * so B waits for a renewal. */
static void a_level_that_is_not_told_yet_waits_for_the_renewal(void **state)
{
    (void)state;
    start_here();
    struct hold *A = anna("A", asking(.lease_ms = 2000));
    struct hold *B = anna("B", asking(.lease_ms = 2000, .margin_ms = 900));
    A->then = stall;
    EXPECT("A granted; B granted");
    stage_skip_if_lag(1600); /* otherwise A might be lost */
    assert_true(lw_lock_remaining_ms(B->lock) > 900);
}

/* ---- levels and losses ---- */

static int count_held(struct hold **all, int count)
{
    int held = 0;

    for (int i = 0; i < count; i++) {
        held += lw_lock_state(all[i]->lock) == LW_HELD;
    }
    return held;
}

/* When the client learns that the lock is gone, more grants are pending than one turn of
 * the loop delivers. A handle whose grant was delivered loses it; the others are granted
 * another one. */
static void levels_not_told_yet_are_asked_for_again_when_it_is_lost(void **state)
{
    enum { MANY = 100 };
    static struct hold *all[MANY];

    (void)state;
    start_here();
    struct hold *A = anna("A", asking(.lease_ms = 20000));
    UNTIL(A->result == LW_OK);
    renew_hold(A, 0); /* the server knows the script from now on */
    EXPECT("A granted; A renewed OK");
    redis_ok("DEL x");
    renew_hold(A, 0);
    event_base_loop(stage.base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* sends it, */
    stage_stall(50); /* and lets the server reply */
    for (int i = 0; i < MANY; i++) {
        char label[16];

        (void)snprintf(label, sizeof(label), "%d", i);
        all[i] = anna(label, asking(.wait_ms = -1, .lease_ms = 20000));
    }
    UNTIL(A->lost == LW_ENOTHELD && A->renewals == 0);
    for (int i = 0; i < MANY; i++) {
        UNTIL(all[i]->result == LW_OK);
    }
    UNTIL(redis_int("HLEN x") == (count_held(all, MANY) > 0 ? 1 : 0));
    stage_clear_trace();
}

static void an_error_is_told_to_every_level(void **state)
{
    (void)state;
    start_here();
    struct hold *A = anna("A", asking(.lease_ms = 1200));
    struct hold *B = anna("B", asking(.lease_ms = 1200));
    EXPECT("A granted; B granted");
    redis_ok("ACL SETUSER default -evalsha -eval");
    EXPECT_SET("A lost ELOST; B lost ELOST");
    assert_non_null(strstr(lw_lock_errstr(A->lock), "NOPERM"));
    assert_non_null(strstr(lw_lock_errstr(B->lock), "NOPERM"));
    redis_ok("ACL SETUSER default +@all");
    stage.keys_may_stay = true;
}

/* ---- trying once ---- */

static void trying_once_beside_one_who_waits(void **state)
{
    struct server server;

    (void)state;
    server_start(&server, NULL);
    a = peer_start_at("a", server.url, client_of(.backoff_min_ms = 60000));
    UNTIL(a->up);
    freeReplyObject(server_command(&server, "HSET x foreign:1 1"));
    freeReplyObject(server_command(&server, "PEXPIRE x %d", HOUR_MS));
    anna("A", asking(.wait_ms = -1));
    stage_expect_nothing(300);
    struct hold *B = anna("B", asking(.wait_ms = 0)); /* costs no command */
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 3000000, HOUR_MS);
    server_kill(&server);
    UNTIL(!a->up);
    anna("C", asking(.wait_ms = 0));
    EXPECT("C ECONN");
    peer_free(a);
    server_stop(&server);
}

/* ---- the link ---- */

static void a_half_open_link_is_found_and_made_anew(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at(
        "a", proxy->url,
        client_of(.request_timeout_ms = 400, .backoff_min_ms = 1, .backoff_max_ms = 100));
    peer_wait_ready(a);
    java_holds("x", 1, HOUR_MS);
    struct hold *A = anna("A", asking(.wait_ms = -1));
    UNTIL(CHANNELS("x") == 1);
    monitor_start();
    UNTIL(monitor_count("subscribe") >= 4); /* each link's heartbeat, at least once */
    monitor_stop();
    int links = proxy->accepted;
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    UNTIL(proxy->accepted >= links + 2);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
    proxy_cut(proxy, SUBSCRIPTION); /* the swallowed replies never come */
    UNTIL(CHANNELS("x") == 1);
    java_unlocks("x", "0");
    EXPECT("A granted");
    assert_true(A->result_ms - A->asked_ms < STAGE_WAIT_MS);
}

static void wait_for_many(struct hold **all, int from, int to)
{
    char name[16];

    for (int i = from; i < to; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        java_holds(name, 1, HOUR_MS);
        all[i] = acquire_hold_with(
            a, name, name, asking(.mode = LW_REDISSON, .wait_ms = -1, .lease_ms = 20000));
    }
    UNTIL(CHANNELS("*") >= to - from);
}

static void drop_many(struct hold **all, int from, int to)
{
    for (int i = from; i < to; i++) {
        free_hold(all[i]);
    }
    for (int i = from; i < to; i++) {
        redis_ok("DEL n%d", i);
    }
}

static void channels_that_nobody_waits_for_go_in_the_end(void **state)
{
    enum { MANY = 1024 };
    static struct hold *all[MANY + 1];

    (void)state;
    start_here();
    wait_for_many(all, 0, MANY);
    drop_many(all, 1, MANY);
    stage_run_for(50);
    assert_int_equal(CHANNELS("*"), MANY); /* unused channels stay subscribed */
    java_holds("n1024", 1, HOUR_MS);
    all[MANY] = acquire_hold_with(a, "n1024", "n1024",
                                  asking(.mode = LW_REDISSON, .wait_ms = -1));
    UNTIL(CHANNELS("*") == 2 && CHANNELS("n0") == 1 && CHANNELS("n1024") == 1);
    java_unlocks("n0", "0");
    EXPECT("n0 granted");
    java_unlocks("n1024", "0");
    EXPECT("n1024 granted");
}

static void as_many_channels_as_are_waited_for_stay_on_one_link(void **state)
{
    enum { MANY = 1024, MORE = 16 };
    static struct hold *all[MANY + MORE];

    (void)state;
    start_here();
    wait_for_many(all, 0, MANY);
    UNTIL(CHANNELS("*") == MANY);
    long long links = redis_info("total_connections_received");
    for (int i = MANY; i < MANY + MORE; i++) {
        wait_for_many(all, i, i + 1);
        UNTIL(CHANNELS("*") == i + 1);
    }
    assert_int_in_range(redis_info("total_connections_received") - links, 0, 1);
    drop_many(all, 0, MANY + MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(who_needs_more_than_is_left_has_it_renewed_first),
        STAGE_TEST(who_waits_for_more_gets_a_grant_of_its_own_if_the_lock_goes),
        STAGE_TEST(who_waits_for_more_may_give_up),
        STAGE_TEST(renewals_keep_every_level),
        STAGE_TEST(each_level_is_lost_at_its_own_margin),
        STAGE_TEST(a_level_that_is_not_told_yet_waits_for_the_renewal),
        STAGE_TEST(levels_not_told_yet_are_asked_for_again_when_it_is_lost),
        STAGE_TEST(an_error_is_told_to_every_level),
        STAGE_TEST(trying_once_beside_one_who_waits),
        STAGE_TEST(a_half_open_link_is_found_and_made_anew),
        STAGE_TEST(channels_that_nobody_waits_for_go_in_the_end),
        STAGE_TEST(as_many_channels_as_are_waited_for_stay_on_one_link),
    };

    return STAGE_RUN(tests);
}
