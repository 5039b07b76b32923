/* SPDX-License-Identifier: MIT */
/*
 * A row of the fault table: a server that is killed and keeps its data (append-only file,
 * fsync always). No client loses anything.
 *
 * Usual course of each cell: the scene, kill -9, a restart, and everything is as
 * before.
 */
#include "cells.h"

static int open_stage(void **state)
{
    stage_open(state);
    server_stop(&stage.server);
    server_start(&stage.server, "--appendonly yes --appendfsync always");
    return 0;
}

CELL(killed_with_aof__owner_kept)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    server_kill(&stage.server);
    server_restart(&stage.server);
    expect_kept(A, 0);
}

CELL(killed_with_aof__waiter_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    server_kill(&stage.server);
    server_restart(&stage.server);
    release_hold(A);
    expect_W1(B);
}

CELL(killed_with_aof__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    server_kill(&stage.server);
    UNTIL(!A->peer->up);
    release_hold(A);
    server_restart(&stage.server);
    expect_released(A, LW_OK);
}

/* ---- a detached lock; see rows_detached.c ---- */

#define KEEP_MS 20000
#define BRIEF_KEEP_MS 3000 /* longer than a restart */

CELL(killed_with_aof__adoption_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B, *D;
    struct peer *d = client_at("d", stage.server.url);

    leave_detached(A, KEEP_MS);
    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    server_kill(&stage.server);
    UNTIL(!d->up);
    expect_not_adopted(ask_to_adopt(d, A, 0, 0), LW_ECONN);
    D = ask_to_adopt(d, A, STAGE_WAIT_MS, 0);
    server_restart(&stage.server);
    expect_adopted(D, A);
    release_hold(D);
    expect_W1(B);
    assert_true(B->fence > D->fence);
}

CELL(killed_with_aof__detached_lock_ends_and_waiter_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;
    int64_t detached_ms;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    detached_ms = now_ms();
    leave_detached(A, BRIEF_KEEP_MS);
    server_kill(&stage.server);
    server_restart(&stage.server);
    expect_W1_after(B, detached_ms + BRIEF_KEEP_MS);
    assert_true(B->fence > A->fence);
}

CELL(killed_with_aof__detach_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *D;

    server_kill(&stage.server);
    UNTIL(!A->peer->up);
    detach_hold(A, KEEP_MS);
    server_restart(&stage.server);
    expect_released(A, LW_OK);
    D = ask_to_adopt(client_at("d", stage.server.url), A, 0, 0);
    expect_adopted(D, A);
    release_hold(D);
    expect_released(D, LW_OK);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(killed_with_aof__owner_kept),
        PLAY(killed_with_aof__waiter_W1),
        PLAY(killed_with_aof__release_OK),
        PLAY_OURS(killed_with_aof__adoption_OK),
        PLAY_OURS(killed_with_aof__detached_lock_ends_and_waiter_W1),
        PLAY_OURS(killed_with_aof__detach_OK),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, open_stage, stage_close);
}
