/* SPDX-License-Identifier: MIT */
/*
 * Edge cases of a quorum's mutex: local hand-overs between handles with different
 * options, renewals by the caller while votes are lost, a hold that is not renewed, the
 * cost of a minority, and calls in callbacks. Depends on the public header and test/lib.
 */
#include "scene.h"

#include "guard_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sends a command to the servers 1 and 2, a majority. */
static void say(const char *command)
{
    freeReplyObject(server_command(&quorum_server[1], command));
    freeReplyObject(server_command(&quorum_server[2], command));
}

static struct peer *turns_peer(const char *label)
{
    struct peer *peer =
        quorum_peer(label, client_of(.local_turns = 16, .backoff_max_ms = 100));

    UNTIL(peer->up && peer_stats(peer).subscription_up);
    return peer;
}

/* ---- local hand-overs ---- */

/* Sets the counters far apart, so that no server's token is the next one of another's. A
 * grant then has all the tokens that a script draws. */
static void part_counters(void)
{
    freeReplyObject(
        server_command(&quorum_server[1], "INCRBY lockwire:fence 1000000000"));
    freeReplyObject(
        server_command(&quorum_server[2], "INCRBY lockwire:fence 2000000000"));
}

/* B takes over votes that were not to be renewed beyond A's max_hold_ms. */
static void a_limit_ends_with_its_handle(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B, *first;

    (void)state;
    quorum_start(3);
    a = turns_peer("a");
    b = turns_peer("b");
    first = quorum_take(b, "0", "x");
    part_counters();
    A = acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .max_hold_ms = 3000));
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    release_hold(first); /* a hand-over has tokens for both */
    EXPECT_SET("0 released OK; A granted");
    B = acquire_hold(a, "B", "x", -1);
    stage_run_for(300);
    release_hold(A);
    EXPECT("A released OK; B granted");
    assert_int_equal(peer_stats(a).passed, 1);
    stage_expect_nothing(3500);
    assert_true(lw_lock_remaining_ms(B->lock) > 10000);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(quorum_count("x") == 0);
}

/* Until a server replies, its vote keeps its end, like the lease of a single server. */
static void a_shorter_lease_ends_no_votes(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B, *first;

    (void)state;
    quorum_start(3);
    a = turns_peer("a");
    b = turns_peer("b");
    first = quorum_take(b, "0", "x");
    part_counters();
    A = acquire_hold(a, "A", "x", -1);
    B = acquire_hold_with(a, "B", "x", asking(.wait_ms = -1, .lease_ms = 1000));
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    release_hold(first);
    EXPECT_SET("0 released OK; A granted");
    UNTIL(lw_lock_remaining_ms(A->lock) > 15000);
    for (int i = 0; i < 3; i++) {
        proxy_swallow(quorum_proxy[i], COMMANDS, TO_SERVER, true);
    }
    release_hold(A);
    EXPECT("A released OK; B granted");
    stage_expect_nothing(1500);
    assert_true(lw_lock_remaining_ms(B->lock) > 10000);
    assert_int_in_range(quorum_count("x"), 2, 3);
}

/* ---- renewals ---- */

/* The vote of a server that is down is held until its deadline. */
static void a_vote_that_cannot_be_renewed_is_not_counted_as_renewed(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 33000));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    server_kill(&quorum_server[0]);
    UNTIL(proxy_count(quorum_proxy[0], COMMANDS) == 0);
    stage_expect_nothing(100); /* in which the client notices it */
    proxy_hold(quorum_proxy[1], COMMANDS, TO_SERVER, true);
    renew_hold(A, 0);
    stage_expect_nothing(300);
    proxy_hold(quorum_proxy[1], COMMANDS, TO_SERVER, false);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT("A released OK");
}

/* The client sends requests to servers that have lost their votes, but these do not
 * extend the lease. */
static void a_hold_without_renewal_ends_with_its_lease(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    server_kill(&quorum_server[2]);
    a = quorum_peer("a", client_of(.local_turns = 1, .backoff_max_ms = 50));
    UNTIL(a->up && peer_stats(a).subscription_up);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 3000, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    stage_run_for(300);
    quorum_restart_empty(2);
    UNTIL(quorum_count("x") == 3);
    stage_run_for(300);
    quorum_restart_empty(0);
    stage_run_for(500);
    EXPECT("A lost ELOST");
    assert_int_in_range(A->lost_ms - A->result_ms, 2000, 3000);
    UNTIL(quorum_count("x") == 0);
}

/* ---- a minority ---- */

