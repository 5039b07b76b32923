/* SPDX-License-Identifier: MIT */
/*
 * lw_client_stats of a quorum. Locks count once, whatever the servers do. Commands,
 * renewals, hand-overs, reconnections and guarded requests are the sums of all servers.
 * The guard is the majority's. Depends on the public header and test/lib.
 */
#include "guard_record.h"
#include "scene.h"

static void expect_gauges(const struct peer *peer, uint64_t held, uint64_t waiting)
{
    assert_int_equal(peer_stats(peer).held, held);
    assert_int_equal(peer_stats(peer).waiting, waiting);
}

static void locks_count_once(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;
    struct lw_stats seen;

    (void)state;
    quorum_start(5);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    expect_gauges(a, 0, 0);
    A = acquire_hold(a, "A", "x", 0);
    expect_gauges(a, 0, 1);
    EXPECT("A granted");
    expect_gauges(a, 1, 0);
    UNTIL(quorum_count("x") == 5);
    expect_gauges(a, 1, 0);
    (void)acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    (void)acquire_hold(b, "C", "x", 50);
    EXPECT("C ETIMEOUT");
    B = acquire_hold(b, "D", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(4, "x") == 1);
    expect_gauges(b, 0, 1);
    release_hold(A);
    EXPECT_SET("A released OK; D granted");
    expect_gauges(a, 0, 0);
    expect_gauges(b, 1, 0);
    release_hold(B);
    EXPECT("D released OK");
    seen = peer_stats(a);
    assert_int_equal(seen.granted, 1);
    assert_int_equal(seen.released, 1);
    seen = peer_stats(b);
    assert_int_equal(seen.granted, 1);
    assert_int_equal(seen.busy, 1);
    assert_int_equal(seen.timed_out, 1);
    assert_int_equal(seen.failed, 0);
    assert_int_equal(seen.released, 1);
    assert_true(seen.handed_over >= 3);
    UNTIL(quorum_count("x") == 0);
}

/* Renews until all three servers do: the third one may have granted the lock later. */
static void renew_at_all_servers(struct hold *hold)
{
    for (int i = 0; i < 200; i++) {
        uint64_t before = peer_stats(hold->peer).renewed;

        renew_hold(hold, 0);
        EXPECT("A renewed OK");
        stage_run_for(20);
        if (peer_stats(hold->peer).renewed >= before + 3) {
            return;
        }
    }
    stage_fail("a server does not renew");
}

/* Each renewal is one command at each server. A client sends a few more, for its
 * identity. */
static void commands_are_those_of_all_servers(void **state)
{
    struct peer *a;
    struct hold *A;
    struct lw_stats before;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    A = quorum_take(a, "A", "x");
    renew_at_all_servers(A); /* now the servers know the script */
    before = peer_stats(a);
    for (unsigned i = 1; i <= 20; i++) {
        renew_hold(A, 0);
        EXPECT("A renewed OK");
        UNTIL(peer_stats(a).renewed - before.renewed >= i * 3ULL);
    }
    assert_int_in_range(peer_stats(a).commands - before.commands, 60, 80);
    release_hold(A);
    EXPECT("A released OK");
}

static void links_count_by_the_majority(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    freeReplyObject(server_command(&quorum_server[1], "ACL SETUSER default -publish"));
    a = quorum_peer("a", NULL);
    UNTIL(peer_stats(a).degraded == LW_DEGRADED_PUBLISH);
    freeReplyObject(server_command(&quorum_server[1], "ACL SETUSER default +publish"));
    assert_int_equal(peer_stats(a).link_up, 1);
    assert_int_equal(peer_stats(a).subscription_up, 1);
    assert_int_equal(peer_stats(a).reconnects, 0);
    quorum_restart_empty(0);
    UNTIL(peer_stats(a).reconnects == 1);
    assert_int_equal(peer_stats(a).link_up, 1);
    UNTIL(proxy_count(quorum_proxy[0], SUBSCRIPTION) == 1);
    proxy_cut(quorum_proxy[0], SUBSCRIPTION);
    proxy_refuse(quorum_proxy[0], true);
    proxy_refuse(quorum_proxy[1], true);
    proxy_cut(quorum_proxy[1], SUBSCRIPTION);
    UNTIL(peer_stats(a).subscription_up == 0);
    assert_int_equal(peer_stats(a).link_up, 1);
    proxy_cut(quorum_proxy[0], COMMANDS);
    proxy_cut(quorum_proxy[1], COMMANDS);
    UNTIL(peer_stats(a).link_up == 0);
    proxy_refuse(quorum_proxy[1], false);
    UNTIL(peer_stats(a).link_up == 1 && peer_stats(a).subscription_up == 1);
}

static void begin_again(int server, int ms)
{
    proxy_refuse(quorum_proxy[server], true);
    server_kill(&quorum_server[server]);
    server_restart(&quorum_server[server]);
    guard_record_open_in(&quorum_server[server], QUORUM_GUARD_MS, ms);
    proxy_refuse(quorum_proxy[server], false);
}

/* A minority that grants no locks yet has no effect on the guard; a majority has. */
static void the_guard_is_the_majority_s(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    begin_again(0, 40000);
    UNTIL(proxy_count(quorum_proxy[0], SUBSCRIPTION) == 1);
    A = quorum_take(a, "A", "x");
    UNTIL(peer_stats(a).guarded > 0); /* requests for the third vote */
    assert_int_equal(peer_stats(a).guard_left_ms, 0);
    assert_int_equal(quorum_count("x"), 2);
    release_hold(A);
    EXPECT("A released OK");
    begin_again(1, 20000); /* until it is connected the majority includes the first one */
    UNTIL(peer_stats(a).guard_left_ms > 0 && peer_stats(a).guard_left_ms <= 20000);
    begin_again(2, 30000);
    UNTIL(peer_stats(a).guard_left_ms > 20000 && peer_stats(a).guard_left_ms <= 30000);
    A = acquire_hold(a, "B", "x", 0);
    EXPECT("B ECONN");
    assert_int_equal(quorum_count("x"), 0);
    proxy_refuse(quorum_proxy[0], true);
    proxy_refuse(quorum_proxy[1], true);
    server_kill(&quorum_server[0]);
    server_kill(&quorum_server[1]);
    UNTIL(peer_stats(a).link_up == 0);
    assert_int_equal(peer_stats(a).guard_left_ms, 0); /* no majority is up */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(locks_count_once),
        STAGE_TEST(commands_are_those_of_all_servers),
        STAGE_TEST(links_count_by_the_majority),
        STAGE_TEST(the_guard_is_the_majority_s),
    };

    return STAGE_RUN(tests);
}
