/* SPDX-License-Identifier: MIT */
/*
 * Waiting while other waiters die or hang, while messages are lost or forbidden, and
 * while connections are cut. Independent of how the library finds out.
 *
 * Usual course: a handle waits, there is a fault, and the remaining waiters are granted
 * in order.
 */
#include "monitor.h"
#include "players.h"
#include "process.h"
#include "proxy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void I5_waiter_that_died_is_skipped_at_once(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct process *dead = process_start("P", client_of(.claim_ms = 20000));
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    process_tell(dead, "acquire D x -1 30000");
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    process_kill(dead);
    UNTIL(redis_info("pubsub_channels") == 4);
    EXPECT("A granted");
    int64_t before = now_ms();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    /* This does not take the dead waiter's claim window of 20 s. */
    assert_int_in_range(B->result_ms - before, 0, 15000);
}

static void I5_forty_dead_waiters_are_skipped(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    /* More waiters than one script inspects, written as their clients would. */
    for (int i = 0; i < 40; i++) {
        redis_ok("ZADD %s %d 00000000-0000-4000-8000-00000000c0de:%d:60000-",
                 queue_of("x"), 1000 + i, i + 1);
    }
    redis_ok("PEXPIRE %s 120000", queue_of("x"));
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 41);
    EXPECT("A granted");
    int64_t before = now_ms();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_int_in_range(B->result_ms - before, 0, 20000);
}

static void I5_hung_waiter_costs_its_claim_window(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct process *hung = process_start("P", client_of(.claim_ms = 1000));
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    process_tell(hung, "acquire D x -1 30000");
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    process_signal(hung, SIGSTOP);
    EXPECT("A granted");
    int64_t before = now_ms();
    release_hold(A);
    EXPECT("A released OK; B granted");
    assert_true(B->result_ms - before >= 950);
    if (B->result_ms - before > 1050 + 3 * stage.worst_lag_ms + 300) {
        stage_fail("I5: it cost %lld ms", (long long)(B->result_ms - before));
    }
    /* When it continues it must not believe the old message: I1. */
    process_signal(hung, SIGCONT);
    wait_queued("x", 1);
    stage_expect_nothing(100);
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT_SET("B released OK; P: D granted");
    process_tell(hung, "release D");
    EXPECT("P: D released OK");
}

/* B, behind the first waiter, was not given the remaining TTL of the holder's lease. B
 * polls as if that were its own claim window, long before it would behind a holder
 * without TTL. */
static void holder_and_head_die_together(void **state)
{
    struct peer *b = peer_ready("b", NULL);
    struct process *holder = process_start("H", client_of(.claim_ms = 1000));
    struct process *head = process_start("P", client_of(.claim_ms = 1000));

    (void)state;
    process_tell(holder, "acquire A x -1 1000");
    EXPECT("H: A granted");
    process_tell(head, "acquire D x -1 1000");
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    int64_t before = now_ms();
    process_kill(holder);
    process_kill(head);
    EXPECT("B granted");
    if (B->result_ms - before > 2500 + 3 * stage.worst_lag_ms) {
        stage_fail("it cost %lld ms", (long long)(B->result_ms - before));
    }
}

