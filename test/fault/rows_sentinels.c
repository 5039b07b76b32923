/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a master that three sentinels replace, and what its clients
 * are promised: with all writes in the replicas, or without the last ones; while the old
 * master lives on; and while the sentinels are away.
 *
 * Usual course of each cell: the scene at the first master, the fault, and what is
 * promised at the next master.
 */
#include "cells.h"
#include "trio.h"

#include <stdio.h>

#define PATIENT_MS 40000 /* a request time-out longer than any failover here */

/* Returns a client whose requests do not time out during a failover: it leaves a silent
 * server only because of the sentinels' reports. */
static struct peer *patient_at(const char *label)
{
    struct peer *peer =
        peer_start_at(label, trio_url(),
                      client_of(.local_turns = way->turns, .claim_ms = 1000,
                                .backoff_max_ms = 200, .request_timeout_ms = PATIENT_MS,
                                .connect_timeout_ms = 2000, .close_timeout_ms = 3000));

    peer_wait_ready(peer);
    return peer;
}

/* Waits until all clients of this test have both links to the server that the sentinels
 * report. */
static void until_led(int clients, int old)
{
    UNTIL(proxy_count(trio_gate(trio_leader()), SUBSCRIPTION) >= clients &&
          trio_clients(old) == 0);
    trio_check();
    for (struct peer *peer = peers; peer != NULL; peer = peer->next) {
        UNTIL(peer->up);
        assert_int_equal(peer_stats(peer).failovers, 1);
    }
}

static struct hold *own_and_replicate(struct peer *peer)
{
    struct hold *A = own(peer, LONG_MS);

    trio_agree();
    return A;
}

/* Acquires a lock while no replica receives the grant, or any later write. */
static struct hold *own_unheard(struct peer *peer, uint32_t lease_ms)
{
    struct hold *A;

    trio_part_servers(trio_gate(trio_leader()), true);
    A = own(peer, lease_ms);
    trio_check(); /* a slow machine may take so long that the master counts as down */
    return A;
}

static void drop_what_is_held_back(int server)
{
    proxy_cut(trio_gate(server), SERVERS);
    trio_part_servers(trio_gate(server), false);
}

/* Returns the index of the killed server. */
static int kill_master(void)
{
    int old = trio_leader();

    server_kill(trio_master());
    drop_what_is_held_back(old);
    return old;
}

static void kill_and_be_led(int clients)
{
    int old = kill_master();

    trio_switched();
    until_led(clients, old);
}

/* ---- the master dies, the replicas have everything ---- */

CELL(master_killed__owner_kept)
{
    struct hold *A;
    uint64_t renewed;

    trio_set("");
    A = own_and_replicate(client_at("a", trio_url()));
    renewed = peer_stats(A->peer).renewed;
    kill_and_be_led(1);
    expect_kept(A, renewed);
}

/* A later request must be behind the waiter at the new master as well. Redisson's lock
 * has no queue: there the later request may get the lock first. */
CELL(master_killed__waiter_keeps_its_place_W1)
{
    bool queues = way->holder != LW_REDISSON;
    struct hold *A, *B, *later;

    trio_set("");
    A = own(patient_at("a"), LONG_MS);
    B = stand_behind(patient_at("b"), A, STAGE_WAIT_MS);
    trio_agree();
    kill_and_be_led(2);
    later = ask_to_hold(patient_at("c"), "L", STAGE_WAIT_MS, 0);
    wait_in_line(way->waiter == LW_MUTEX || !way->sibling ? 2 : 3);
    release_hold(A);
    UNTIL(B->result != PENDING || (!queues && later->result != PENDING));
    assert_true(!queues || later->result == PENDING);
    assert_true(!queues || B->fence > A->fence);
    free_hold(later);
    expect_W1(B);
}

CELL(master_killed__release_OK)
{
    struct hold *A;

    trio_set("");
    A = own_and_replicate(patient_at("a"));
    kill_master();
    UNTIL(!A->peer->up);
    release_hold(A);
    trio_switched();
    expect_released(A, LW_OK);
}

/* ---- the same without the last writes ---- */

CELL(master_killed_with_its_last_writes__owner_O2)
{
    struct hold *A;

    trio_set("");
    A = own_unheard(client_at("a", trio_url()), LONG_MS);
    kill_and_be_led(1);
    expect_O2(A);
}

CELL(master_killed_with_its_last_writes__owner_O1)
{
    struct hold *A;
    int64_t killed_ms;

    trio_set("");
    A = own_unheard(client_at("a", trio_url()), SHORT_MS);
    killed_ms = now_ms();
    kill_master();
    expect_O1(A, killed_ms, SHORT_MS);
}

