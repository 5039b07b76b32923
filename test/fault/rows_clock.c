/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: wall clocks that jump, by a small preload: the server's, or
 * our own (then this program runs itself again, preloaded). The first argument is
 * "server" or "own". LOCKWIRE_CLOCK_PRELOAD in the environment is the preload's path.
 *
 * Usual course of each cell: the scene, jump(), and what is promised.
 */
#include "cells.h"
#include "clocks.h"

#include <time.h>
#include <unistd.h>

#define LEASE_MS 6000

static void jump(int64_t by)
{
    int64_t before = clock_of(&stage.server);

    *clock_seconds += by;
    UNTIL(by > 0 ? clock_of(&stage.server) >= before + by
                 : clock_of(&stage.server) < before);
}

/* ---- the server's clock ---- */

CELL(server_clock_ahead__owner_lost_within_a_renewal)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS);
    int64_t since = now_ms();

    jump(60);
    UNTIL(A->lost != PENDING);
    assert_int_equal(A->lost, LW_ENOTHELD);
    if (A->lost_ms - since > LEASE_MS / 3 + late_ms()) {
        stage_fail("lost after %lld ms", (long long)(A->lost_ms - since));
    }
    stage_clear_trace();
}

CELL(server_clock_ahead__waiter_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    jump(60);
    expect_W1(B);
}

CELL(server_clock_ahead__release_ENOTHELD)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS);

    jump(60);
    release_hold(A);
    expect_released(A, LW_ENOTHELD);
}

CELL(server_clock_behind__owner_kept)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS);

    jump(-60);
    expect_kept(A, peer_stats(A->peer).renewed);
}

/* A dead owner's lock lives longer; the waiter still gets it when it is free. */
CELL(server_clock_behind__waiter_late_expiry_then_W1)
{
    struct peer *b = client_at("b", stage.server.url);
    struct hold *B;

    redis_ok("SET %s a-dead-owner PX 1000", key_of("x"));
    B = stand_behind(b, NULL, STAGE_WAIT_MS);
    jump(-60);
    stage_expect_nothing(1500);
    jump(60);
    expect_W1(B);
}

/* A hand-over across a jump is not trusted by arithmetic alone. */
CELL(server_clock_behind__waiter_handed_the_lock_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    jump(-60);
    release_hold(A);
    expect_W1(B);
}

CELL(server_clock_behind__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LEASE_MS);

    jump(-60);
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- our own clock ---- */

static int open_own_stage(void **state)
{
    clocks_of_children(false);
    return stage_open(state);
}

static void own_jump(int64_t by)
{
    time_t before = time(NULL);

    *clock_seconds += by;
    assert_int_in_range(time(NULL) - before - by + 10, 0, 20);
}

static void owner_with_own_jump(int64_t by)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    own_jump(by);
    expect_kept(A, peer_stats(A->peer).renewed);
    expect_kept(A, peer_stats(A->peer).renewed);
    assert_true(lw_lock_remaining_ms(A->lock) <= SHORT_MS);
    assert_int_equal(A->peer->downs, 0);
}

static void waiter_with_own_jump(int64_t by)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    own_jump(by);
    stage_expect_nothing(100);
    release_hold(A);
    expect_W1(B);
}

static void release_with_own_jump(int64_t by)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    own_jump(by);
    release_hold(A);
    expect_released(A, LW_OK);
}

CELL(own_clock_ahead__owner_none)
{
    owner_with_own_jump(3600);
}
CELL(own_clock_ahead__waiter_none)
{
    waiter_with_own_jump(3600);
}
CELL(own_clock_ahead__release_OK)
{
    release_with_own_jump(3600);
}
CELL(own_clock_behind__owner_none)
{
    owner_with_own_jump(-3600);
}
CELL(own_clock_behind__waiter_none)
{
    waiter_with_own_jump(-3600);
}
CELL(own_clock_behind__release_OK)
{
    release_with_own_jump(-3600);
}

static int run_own(char **argv)
{
    static const struct cell cells[] = {
        PLAY(own_clock_ahead__owner_none),   PLAY(own_clock_ahead__waiter_none),
        PLAY(own_clock_ahead__release_OK),   PLAY(own_clock_behind__owner_none),
        PLAY(own_clock_behind__waiter_none), PLAY(own_clock_behind__release_OK),
    };
    bool preloaded = getenv("LOCKWIRE_TEST_CLOCK") != NULL;

    clocks_open();
    if (!preloaded) {
        clocks_of_children(true);
        execv("/proc/self/exe", argv);
        return 127;
    }
    return CELLS_RUN(cells, argv + 2, open_own_stage, clocks_close_stage);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(server_clock_ahead__owner_lost_within_a_renewal),
        PLAY(server_clock_ahead__waiter_W1),
        PLAY(server_clock_ahead__release_ENOTHELD),
        PLAY(server_clock_behind__owner_kept),
        PLAY(server_clock_behind__waiter_late_expiry_then_W1),
        PLAY(server_clock_behind__waiter_handed_the_lock_W1),
        PLAY(server_clock_behind__release_OK),
    };

    if (argc < 2) {
        return 64;
    }
    if (strcmp(argv[1], "own") == 0) {
        return run_own(argv);
    }
    return CELLS_RUN(cells, argv + 2, clocks_open_stage, clocks_close_stage);
}
