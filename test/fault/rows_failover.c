/* SPDX-License-Identifier: MIT */
/*
 * A row of the fault table: the master dies and its replica is promoted, at the same
 * address; with everything replicated, or without the last writes.
 *
 * Usual course of each cell: the scene at the master, promote(), and what is promised at
 * the new master.
 */
#include "cells.h"

static struct server replica;

static bool is_replicated(void)
{
    redisReply *reply = server_command(&replica, "INFO replication");
    bool yes = strstr(reply->str, "master_link_status:up") != NULL;

    freeReplyObject(reply);
    return yes;
}

/* Returns the TTL that `x` has at the replica, in ms; negative if it is not there. */
static long long ttl_at_replica(void)
{
    redisReply *reply = server_command(&replica, "PTTL %s", key_of("x"));
    long long ttl_ms = reply->integer;

    freeReplyObject(reply);
    return ttl_ms;
}

static void start_replica(void)
{
    int port = server_listen(&stage.server);

    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    server_start(&replica, NULL);
    freeReplyObject(server_command(&replica, "REPLICAOF 127.0.0.1 %d", port));
    UNTIL(is_replicated());
}

static void cut_off_replica(void)
{
    freeReplyObject(server_command(&replica, "REPLICAOF NO ONE"));
}

/* Promotes the replica, which replaces the master in the stage as well. */
static void promote(void)
{
    cut_off_replica();
    server_kill(&stage.server);
    server_succeed(&stage.server, &replica);
}

static struct hold *own_and_replicate(void)
{
    struct hold *A;

    start_replica();
    A = own(client_at("a", stage.server.url), LONG_MS);
    UNTIL(ttl_at_replica() > 0);
    return A;
}

static struct hold *own_without_replica(void)
{
    start_replica();
    cut_off_replica();
    return own(client_at("a", stage.server.url), LONG_MS);
}

CELL(promoted_with_all_writes__owner_kept)
{
    struct hold *A = own_and_replicate();

    promote();
    expect_kept(A, 0);
}

CELL(promoted_with_all_writes__waiter_W1)
{
    struct hold *A = own_and_replicate(), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    promote();
    UNTIL(A->peer->downs > 0);
    release_hold(A);
    expect_W1(B);
}

CELL(promoted_with_all_writes__release_OK)
{
    struct hold *A = own_and_replicate();

    promote();
    UNTIL(A->peer->downs > 0);
    release_hold(A);
    expect_released(A, LW_OK);
}

CELL(promoted_without_the_last_writes__owner_O2)
{
    struct hold *A = own_without_replica();

    promote();
    expect_O2(A);
}

/* The overlap is documented; the fencing tokens tell the two holds apart. */
CELL(promoted_without_the_last_writes__waiter_W1_with_a_larger_fence)
{
    struct hold *A = own_without_replica(), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    promote();
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    if (way->holder != LW_REDISSON) {
        assert_true(B->fence > A->fence);
    }
    expect_W1(B);
}

CELL(promoted_without_the_last_writes__release_ENOTHELD)
{
    struct hold *A = own_without_replica();

    server_kill(&stage.server);
    UNTIL(!A->peer->up);
    release_hold(A);
    server_restart(&stage.server);
    promote();
    expect_released(A, LW_ENOTHELD);
}

/* ---- a detached lock; see rows_detached.c ---- */

#define KEEP_MS 20000
#define BRIEF_KEEP_MS 3000 /* longer than a promotion */

static void detach_and_replicate(struct hold *owner, uint32_t keep_ms)
{
    leave_detached(owner, keep_ms);
    UNTIL(ttl_at_replica() <= (long long)keep_ms);
}

static struct hold *adopt_after_promotion(struct hold *owner)
{
    UNTIL(owner->peer->downs > 0);
    return ask_to_adopt(client_at("d", stage.server.url), owner, STAGE_WAIT_MS, 0);
}

CELL(promoted_with_all_writes__adoption_OK)
{
    struct hold *A = own_and_replicate(), *B, *D;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    detach_and_replicate(A, KEEP_MS);
    promote();
    D = adopt_after_promotion(A);
    expect_adopted(D, A);
    release_hold(D);
    expect_W1(B);
    assert_true(B->fence > D->fence);
}

CELL(promoted_with_all_writes__detached_lock_ends_and_waiter_W1)
{
    struct hold *A = own_and_replicate(), *B;
    int64_t detached_ms;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    detached_ms = now_ms();
    detach_and_replicate(A, BRIEF_KEEP_MS);
    promote();
    expect_W1_after(B, detached_ms + BRIEF_KEEP_MS);
    assert_true(B->fence > A->fence);
}

/* The replica has the lock, with the lease from before the detach. */
CELL(promoted_without_the_detach__adoption_OK)
{
    struct hold *A = own_and_replicate(), *D;

    cut_off_replica();
    leave_detached(A, KEEP_MS);
    promote();
    D = adopt_after_promotion(A);
    expect_adopted(D, A);
    release_hold(D);
    expect_released(D, LW_OK);
}

CELL(promoted_without_the_last_writes__adoption_ENOTHELD)
{
    struct hold *A = own_without_replica(), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    leave_detached(A, KEEP_MS);
    promote();
    expect_not_adopted(adopt_after_promotion(A), LW_ENOTHELD);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(promoted_with_all_writes__owner_kept),
        PLAY(promoted_with_all_writes__waiter_W1),
        PLAY(promoted_with_all_writes__release_OK),
        PLAY(promoted_without_the_last_writes__owner_O2),
        PLAY(promoted_without_the_last_writes__waiter_W1_with_a_larger_fence),
        PLAY(promoted_without_the_last_writes__release_ENOTHELD),
        PLAY_OURS(promoted_with_all_writes__adoption_OK),
        PLAY_OURS(promoted_with_all_writes__detached_lock_ends_and_waiter_W1),
        PLAY_OURS(promoted_without_the_detach__adoption_OK),
        PLAY_OURS(promoted_without_the_last_writes__adoption_ENOTHELD),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
