/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: orderly role changes of two servers while connections stay
 * open, and a client whose two links are at different servers. Each client has a proxy of
 * its own, which decides where its connections lead.
 *
 * Each row ends with the stage's server as the leader, so that the final checks query the
 * present leader.
 *
 * Usual course of each cell: the scene at one server, the change, and what is
 * promised.
 */
#include "cells.h"
#include "pair.h"

#define CLAIM_MS 1000
#define APART_MS 2000
#define KEEP_MS 20000
#define BRIEF_KEEP_MS 2000
#define QUIET_MS 10000 /* the time until a client notices that its link is mute */

struct seat {
    struct peer *peer;
    struct proxy *proxy;
};

/* ---- clients and where they are ---- */

static void lead(struct seat *seat)
{
    proxy_lead(seat->proxy, pair_leader()->path, NULL);
}

static struct peer *connect_to(const char *label, const char *url)
{
    struct peer *peer = peer_start_at(
        label, url,
        client_of(.local_turns = way->turns, .claim_ms = CLAIM_MS, .backoff_max_ms = 200,
                  .request_timeout_ms = QUIET_MS, .close_timeout_ms = 3000));

    UNTIL(peer->up);
    return peer;
}

/* Returns a client with both links at the leader. */
static struct seat seat_at_leader(const char *label)
{
    struct seat seat = {.proxy = proxy_start(pair_leader()->path, true)};

    seat.peer = connect_to(label, seat.proxy->url);
    UNTIL(seat.proxy->subscriptions > 0);
    return seat;
}

/* Returns a client with its commands at the leader and its subscription at the follower,
 * however often it reconnects. */
static struct seat seat_at_both(const char *label)
{
    struct seat seat = {.proxy = proxy_start(pair_leader()->path, true)};

    proxy_lead(seat.proxy, pair_leader()->path, pair_follower()->path);
    proxy_listen_only(seat.proxy, pair_follower()->path);
    seat.peer = connect_to(label, seat.proxy->url);
    UNTIL(seat.proxy->subscriptions > 0);
    return seat;
}

/* Leads both links to the leader from now on. */
static void seat_anew(struct seat *seat)
{
    proxy_listen_only(seat->proxy, NULL);
    lead(seat);
}

/* Swaps the roles. Open links stay where they are; new ones lead to the new leader. */
static void swap_under(struct seat *seat)
{
    pair_swap();
    lead(seat);
}

static void start_at_second(void)
{
    pair_set(0);
    pair_swap();
}

static void expect_handed(struct hold *waiter)
{
    UNTIL(waiter->result != PENDING);
    if (waiter->result != LW_OK) {
        stage_fail("W1: %s", status_name(waiter->result));
    }
    assert_held_by_redis(waiter);
    release_hold(waiter);
    expect_released(waiter, LW_OK);
}

/* Returns how often a member was added to a queue, also by scripts. */
static long long joins(void)
{
    const char *at = strstr(redis_text("INFO commandstats"), "cmdstat_zadd:calls=");

    return at != NULL ? atoll(at + strlen("cmdstat_zadd:calls=")) : 0;
}

/* Returns the number of messages that came for the client, passed on or not. */
static int heard(const struct seat *seat)
{
    return seat->proxy->messages;
}

/* ---- roles that change ---- */

CELL(roles_swapped__owner_kept)
{
    struct seat a;
    struct hold *A;

    start_at_second();
    a = seat_at_leader("a");
    A = own(a.peer, SHORT_MS); /* renewed at both servers, one after the other */
    swap_under(&a);
    expect_kept(A, peer_stats(a.peer).renewed);
    expect_kept(A, peer_stats(a.peer).renewed);
}

CELL(roles_swapped__waiter_W1)
{
    struct seat a, b;
    struct hold *A, *B;

    start_at_second();
    a = seat_at_leader("a");
    b = seat_at_leader("b");
    A = own(a.peer, LONG_MS);
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, 0);
    wait_in_line(1);
    pair_fail_over();
    lead(&a);
    lead(&b);
    release_hold(A);
    expect_handed(B);
    assert_true(B->fence > A->fence);
}

CELL(roles_swapped__release_OK)
{
    struct seat a;
    struct hold *A;

    start_at_second();
    a = seat_at_leader("a");
    A = own(a.peer, LONG_MS);
    swap_under(&a);
    release_hold(A);
    expect_released(A, LW_OK);
    assert_int_equal(redis_int("EXISTS %s", key_of("x")), 0);
}