/* A foreign client holds the majority for a long time. */
static void a_useless_minority_costs_little(void **state)
{
    struct peer *a;
    struct hold *A;
    long long before;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    say("SET x stranger PX 60000");
    A = acquire_hold(a, "A", "x", -1);
    UNTIL(*quorum_value(0, "x") != '\0');
    before = (long long)peer_stats(a).commands;
    stage_expect_nothing(3000);
    assert_int_in_range((long long)peer_stats(a).commands - before, 1, 200);
    say("DEL x");
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

static long long scripts_of(int server)
{
    redisReply *info = server_command(&quorum_server[server], "INFO commandstats");
    const char *calls = strstr(info->str, "cmdstat_evalsha:calls=");
    long long count = calls != NULL ? atoll(strchr(calls, '=') + 1) : 0;

    freeReplyObject(info);
    return count;
}

/* While it holds a minority, a client polls the other servers more often than by the
 * lease there: a foreign client may release the lock for moments only. */
static void a_minority_polls_the_other_servers(void **state)
{
    struct peer *a;
    struct hold *A;
    long long before;
    uint64_t sent;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    say("SET x stranger PX 600000");
    before = scripts_of(1);
    sent = peer_stats(a).commands;
    A = acquire_hold(a, "A", "x", -1);
    UNTIL(peer_stats(a).commands >= sent + 60);
    assert_true(scripts_of(1) >= before + 8);
    say("DEL x");
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

/* Each client may queue at only one server that runs, and is the only one in the queue
 * there. The reply to a request that replaces a vote says that the lock is held, by the
 * client's own vote, before the message with the new vote comes. */
static void two_minorities_do_not_wait_for_each_other(void **state)
{
    static const char users[2][80] = {"ACL SETUSER alice on >a ~* &* +@all",
                                      "ACL SETUSER bob on >b ~* &* +@all"};
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    for (int i = 0; i < 3; i++) {
        freeReplyObject(server_command(&quorum_server[i], users[0]));
        freeReplyObject(server_command(&quorum_server[i], users[1]));
        proxy_delay(quorum_proxy[i], SUBSCRIPTION, TO_CLIENT, 20);
    }
    freeReplyObject(server_command(&quorum_server[1], "ACL SETUSER alice -pubsub"));
    freeReplyObject(server_command(&quorum_server[0], "ACL SETUSER bob -pubsub"));
    server_kill(&quorum_server[2]);
    a = quorum_peer(
        "a", client_of(.username = "alice", .password = "a", .backoff_max_ms = 100));
    b = quorum_peer("b",
                    client_of(.username = "bob", .password = "b", .backoff_max_ms = 100));
    UNTIL(a->up && b->up);
    freeReplyObject(server_command(&quorum_server[0], "SET x stranger PX 60000"));
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(*quorum_value(1, "x") != '\0');
    A = acquire_hold(a, "A", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1);
    freeReplyObject(server_command(&quorum_server[0], "DEL x"));
    UNTIL(A->result != PENDING || B->result != PENDING);
    free_hold(A->result != PENDING ? A : B);
    UNTIL((A->lock == NULL || A->result != PENDING) &&
          (B->lock == NULL || B->result != PENDING));
    stage_clear_trace();
}

/* ---- calls in callbacks ---- */

static int moment_to_act, act;

static void drop_then(struct hold *hold, enum moment moment)
{
    (void)moment;
    free_hold(hold);
}

static void act_then(struct hold *hold, enum moment moment)
{
    if ((int)moment != moment_to_act) {
        return;
    }
    switch (act) {
    case 0:
        free_hold(hold);
        break;
    case 1:
        peer_free(hold->peer);
        break;
    case 2:
        peer_close(hold->peer);
        break;
    default:
        if (moment == AT_RESULT || moment == AT_RENEWED) {
            release_hold(hold);
        } else {
            acquire_hold(hold->peer, "D", "x", -1)->then = drop_then;
            free_hold(hold);
        }
    }
}

static void play_callback(enum moment moment, int what)
{
    struct peer *a = turns_peer("a"), *b = turns_peer("b");
    struct hold *A, *B, *C;

    moment_to_act = (int)moment;
    act = what;
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 600, .wait_ms = -1));
    A->then = act_then;
    if (moment != AT_RESULT) {
        UNTIL(A->result != PENDING);
    }
    B = acquire_hold(b, "B", "x", -1);
    C = acquire_hold(a, "C", "x", -1);
    C->then = drop_then;
    if (moment != AT_RESULT) {
        if (moment == AT_RENEWED) {
            renew_hold(A, 0);
        } else if (moment == AT_RELEASED) {
            release_hold(A);
        } else { /* lost */
            say("SET x stranger PX 60000");
            UNTIL(A->lost != PENDING);
            say("DEL x");
        }
    }
    UNTIL(B->result != PENDING);
    free_hold(B);
    peer_free(b);
    peer_free(a);
    stage_run_for(20);
    stage_clear_trace();
    for (int i = 0; i < 3; i++) {
        freeReplyObject(server_command(&quorum_server[i], "FLUSHALL"));
        guard_record_open_in(&quorum_server[i], QUORUM_GUARD_MS, 0);
    }
}

static void any_call_may_be_made_in_any_callback(void **state)
{
    static const enum moment moments[] = {AT_RESULT, AT_LOST, AT_RELEASED, AT_RENEWED};

    (void)state;
    quorum_start(3);
    for (size_t m = 0; m < 4; m++) {
        for (int what = 0; what < 4; what++) {
            play_callback(moments[m], what);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_limit_ends_with_its_handle),
        STAGE_TEST(a_shorter_lease_ends_no_votes),
        STAGE_TEST(a_vote_that_cannot_be_renewed_is_not_counted_as_renewed),
        STAGE_TEST(a_hold_without_renewal_ends_with_its_lease),
        STAGE_TEST(a_useless_minority_costs_little),
        STAGE_TEST(a_minority_polls_the_other_servers),
        STAGE_TEST(two_minorities_do_not_wait_for_each_other),
        STAGE_TEST(any_call_may_be_made_in_any_callback),
    };

    return STAGE_RUN(tests);
}
