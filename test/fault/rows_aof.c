/* SPDX-License-Identifier: MIT */
/*
 * A row of the fault table: a server that is killed and keeps its data (append-only file,
 * fsync always) takes nothing from anybody.
 *
 * Happy path of each cell: the scene, kill -9, restart, as if nothing had been.
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
    let_go(A);
    expect_W1(B);
}

CELL(killed_with_aof__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    server_kill(&stage.server);
    UNTIL(!A->peer->up);
    let_go(A);
    server_restart(&stage.server);
    expect_released(A, LW_OK);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(killed_with_aof__owner_kept),
        PLAY(killed_with_aof__waiter_W1),
        PLAY(killed_with_aof__release_OK),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, open_stage, stage_close);
}