static void I3_lost_message_is_found_by_asking(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_ready("a", NULL), *b;

    (void)state;
    b = peer_start_at("b", proxy->url, client_of(.local_turns = 1, .claim_ms = 1000));
    peer_wait_ready(b);
    struct hold *A = acquire_and_wait(a, "A", "x"),
                *B = acquire_hold_with(b, "B", "x", asking(.wait_ms = -1));
    wait_queued("x", 1);
    EXPECT("A granted");
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(A);
    EXPECT("A released OK");
    EXPECT("B granted");
    assert_held_by_redis(B);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

static void I3_message_lost_but_the_window_is_long(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_ready("a", NULL), *b;

    (void)state;
    b = peer_start_at("b", proxy->url, client_of(.local_turns = 1, .claim_ms = 60000));
    peer_wait_ready(b);
    struct hold *A = acquire_and_wait(a, "A", "x"),
                *B = acquire_hold_with(b, "B", "x", asking(.wait_ms = -1));
    wait_queued("x", 1);
    EXPECT("A granted");
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(redis_int("EXISTS x") == 1); /* handed over: the key has B's token already */
    EXPECT("B granted");
    assert_held_by_redis(B);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

/* The waiter's subscription ends at the moment of the release: the release may find no
 * subscriber. */
static void I3_subscription_killed_at_the_release(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct hold *A = acquire_and_wait(a, "A", "x"),
                    *B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 1);
        redis_ok("CLIENT KILL ID %lld", peer_link_id(b, true));
        release_hold(A);
        UNTIL(B->result != PENDING && A->released != PENDING);
        assert_int_equal(B->result, LW_OK);
        assert_held_by_redis(B);
        release_hold(B);
        UNTIL(B->released == LW_OK);
        peer_wait_ready(b);
    }
    stage_clear_trace();
}

static void place_is_kept(bool subscription)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct peer *c = peer_ready("c", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    long long id = peer_link_id(b, subscription);

    EXPECT("A granted");
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    acquire_hold(c, "C", "x", -1);
    wait_queued("x", 2);
    redis_ok("CLIENT KILL ID %lld", id);
    UNTIL(peer_link_id(b, subscription) != 0 && peer_link_id(b, subscription) != id);
    peer_wait_ready(b);
    wait_queued("x", 2);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void I3_subscription_cut_while_waiting_regains_its_place(void **state)
{
    (void)state;
    place_is_kept(true);
}

static void I3_command_link_cut_while_waiting_regains_its_place(void **state)
{
    (void)state;
    place_is_kept(false);
}

/* By then the client knows that it is subscribed, so each request may join: no second one
 * is needed. */
static void who_waits_asks_once_when_the_command_link_comes_up_again(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    long long id = peer_link_id(b, false);
    char names[20][8];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%d", i);
        acquire_and_wait(a, names[i], names[i]);
        acquire_hold(b, names[i], names[i], -1);
        wait_queued(names[i], 1);
    }
    monitor_start();
    redis_ok("CLIENT KILL ID %lld", id);
    UNTIL(monitor_count("evalsha") >= 1 + 20); /* and the counter's seed */
    acquire_hold(b, "N", "another", 0);
    UNTIL(monitor_saw("another"));
    assert_int_equal(monitor_count("evalsha"), 1 + 20);
    stage_clear_trace();
}

/* The server answers new connections and reads. A script's reply comes after the pause,
 * if at all. */
static void a_server_that_takes_no_writes_for_a_while_costs_no_waiter_its_place(
    void **state)
{
    const struct lw_client_options *hasty =
        client_of(.request_timeout_ms = 300, .backoff_max_ms = 100);
    struct peer *a = peer_ready("a", hasty), *b = peer_ready("b", hasty);

    (void)state;
    redis_ok("SET x foreign PX 3000");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    redis_ok("CLIENT PAUSE 20000 WRITE");
    UNTIL(a->downs >= 2 && b->downs >= 2);
    assert_int_equal(A->result, PENDING);
    assert_int_equal(B->result, PENDING);
    redis_ok("CLIENT UNPAUSE");
    EXPECT("A granted");
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT("B released OK");
}

static void lost_queue_is_rebuilt_in_the_old_order(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct peer *c = peer_ready("c", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500)), *B;

    (void)state;
    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    acquire_hold(c, "C", "x", -1);
    wait_queued("x", 2);
    redis_ok("DEL %s", queue_of("x"));
    wait_queued("x", 2); /* each sends its request again by itself, with its old ticket */
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
}

/* ---- without permission to publish or to subscribe ---- */

static void make_user(const char *channels)
{
    redis_ok("ACL SETUSER app reset on >secret +@all ~* %s", channels);
}