/* ---- roles that change while a lock is detached; see rows_detached.c ---- */

CELL(roles_swapped__adoption_OK)
{
    struct seat a, b, d;
    struct hold *A, *B, *D;

    start_at_second();
    a = seat_at_leader("a");
    b = seat_at_leader("b");
    d = seat_at_leader("d");
    A = own(a.peer, LONG_MS);
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, 0);
    wait_in_line(1);
    leave_detached(A, KEEP_MS);
    pair_fail_over();
    lead(&a);
    lead(&b);
    lead(&d);
    D = ask_to_adopt(d.peer, A, STAGE_WAIT_MS, 0);
    expect_adopted(D, A);
    release_hold(D);
    expect_handed(B);
    assert_true(B->fence > D->fence);
}

CELL(roles_swapped__detached_lock_ends_and_waiter_W1)
{
    struct seat a, b;
    struct hold *A, *B;
    int64_t detached_ms;

    start_at_second();
    a = seat_at_leader("a");
    b = seat_at_leader("b");
    A = own(a.peer, LONG_MS);
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, 0);
    wait_in_line(1);
    detached_ms = now_ms();
    leave_detached(A, BRIEF_KEEP_MS);
    pair_fail_over();
    lead(&a);
    lead(&b);
    UNTIL(B->result != PENDING);
    assert_true(B->result_ms >= detached_ms + BRIEF_KEEP_MS);
    expect_handed(B);
    assert_true(B->fence > A->fence);
}

/* ---- links at two servers ---- */

CELL(links_at_two_servers__owner_kept)
{
    struct seat a;
    struct hold *A;

    pair_set(0);
    a = seat_at_both("a");
    A = own(a.peer, SHORT_MS);
    expect_kept(A, peer_stats(a.peer).renewed);
}

/* No hand-over would reach a place in the queue. */
CELL(links_at_two_servers__waiter_polls_W1)
{
    struct seat b;
    struct hold *A, *B;
    uint64_t asked;

    pair_set(0);
    b = seat_at_both("b");
    A = own(client_at("a", stage.server.url), LONG_MS);
    redis_ok("CONFIG RESETSTAT");
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, 0);
    asked = peer_stats(b.peer).commands;
    UNTIL(peer_stats(b.peer).commands > asked + 2);
    release_hold(A);
    expect_handed(B);
    assert_int_equal(joins(), 0);
    assert_int_equal(peer_stats(b.peer).handed_over, 0);
}

CELL(links_at_one_server_again__waiter_joins_W1)
{
    struct seat b;
    struct hold *A, *B;

    pair_set(0);
    b = seat_at_both("b");
    A = own(client_at("a", stage.server.url), LONG_MS);
    redis_ok("CONFIG RESETSTAT");
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, 0);
    stage_run_for(200);
    assert_int_equal(joins(), 0);
    seat_anew(&b);
    wait_in_line(1);
    release_hold(A);
    expect_handed(B);
    assert_int_equal(peer_stats(b.peer).handed_over, 1);
}

