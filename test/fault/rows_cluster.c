/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a cluster. Its slots move, step by step or at once, also to a
 * node that has just joined. Its masters are replaced in each of three ways, die, are
 * stopped and continue, or are parted from the other nodes but not from clients. And the
 * cluster reports itself down.
 *
 * Usual course of each cell: the scene at the slot's master, the fault, and what is
 * promised wherever the slot is then.
 */
#include "cells.h"
#include "gated.h"

#include <stdio.h>
#include <string.h>

#define MASTERS 3
#define PATIENT_MS 40000 /* a request time-out longer than any failover here */
#define MOVING_MS 300    /* for how long some of the slot's keys are at each node */

static int slot, home;

static void find_home(void)
{
    slot = cluster_slot(key_of("x"));
    home = cluster_owner(slot);
    cluster_ask_owner(slot);
}

static void masters(int replicas)
{
    cluster_set(MASTERS, replicas, "");
    find_home();
}

static void with_replicas(void)
{
    masters(MASTERS);
}

static void with_gates(void)
{
    gated_set(MASTERS, MASTERS);
    find_home();
}

static struct peer *client_to(const char *label, const char *url,
                              uint32_t request_timeout_ms)
{
    struct peer *peer =
        peer_start_at(label, url,
                      client_of(.local_turns = way->turns, .claim_ms = 1000,
                                .request_timeout_ms = request_timeout_ms,
                                .connect_timeout_ms = REQUEST_MS, .backoff_max_ms = 200,
                                .close_timeout_ms = 3000));

    UNTIL(peer->up);
    return peer;
}

static struct peer *client_with(const char *label, uint32_t request_timeout_ms)
{
    return client_to(label, cluster_url(), request_timeout_ms);
}

static struct peer *client(const char *label)
{
    return client_with(label, REQUEST_MS);
}

/* Returns a client whose requests do not time out during a failover. */
static struct peer *patient(const char *label)
{
    return client_with(label, PATIENT_MS);
}

static int elsewhere(void)
{
    return (home + 1) % MASTERS;
}

/* ---- a slot that is moving ---- */

static void begin_to_move(void)
{
    cluster_begin(slot, elsewhere());
    cluster_carry(slot, elsewhere(), 1);
}

static void arrive(void)
{
    cluster_carry(slot, elsewhere(), -1);
    cluster_end(slot, elsewhere());
    cluster_ask_owner(slot);
}

CELL(slot_moving__owner_kept)
{
    struct hold *A;
    uint64_t renewed;

    masters(0);
    A = own(client("a"), SHORT_MS);
    renewed = peer_stats(A->peer).renewed;
    begin_to_move();
    UNTIL(peer_stats(A->peer).renewed > renewed + 2);
    assert_int_equal(A->lost, PENDING);
    arrive();
    expect_kept(A, peer_stats(A->peer).renewed);
}

CELL(slot_moving__waiter_keeps_its_place_W1)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    begin_to_move();
    stage_run_for(MOVING_MS);
    assert_int_equal(B->result, PENDING);
    arrive();
    wait_in_line(way->waiter == LW_MUTEX || !way->sibling ? 1 : 2);
    release_hold(A);
    UNTIL(B->result != PENDING);
    assert_true(B->fence > A->fence);
    expect_W1(B);
}

CELL(slot_moving__release_OK)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    begin_to_move();
    release_hold(A);
    expect_released(A, LW_OK);
    arrive();
    expect_W1(B);
}

/* No other client is there, and no script was sent to this slot before. */
CELL(slot_moving__newcomer_W1)
{
    struct hold *A;

    masters(0);
    begin_to_move();
    A = ask_to_hold(client("a"), "A", STAGE_WAIT_MS, SHORT_MS);
    if (way->holder == LW_MUTEX) {
        UNTIL(A->result != PENDING);
    }
    stage_run_for(MOVING_MS);
    arrive();
    expect_W1(A);
}

/* ---- a detached lock; see rows_detached.c ---- */

#define KEEP_MS 60000 /* longer than a failover */

static struct hold *wait_for_detached(struct hold **ret_owner)
{
    *ret_owner = own(patient("a"), LONG_MS);
    leave_detached(*ret_owner, KEEP_MS);
    return stand_behind(patient("b"), *ret_owner, STAGE_WAIT_MS);
}