/* The overlap is documented; the fencing tokens tell the two holds apart. */
CELL(master_killed_with_its_last_writes__waiter_W1_with_a_larger_fence)
{
    struct hold *A, *B;

    trio_set("");
    A = own_unheard(client_at("a", trio_url()), LONG_MS);
    B = stand_behind(client_at("b", trio_url()), A, STAGE_WAIT_MS);
    kill_and_be_led(2);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    assert_true(way->holder == LW_REDISSON || B->fence > A->fence);
    expect_W1(B);
}

CELL(master_killed_with_its_last_writes__release_ENOTHELD)
{
    struct hold *A;

    trio_set("");
    A = own_unheard(patient_at("a"), LONG_MS);
    kill_master();
    UNTIL(!A->peer->up);
    release_hold(A);
    trio_switched();
    expect_released(A, LW_ENOTHELD);
}

/* ---- the old master lives on ---- */

/* Stops the master until another server leads. */
static int stop_master(void)
{
    int old = trio_leader();

    server_pause(trio_master());
    trio_switched();
    return old;
}

/* Continues the old master, which accepts writes for a while; no client of ours may
 * come. */
static void thaw(int old)
{
    server_resume(trio_server(old));
    UNTIL(trio_info(old, "replication", "master_port:") >= 0);
    assert_int_equal(trio_clients(old), 0);
}

CELL(old_master_lives_on__owner_leaves_and_is_kept)
{
    struct hold *A;
    uint64_t renewed;
    int old;

    trio_set("");
    A = own_and_replicate(patient_at("a"));
    renewed = peer_stats(A->peer).renewed;
    old = stop_master();
    until_led(1, old);
    expect_kept(A, renewed);
    thaw(old);
    assert_int_equal(A->lost, PENDING);
    until_led(1, old);
}

CELL(old_master_lives_on__waiter_leaves_W1)
{
    struct hold *A, *B;
    int old;

    trio_set("");
    A = own(patient_at("a"), LONG_MS);
    B = stand_behind(patient_at("b"), A, STAGE_WAIT_MS);
    trio_agree();
    old = stop_master();
    until_led(2, old);
    server_resume(trio_server(old));
    release_hold(A);
    expect_W1(B);
    thaw(old);
}

/* A release that is sent to the silent master is sent again to the next one. The old one
 * executes it as well when it continues. */
CELL(old_master_lives_on__release_resent_OK)
{
    struct hold *A;
    int old;

    trio_set("");
    A = own_and_replicate(patient_at("a"));
    server_pause(trio_master());
    release_hold(A);
    stage_run_for(50);
    assert_int_equal(A->released, PENDING);
    old = trio_leader();
    trio_switched();
    expect_released(A, LW_OK);
    thaw(old);
}

/* The old master works; a replica was promoted by order, and the old master is the last
 * one to know. */
CELL(old_master_is_replaced_by_order__waiter_leaves_W1)
{
    struct hold *A, *B;
    int old;

    trio_set("");
    A = own(patient_at("a"), LONG_MS);
    B = stand_behind(patient_at("b"), A, STAGE_WAIT_MS);
    trio_freeze();
    old = trio_leader();
    trio_fail_over(1);
    trio_switched();
    until_led(2, old);
    release_hold(A);
    expect_W1(B);
}

/* ---- a detached lock; see rows_detached.c ---- */

#define KEEP_MS 60000 /* longer than a failover */

CELL(master_killed__adoption_OK)
{
    struct hold *A, *B, *D;

    trio_set("");
    A = own(patient_at("a"), LONG_MS);
    B = stand_behind(patient_at("b"), A, STAGE_WAIT_MS);
    leave_detached(A, KEEP_MS);
    trio_agree();
    kill_and_be_led(2);
    D = ask_to_adopt(patient_at("d"), A, STAGE_WAIT_MS, 0);
    expect_adopted(D, A);
    release_hold(D);
    expect_W1(B);
    assert_true(B->fence > D->fence);
}

