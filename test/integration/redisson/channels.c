/* SPDX-License-Identifier: MIT */
/* LW_REDISSON: the connection with the subscriptions. Tests thousands of channels, a
 * half-open connection, and a try while the client has no connection.
 *
 * Usual course: a handle waits, its client subscribes to the channel of the name, and an
 * unlock that is published there has it request the lock. */
#include "monitor.h"
#include "proxy.h"
#include "redisson/scene.h"

#include <stdio.h>
#include <string.h>

#define CHANNELS(pattern)                                                                \
    (redis_int("EVAL %s 0 %s", "return #redis.call('PUBSUB', 'CHANNELS', ARGV[1])",      \
               "redisson_lock__channel:{" pattern "}"))

static void trying_once_beside_one_who_waits(void **state)
{
    struct server server;

    (void)state;
    server_start(&server, NULL);
    a = peer_start_at("a", server.url, client_of(.backoff_min_ms = 60000));
    UNTIL(a->up);
    freeReplyObject(server_command(&server, "HSET x foreign:1 1"));
    freeReplyObject(server_command(&server, "PEXPIRE x %d", HOUR_MS));
    join_line(a, "A");
    stage_expect_nothing(300);
    struct hold *B = try_once(a, "B"); /* costs no command */
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 3000000, HOUR_MS);
    server_kill(&server);
    UNTIL(!a->up);
    try_once(a, "C");
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
    struct hold *A = join_line(a, "A");
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
    a = peer_ready("a", NULL);
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
    a = peer_ready("a", NULL);
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
        STAGE_TEST(trying_once_beside_one_who_waits),
        STAGE_TEST(a_half_open_link_is_found_and_made_anew),
        STAGE_TEST(channels_that_nobody_waits_for_go_in_the_end),
        STAGE_TEST(as_many_channels_as_are_waited_for_stay_on_one_link),
    };

    return STAGE_RUN(tests);
}