static void expect_adopted_and_W1(struct hold *adopter, struct hold *earlier,
                                  struct hold *waiter)
{
    expect_adopted(adopter, earlier);
    release_hold(adopter);
    UNTIL(waiter->result != PENDING);
    assert_true(waiter->fence > adopter->fence);
    expect_W1(waiter);
}

/* While the name and the fence counter are at different nodes, no script reaches both. */
CELL(slot_moving__adoption_OK)
{
    struct hold *A, *B, *D;

    masters(0);
    B = wait_for_detached(&A);
    begin_to_move();
    D = ask_to_adopt(client("d"), A, STAGE_WAIT_MS, 0);
    stage_run_for(MOVING_MS);
    arrive();
    expect_adopted_and_W1(D, A, B);
}

CELL(slot_moving__detach_OK)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    begin_to_move();
    detach_hold(A, KEEP_MS);
    expect_released(A, LW_OK);
    arrive();
    expect_adopted_and_W1(ask_to_adopt(client("d"), A, STAGE_WAIT_MS, 0), A, B);
}

CELL(slot_moved__adoption_OK)
{
    struct hold *A, *B;
    struct peer *d;

    masters(0);
    d = client("d");
    B = wait_for_detached(&A);
    cluster_move(slot, elsewhere());
    cluster_ask_owner(slot);
    expect_adopted_and_W1(ask_to_adopt(d, A, STAGE_WAIT_MS, 0), A, B);
}

/* ---- a slot that has moved ---- */

static void move(void)
{
    cluster_move(slot, elsewhere());
    cluster_ask_owner(slot);
}

CELL(slot_moved__owner_kept)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), SHORT_MS);
    move();
    expect_kept(A, peer_stats(A->peer).renewed);
    assert_true(peer_stats(A->peer).redirects > 0);
}

CELL(slot_moved__waiter_W1)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    move();
    release_hold(A);
    expect_W1(B);
}

CELL(slot_moved__release_OK)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), LONG_MS);
    move();
    release_hold(A);
    expect_released(A, LW_OK);
}

CELL(slot_moved_to_a_new_node_that_goes_again__owner_kept)
{
    struct hold *A;
    int added;

    masters(0);
    A = own(client("a"), SHORT_MS);
    added = cluster_add();
    cluster_move(slot, added);
    cluster_ask_owner(slot);
    expect_kept(A, peer_stats(A->peer).renewed);
    cluster_move(slot, home);
    cluster_forget(added);
    cluster_ask_owner(slot);
    expect_kept(A, peer_stats(A->peer).renewed);
}

CELL(slot_moved_to_a_new_node_that_goes_again__waiter_W1)
{
    struct hold *A, *B;
    int added;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    added = cluster_add();
    cluster_move(slot, added);
    stage_run_for(MOVING_MS);
    cluster_move(slot, home);
    cluster_forget(added);
    cluster_ask_owner(slot);
    release_hold(A);
    expect_W1(B);
}

/* ---- a master that is replaced ---- */

static int replica(void)
{
    return (home + MASTERS) % (2 * MASTERS); /* the other node of the pair */
}

static long long offset_of(int node)
{
    redisReply *reply = server_command(cluster_server(node), "INFO replication");
    const char *at = strstr(reply->str, "\nmaster_repl_offset:");
    long long offset = at != NULL ? atoll(strchr(at, ':') + 1) : -1;

    freeReplyObject(reply);
    return offset;
}

/* Waits until the replica has all earlier writes. (WAIT would block the loop, and so the
 * gates.) */
static void replicate(void)
{
    long long offset = offset_of(home);

    UNTIL(offset_of(replica()) >= offset);
}

static void fail_over(const char *how)
{
    replicate();
    cluster_fail_over(replica(), how);
    cluster_promoted(replica());
    cluster_ask_owner(slot);
}

static void kill_it(void)
{
    replicate();
    server_kill(cluster_server(home));
    cluster_promoted(replica());
    cluster_ask_owner(slot);
}

/* Stops the master until its replica leads. When the old master continues, it considers
 * itself the master for a moment. */