static struct peer *start_user(const char *label)
{
    struct peer *peer = peer_start(
        label, client_of(.username = "app", .password = "secret", .local_turns = 1));

    UNTIL(peer->up);
    return peer;
}

static void assert_logged_once(const struct peer *peer, const char *text)
{
    const char *said = strstr(peer->log, text);

    if (said == NULL || strstr(said + 1, text) != NULL) {
        stage_fail("the log: %s", peer->log);
    }
}

static void without_channels_waiters_poll_and_the_log_says_so_once(void **state)
{
    (void)state;
    make_user("resetchannels");
    struct peer *a = start_user("a"), *b = start_user("b");
    stage_run_for(200);
    long long connections = redis_info("total_connections_received");
    struct lw_acquire_options options = *asking(.wait_ms = -1, .lease_ms = 1500);
    struct hold *A = acquire_hold_with(a, "A", "x", &options);
    EXPECT("A granted");
    struct hold *B = acquire_hold_with(b, "B", "x", &options),
                *C = acquire_hold_with(b, "C", "x", &options);
    stage_expect_nothing(300);
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(B->result != PENDING || C->result != PENDING);
    struct hold *first = B->result == LW_OK ? B : C, *second = first == B ? C : B;
    release_hold(first);
    UNTIL(second->result != PENDING);
    assert_int_equal(second->result, LW_OK);
    stage_clear_trace();
    assert_logged_once(b, "refused SUBSCRIBE");
    assert_logged_once(b, "PUBLISH is not permitted");
    assert_true(redis_info("total_connections_received") - connections < 5);
}

static void who_may_not_publish_leaves_the_waiters_in_place(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all -publish ~* &*");
    struct peer *a = start_user("a"), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);
    EXPECT("A granted");
    wait_queued("x", 1);
    release_hold(A);
    EXPECT("A released OK");
    EXPECT("B granted"); /* by its own poll */
    assert_held_by_redis(B);
}

static void stranger_who_hears_everything_makes_nobody_look_alive(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct process *dead = process_start("P", client_of(.claim_ms = 20000));
    redisContext *stranger = redisConnectUnix(stage.server.path);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    freeReplyObject(redisCommand(stranger, "PSUBSCRIBE *"));
    process_tell(dead, "acquire D x -1 30000");
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    process_kill(dead);
    UNTIL(redis_info("pubsub_channels") == 4);
    EXPECT("A granted");
    int64_t before = now_ms();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    /* This does not take the dead waiter's claim window of 20 s. */
    assert_int_in_range(B->result_ms - before, 0, 15000);
    redisFree(stranger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(I5_waiter_that_died_is_skipped_at_once),
        STAGE_TEST(I5_forty_dead_waiters_are_skipped),
        STAGE_TEST(I5_hung_waiter_costs_its_claim_window),
        STAGE_TEST(holder_and_head_die_together),
        STAGE_TEST(I3_lost_message_is_found_by_asking),
        STAGE_TEST(I3_message_lost_but_the_window_is_long),
        STAGE_TEST(I3_subscription_killed_at_the_release),
        STAGE_TEST(I3_subscription_cut_while_waiting_regains_its_place),
        STAGE_TEST(I3_command_link_cut_while_waiting_regains_its_place),
        STAGE_TEST(who_waits_asks_once_when_the_command_link_comes_up_again),
        STAGE_TEST(a_server_that_takes_no_writes_for_a_while_costs_no_waiter_its_place),
        STAGE_TEST(lost_queue_is_rebuilt_in_the_old_order),
        STAGE_TEST(without_channels_waiters_poll_and_the_log_says_so_once),
        STAGE_TEST(who_may_not_publish_leaves_the_waiters_in_place),
        STAGE_TEST(stranger_who_hears_everything_makes_nobody_look_alive),
    };

    return STAGE_RUN(tests);
}