CELL(links_at_two_servers__release_OK)
{
    struct seat a;
    struct hold *A;

    pair_set(0);
    a = seat_at_both("a");
    A = own(a.peer, LONG_MS);
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- a message from another server ---- */

/*
 * Queues the waiter at the second server, where both of its links are. The stage's server
 * still counts a subscription that the waiter has left there. It becomes the leader
 * again, and will hand over the lock. The message then comes through the second server,
 * now a replica, while commands there are held back and the waiter cannot know of the new
 * roles.
 */
static struct hold *wait_beside_the_leader(struct seat *a, struct seat *b,
                                           struct hold **A)
{
    struct hold *B;

    *b = seat_at_leader("b");
    swap_under(b);
    *a = seat_at_leader("a");
    proxy_desert(b->proxy, SUBSCRIPTION);
    proxy_cut(b->proxy, COMMANDS);
    UNTIL(b->peer->downs > 0 && b->peer->up && b->proxy->subscriptions > 1);
    *A = own(a->peer, LONG_MS);
    B = ask_to_wait(b->peer, "B", STAGE_WAIT_MS, LONG_MS);
    wait_in_line(1);
    pair_agree();
    proxy_hold(b->proxy, COMMANDS, TO_SERVER, true);
    swap_under(a);
    lead(b);
    pair_stand();
    return B;
}

CELL(message_of_another_server__waiter_asks_and_does_not_hold)
{
    struct seat a, b;
    struct hold *A, *B;
    int before;
    long long asked;

    pair_set(0);
    B = wait_beside_the_leader(&a, &b, &A);
    before = heard(&b);
    asked = b.proxy->bytes[COMMANDS][TO_SERVER];
    release_hold(A);
    UNTIL(heard(&b) > before);
    UNTIL(B->result != PENDING || b.proxy->bytes[COMMANDS][TO_SERVER] > asked);
    stage_run_for(50);
    assert_int_equal(B->result, PENDING);
    proxy_hold(b.proxy, COMMANDS, TO_SERVER, false);
    expect_handed(B);
}

/* The clock of the server that hands over is ahead of the one in the waiter's last reply.
 * By the difference of the clocks the claim window still seems open when the message
 * arrives, although the claim has expired and the next waiter holds the lock. */
CELL(message_of_another_clock__waiter_does_not_hold_beside_the_next_one)
{
    struct seat a, b;
    struct hold *A, *B, *C;
    int before;
    int64_t handed_ms;

    pair_set(-APART_MS / 1000); /* the second server's clock is behind */
    B = wait_beside_the_leader(&a, &b, &A);
    C = ask_to_hold(connect_to("c", stage.server.url), "C", STAGE_WAIT_MS, LONG_MS);
    wait_in_line(2);
    before = heard(&b);
    proxy_hold(b.proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(A);
    handed_ms = now_ms();
    UNTIL(C->result != PENDING && heard(&b) > before);
    assert_int_equal(C->result, LW_OK);
    UNTIL(now_ms() > handed_ms + APART_MS + CLAIM_MS / 5);
    proxy_hold(b.proxy, SUBSCRIPTION, TO_CLIENT, false);
    stage_run_for(50);
    assert_int_equal(B->result, PENDING);
    proxy_hold(b.proxy, COMMANDS, TO_SERVER, false);
    release_hold(C);
    expect_handed(B);
    assert_true(B->fence > C->fence);
}

static bool has_listeners(struct server *server)
{
    redisReply *reply =
        server_command(server, "PUBSUB CHANNELS %s*", key_of("lockwire:"));
    bool yes = reply->elements > 0;

    freeReplyObject(reply);
    return yes;
}

/* The leader still counts the subscription that the client has left, and the client
 * listens at the follower. The message there is from the very server that the client
 * sends to, but on a connection that was not counted, and the reply to that count is
 * outstanding. */
CELL(subscription_left_half_open__waiter_asks_and_does_not_hold)
{
    struct seat b;
    struct hold *A, *B;
    int before;

    pair_set(0);
    b = seat_at_leader("b");
    A = own(connect_to("a", stage.server.url), LONG_MS);
    B = ask_to_wait(b.peer, "B", STAGE_WAIT_MS, LONG_MS);
    wait_in_line(1);
    proxy_lead(b.proxy, pair_follower()->path, NULL);
    proxy_desert(b.proxy, SUBSCRIPTION);
    UNTIL(b.proxy->subscriptions > 1);
    proxy_hold(b.proxy, COMMANDS, TO_SERVER, true);
    UNTIL(has_listeners(pair_follower()));
    before = heard(&b);
    release_hold(A);
    UNTIL(heard(&b) > before);
    stage_run_for(50);
    assert_int_equal(B->result, PENDING);
    lead(&b);
    proxy_hold(b.proxy, COMMANDS, TO_SERVER, false);
    expect_handed(B);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_OURS(roles_swapped__owner_kept),
        PLAY_OURS(roles_swapped__waiter_W1),
        PLAY_OURS(roles_swapped__release_OK),
        PLAY_OURS(roles_swapped__adoption_OK),
        PLAY_OURS(roles_swapped__detached_lock_ends_and_waiter_W1),
        PLAY_OURS(links_at_two_servers__owner_kept),
        PLAY_OURS(links_at_two_servers__waiter_polls_W1),
        PLAY_OURS(links_at_one_server_again__waiter_joins_W1),
        PLAY_OURS(links_at_two_servers__release_OK),
        PLAY_OURS(subscription_left_half_open__waiter_asks_and_does_not_hold),
        PLAY_OURS(message_of_another_server__waiter_asks_and_does_not_hold),
        PLAY_OURS(message_of_another_clock__waiter_does_not_hold_beside_the_next_one),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, pair_open, pair_close);
}