static void stop_it(void)
{
    replicate();
    server_pause(cluster_server(home));
    cluster_promoted(replica());
    server_resume(cluster_server(home));
    cluster_stand();
    cluster_ask_owner(slot);
}

/* Clients still reach the old master, which considers itself the master. */
static void part_it(void)
{
    replicate();
    gated_part(home, true);
    gated_part_streams(home, true);
    cluster_promoted(replica());
    UNTIL(cluster_is_down_by(home));
    assert_int_equal(cluster_owner_by(home, slot), home);
    cluster_ask_owner(slot);
}

static void in_order(void)
{
    fail_over("");
}

static void by_force(void)
{
    fail_over("FORCE");
}

static void taken_over(void)
{
    fail_over("TAKEOVER");
}

/* Returns the number of channels with subscribers at the slot's master, or -1 if it does
 * not answer. */
static long long listened_to(void)
{
    redisReply *reply =
        server_try(cluster_server(cluster_owner(slot)), "PUBSUB SHARDCHANNELS");
    long long count = reply->type == REDIS_REPLY_ARRAY ? (long long)reply->elements : -1;

    freeReplyObject(reply);
    return count;
}

/* Waits until the waiter has subscribed at the new master: until then it may be
 * considered dead there. */
static void until_followed(void)
{
    int64_t since_ms = now_ms();

    UNTIL(listened_to() == 1);
    (void)fprintf(stderr, "%s: who waits came after %lld ms\n", stage.test,
                  (long long)(now_ms() - since_ms));
}

#define OWN_MS (10 * LONG_MS) /* so long that a test sees no scheduled renewal */

/* A client that only holds learns of the change by nothing but its heartbeats. */
static void owner_is_kept(void (*scene)(void), void (*replace)(void))
{
    struct hold *A;
    uint64_t renewed;

    scene();
    A = own(client("a"), OWN_MS);
    renewed = peer_stats(A->peer).renewed;
    replace();
    expect_kept(A, renewed);
}

/* A later request must be behind the waiter at the new master as well. */
static void waiter_keeps_its_place(void (*scene)(void), void (*replace)(void))
{
    struct hold *A, *B, *later;

    scene();
    A = own(patient("a"), LONG_MS);
    B = stand_behind(patient("b"), A, STAGE_WAIT_MS);
    replace();
    until_followed();
    later = ask_to_hold(patient("c"), "L", STAGE_WAIT_MS, 0);
    wait_in_line(way->waiter == LW_MUTEX || !way->sibling ? 2 : 3);
    release_hold(A);
    UNTIL(B->result != PENDING);
    if (later->result != PENDING || B->fence <= A->fence) {
        stage_fail("B: %s %llu, the later one: %s %llu", status_name(B->result),
                   (unsigned long long)B->fence, status_name(later->result),
                   (unsigned long long)later->fence);
    }
    free_hold(later);
    expect_W1(B);
}

static void release_is_ok(void (*scene)(void), void (*replace)(void))
{
    struct hold *A;

    scene();
    A = own(patient("a"), LONG_MS);
    replace();
    release_hold(A);
    expect_released(A, LW_OK);
}