CELL(master_killed_with_its_last_writes__adoption_ENOTHELD)
{
    struct hold *A, *B;

    trio_set("");
    A = own_unheard(client_at("a", trio_url()), LONG_MS);
    B = stand_behind(client_at("b", trio_url()), A, STAGE_WAIT_MS);
    leave_detached(A, KEEP_MS);
    kill_and_be_led(2);
    expect_not_adopted(ask_to_adopt(B->peer, A, STAGE_WAIT_MS, 0), LW_ENOTHELD);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

/* Both commands are sent to the silent master, and again to the next one. The old one
 * executes them when it continues. */
CELL(old_master_lives_on__detach_and_adoption_resent_OK)
{
    struct hold *A, *D;
    struct peer *d;
    int old;

    trio_set("");
    d = patient_at("d");
    A = own_and_replicate(patient_at("a"));
    server_pause(trio_master());
    detach_hold(A, KEEP_MS);
    D = ask_to_adopt(d, A, STAGE_WAIT_MS, 0);
    stage_run_for(50);
    assert_int_equal(A->released, PENDING);
    assert_int_equal(D->result, PENDING);
    old = trio_leader();
    trio_switched();
    UNTIL(A->released != PENDING);
    /* The adoption may be resent first: then the token is gone. */
    assert_true(A->released == LW_OK || A->released == LW_ENOTHELD);
    expect_adopted(D, A);
    thaw(old);
    assert_held_by_redis(D);
    release_hold(D);
    expect_released(D, LW_OK);
}

/* ---- all sentinels are away ---- */

CELL(sentinels_away__owner_keeps_its_link)
{
    struct hold *A;

    trio_set("");
    A = own(client_at("a", trio_url()), SHORT_MS);
    trio_sentinels_away(true);
    expect_kept(A, peer_stats(A->peer).renewed);
    expect_kept(A, peer_stats(A->peer).renewed);
    assert_int_equal(A->peer->downs, 0);
}

CELL(sentinels_away__owner_O1)
{
    struct hold *A;
    int64_t gone_ms;

    trio_set("");
    A = own(client_at("a", trio_url()), SHORT_MS);
    trio_sentinels_away(true);
    gone_ms = now_ms();
    server_pause(trio_master());
    expect_O1(A, gone_ms, SHORT_MS);
    server_resume(trio_master());
}

CELL(sentinels_away__waiter_W1)
{
    struct hold *A, *B;

    trio_set("");
    A = own(client_at("a", trio_url()), LONG_MS);
    B = stand_behind(client_at("b", trio_url()), A, STAGE_WAIT_MS);
    trio_sentinels_away(true);
    release_hold(A);
    expect_W1(B);
}

CELL(sentinels_away__waiter_W2)
{
    struct hold *A, *B;

    trio_set("");
    A = own(client_at("a", trio_url()), LONG_MS);
    B = stand_behind(client_at("b", trio_url()), A, 2000);
    trio_sentinels_away(true);
    server_kill(trio_master());
    expect_W2(B, 2000);
    peer_free(A->peer); /* lw_client_close would look for a master for a while */
    peer_free(B->peer);
}

CELL(sentinels_away__release_OK)
{
    struct hold *A;

    trio_set("");
    A = own(client_at("a", trio_url()), LONG_MS);
    trio_sentinels_away(true);
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- a setting of the servers that limits an old master ---- */

/* Returns how many writes of a foreign client the old master accepts from when it
 * continues until it is made a replica. */
static int writes_taken_by_the_thawed(int old)
{
    int taken = 0;

    server_resume(trio_server(old));
    while (trio_info(old, "replication", "master_port:") < 0) {
        taken += trio_takes(old, "SET stranger 1 PX 1000");
        stage_run_for(1);
    }
    return taken;
}

static int writes_taken(const char *args)
{
    int taken;

    trio_set(args);
    taken = writes_taken_by_the_thawed(stop_master());
    (void)fprintf(stderr, "%s: %d writes were taken by the thawed master\n", stage.test,
                  taken);
    return taken;
}

CELL(old_master_thaws__takes_writes)
{
    assert_true(writes_taken("") > 10);
}

CELL(old_master_that_wants_replicas_thaws__takes_one_write_at_most)
{
    assert_true(writes_taken("--min-replicas-to-write 1 --min-replicas-max-lag 2") <= 1);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(master_killed__owner_kept),
        PLAY(master_killed__waiter_keeps_its_place_W1),
        PLAY(master_killed__release_OK),
        PLAY(master_killed_with_its_last_writes__owner_O2),
        PLAY(master_killed_with_its_last_writes__owner_O1),
        PLAY(master_killed_with_its_last_writes__waiter_W1_with_a_larger_fence),
        PLAY(master_killed_with_its_last_writes__release_ENOTHELD),
        PLAY(old_master_lives_on__owner_leaves_and_is_kept),
        PLAY(old_master_lives_on__waiter_leaves_W1),
        PLAY(old_master_lives_on__release_resent_OK),
        PLAY(old_master_is_replaced_by_order__waiter_leaves_W1),
        PLAY_OURS(master_killed__adoption_OK),
        PLAY_OURS(master_killed_with_its_last_writes__adoption_ENOTHELD),
        PLAY_OURS(old_master_lives_on__detach_and_adoption_resent_OK),
        PLAY(sentinels_away__owner_keeps_its_link),
        PLAY(sentinels_away__owner_O1),
        PLAY(sentinels_away__waiter_W1),
        PLAY(sentinels_away__waiter_W2),
        PLAY(sentinels_away__release_OK),
        PLAY(old_master_thaws__takes_writes),
        PLAY(old_master_that_wants_replicas_thaws__takes_one_write_at_most),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, trio_open, trio_close);
}