#define REPLACED(name, scene, replace)                                                   \
    CELL(name##__owner_kept)                                                             \
    {                                                                                    \
        owner_is_kept(scene, replace);                                                   \
    }                                                                                    \
    CELL(name##__waiter_keeps_its_place_W1)                                              \
    {                                                                                    \
        waiter_keeps_its_place(scene, replace);                                          \
    }                                                                                    \
    CELL(name##__release_OK)                                                             \
    {                                                                                    \
        release_is_ok(scene, replace);                                                   \
    }

REPLACED(master_replaced_in_order, with_replicas, in_order)
REPLACED(master_replaced_by_force, with_replicas, by_force)
REPLACED(master_taken_over, with_replicas, taken_over)
REPLACED(master_killed, with_replicas, kill_it)
REPLACED(master_stopped_that_thaws, with_replicas, stop_it)
REPLACED(master_parted, with_gates, part_it)

CELL(master_killed__adoption_OK)
{
    struct hold *A, *B;

    with_replicas();
    B = wait_for_detached(&A);
    kill_it();
    until_followed();
    expect_adopted_and_W1(ask_to_adopt(patient("d"), A, STAGE_WAIT_MS, 0), A, B);
}

/* The new master does not know the hold. */
CELL(master_parted_whose_grant_is_lost__owner_O2)
{
    struct hold *A;
    struct peer *b;

    with_gates();
    b = client("b");
    gated_part_streams(home, true);
    A = own(client("a"), LONG_MS);
    gated_part(home, true);
    cluster_promoted(replica());
    cluster_ask_owner(slot);
    expect_O2(A);
    expect_W1(ask_to_wait(b, "B", STAGE_WAIT_MS, 0));
}

#define PARTED_MS 8000 /* the former master used to be asked for longer than this */

/* Finds a name whose slot is at this master or its replica, whichever leads now. */
static void name_of_pair(int pair, char ret[16])
{
    int i = 0;

    do {
        (void)snprintf(ret, 16, "n%d", i++);
    } while (cluster_owner(cluster_slot(key_of(ret))) % MASTERS != pair);
}

/* Between the failure and the take-over no master serves the slot, and a node that is
 * asked then does not know. After it all other nodes know the new master, and the former
 * one still reports itself. */
CELL(master_parted__owner_of_a_short_lease_is_kept)
{
    static const char *const labels[] = {"A", "B", "C"};
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct hold *holds[MASTERS];
    int64_t parted_ms, promoted_ms, until_ms;
    char name[16];
    struct peer *a;

    with_gates();
    options.lease_ms = PARTED_MS;
    a = client("a");
    for (int i = 0; i < MASTERS; i++) {
        name_of_pair(i, name);
        home = i == 0 ? cluster_owner(cluster_slot(key_of(name))) : home;
        holds[i] = acquire_hold_with(a, labels[i], name, &options);
        UNTIL(holds[i]->result == LW_OK);
    }
    replicate();
    parted_ms = now_ms();
    gated_part(home, true);
    UNTIL(cluster_has_failed(1, home) && cluster_has_failed(2, home));
    for (int i = 1; i < MASTERS; i++) { /* so that the client asks these masters, too */
        assert_int_equal(lw_renew(holds[i]->lock, 0, NULL, NULL), LW_OK);
    }
    cluster_promoted(replica());
    promoted_ms = now_ms();
    if (promoted_ms > parted_ms + PARTED_MS / 2) {
        (void)fprintf(stderr, "skipped: the replica took too long to take over\n");
        skip();
    }
    until_ms = now_ms() + lw_lock_remaining_ms(holds[0]->lock);
    UNTIL(now_ms() + lw_lock_remaining_ms(holds[0]->lock) > until_ms + SHORT_MS ||
          holds[0]->lost != PENDING);
    (void)fprintf(stderr, "%s: %s %lld ms after the take-over\n", stage.test,
                  holds[0]->lost == PENDING ? "renewed" : "lost",
                  (long long)(now_ms() - promoted_ms));
    for (int i = 0; i < MASTERS; i++) {
        assert_int_equal(holds[i]->lost, PENDING);
        free_hold(holds[i]);
    }
    stage_clear_trace();
}

/* A new client asks the former master first. */
CELL(master_parted__newcomer_by_its_address_W1)
{
    char url[200];

    with_gates();
    part_it();
    (void)snprintf(url, sizeof(url), "%.*s127.0.0.1:%d,%s",
                   (int)(strstr(cluster_url(), "://") + 3 - cluster_url()), cluster_url(),
                   cluster_port(home), cluster_hosts());
    expect_W1(ask_to_hold(client_to("a", url, REQUEST_MS), "A", 0, LONG_MS));
}

/* A release that was sent to the dead master is sent again to the next one. */
CELL(master_killed__release_on_its_way_OK)
{
    struct hold *A;

    masters(MASTERS);
    A = own(patient("a"), LONG_MS);
    replicate();
    server_pause(cluster_server(home));
    release_hold(A);
    stage_run_for(50);
    server_kill(cluster_server(home));
    cluster_promoted(replica());
    expect_released(A, LW_OK);
}

/* ---- a cluster that reports itself down ---- */

static bool is_down(int node)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER INFO");
    bool down = strstr(reply->str, "cluster_state:fail") != NULL;

    freeReplyObject(reply);
    return down;
}

/* Kills a master other than the slot's. The masters have no replicas here. */
static void call_down(void)
{
    server_kill(cluster_server(elsewhere()));
    UNTIL(is_down(home));
}

CELL(cluster_down__owner_O1)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), SHORT_MS);
    call_down();
    expect_O1(A, now_ms(), SHORT_MS);
}

CELL(cluster_down__waiter_W2)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, 3000);
    call_down();
    expect_W2(B, 3000);
    free_hold(A);
}

CELL(cluster_down__release_ECONN)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), LONG_MS);
    call_down();
    release_hold(A);
    expect_released(A, LW_ECONN);
}

CELL(cluster_down_for_a_while__owner_kept)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), 4 * SHORT_MS);
    call_down();
    server_restart(cluster_server(elsewhere()));
    cluster_stand();
    expect_kept(A, peer_stats(A->peer).renewed);
}

CELL(cluster_down_for_a_while__waiter_W1)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    call_down();
    server_restart(cluster_server(elsewhere()));
    cluster_stand();
    release_hold(A);
    expect_W1(B);
}

/* ---- a dead master that has no replica ---- */

CELL(master_lost__owner_O1)
{
    struct hold *A;
    int64_t lost_ms;

    masters(0);
    A = own(client("a"), SHORT_MS);
    lost_ms = now_ms();
    server_kill(cluster_server(home));
    expect_O1(A, lost_ms, SHORT_MS);
}

CELL(master_lost__waiter_W2)
{
    struct hold *A, *B;

    masters(0);
    A = own(client("a"), LONG_MS);
    B = stand_behind(client("b"), A, 2000);
    server_kill(cluster_server(home));
    expect_W2(B, 2000);
    free_hold(A);
}

CELL(master_lost__release_EUNKNOWN)
{
    struct hold *A;

    masters(0);
    A = own(client("a"), LONG_MS);
    server_kill(cluster_server(home));
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
}

int main(int argc, char **argv)
{
#define PLAY_REPLACED(name)                                                              \
    PLAY_OURS(name##__owner_kept), PLAY_OURS(name##__waiter_keeps_its_place_W1),         \
        PLAY_OURS(name##__release_OK)
    static const struct cell cells[] = {
        PLAY_OURS(slot_moving__owner_kept),
        PLAY_OURS(slot_moving__waiter_keeps_its_place_W1),
        PLAY_OURS(slot_moving__release_OK),
        PLAY_OURS(slot_moving__newcomer_W1),
        PLAY_OURS(slot_moving__adoption_OK),
        PLAY_OURS(slot_moving__detach_OK),
        PLAY_OURS(slot_moved__adoption_OK),
        PLAY_OURS(slot_moved__owner_kept),
        PLAY_OURS(slot_moved__waiter_W1),
        PLAY_OURS(slot_moved__release_OK),
        PLAY_OURS(slot_moved_to_a_new_node_that_goes_again__owner_kept),
        PLAY_OURS(slot_moved_to_a_new_node_that_goes_again__waiter_W1),
        PLAY_REPLACED(master_replaced_in_order),
        PLAY_REPLACED(master_replaced_by_force),
        PLAY_REPLACED(master_taken_over),
        PLAY_REPLACED(master_killed),
        PLAY_REPLACED(master_stopped_that_thaws),
        PLAY_REPLACED(master_parted),
        PLAY_OURS(master_killed__adoption_OK),
        PLAY_OURS(master_parted_whose_grant_is_lost__owner_O2),
        PLAY_OURS(master_parted__owner_of_a_short_lease_is_kept),
        PLAY_OURS(master_parted__newcomer_by_its_address_W1),
        PLAY_OURS(master_killed__release_on_its_way_OK),
        PLAY_OURS(cluster_down__owner_O1),
        PLAY_OURS(cluster_down__waiter_W2),
        PLAY_OURS(cluster_down__release_ECONN),
        PLAY_OURS(cluster_down_for_a_while__owner_kept),
        PLAY_OURS(cluster_down_for_a_while__waiter_W1),
        PLAY_OURS(master_lost__owner_O1),
        PLAY_OURS(master_lost__waiter_W2),
        PLAY_OURS(master_lost__release_EUNKNOWN),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
