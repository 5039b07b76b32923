/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: faults of the server and its keys: killed and empty, stopped,
 * scripts flushed, keys deleted, stolen or evicted by each policy that evicts locks. The
 * server is real, and clients connect to it directly.
 *
 * Usual course of each cell: the scene, the fault, and what is promised.
 */
#include "cells.h"

static void restart_empty(void)
{
    server_kill(&stage.server);
    server_restart(&stage.server);
}

/* ---- killed and restarted empty ---- */

CELL(killed_and_empty__owner_O2)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    restart_empty();
    expect_O2(A);
}

CELL(killed_and_empty__waiter_W1)
{
    struct peer *a = client_at("a", stage.server.url);
    struct hold *A = own(a, LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    restart_empty();
    expect_W1(B);
}

/* If the release was never sent before, the reply of the empty server counts. */
CELL(killed_and_empty__release_first_sent_afterwards_ENOTHELD)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    server_kill(&stage.server);
    UNTIL(!A->peer->up);
    release_hold(A);
    server_restart(&stage.server);
    expect_released(A, LW_ENOTHELD);
}

/* A release that was passed to the connection before its end was noticed may have been
 * executed. If it is sent again before the deadline, the reply that the token does not
 * hold the lock counts as the effect of the first release. */
CELL(killed_and_empty__release_sent_again_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    restart_empty();
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- SIGSTOP ---- */

CELL(server_stopped__owner_O1)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    server_pause(&stage.server);
    expect_O1(A, now_ms(), SHORT_MS);
    server_resume(&stage.server);
}

CELL(server_stopped__waiter_W2)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, 2500);
    server_pause(&stage.server);
    expect_W2(B, 2500);
    server_resume(&stage.server);
}

CELL(server_stopped__release_EUNKNOWN)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    server_pause(&stage.server);
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
    server_resume(&stage.server);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0); /* it is retried in the background */
}

/* ---- SCRIPT FLUSH ---- */

CELL(script_flush__owner_unnoticed)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);
    uint64_t renewed = peer_stats(A->peer).renewed;

    UNTIL(peer_stats(A->peer).renewed > renewed);
    redis_ok("SCRIPT FLUSH");
    expect_kept(A, peer_stats(A->peer).renewed);
}

CELL(script_flush__waiter_unnoticed)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    redis_ok("SCRIPT FLUSH");
    release_hold(A);
    expect_W1(B);
}

CELL(script_flush__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    redis_ok("SCRIPT FLUSH");
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- the key is lost: FLUSHALL, DEL, another client's SET, eviction ---- */

static const char *const evicting[] = {"allkeys-lru", "allkeys-random", "volatile-lru",
                                       "volatile-ttl", "volatile-lfu"};
#define EVICTED 3 /* and above: evicted, by policy evicting[how - EVICTED] */

static void evict(const char *policy)
{
    redis_ok("CONFIG SET maxmemory-policy %s", policy);
    redis_ok("CONFIG SET maxmemory 1");
    freeReplyObject(server_try(&stage.server, "SET filler 1")); /* refused, but evicts */
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
    redis_ok("CONFIG SET maxmemory 0");
}

static void take_away(int how)
{
    if (how == 0) {
        redis_ok("FLUSHALL");
    } else if (how == 1) {
        redis_ok("DEL %s", key_of("x"));
    } else if (how == 2) {
        redis_ok("SET %s a-thief PX 1000", key_of("x"));
    } else {
        evict(evicting[how - EVICTED]);
    }
}

static void owner_of_a_key_that_goes(int how)
{
    struct hold *A = own(client_at("a", stage.server.url), 3000);
    int64_t since;

    take_away(how);
    since = now_ms();
    UNTIL(A->lost != PENDING);
    assert_int_equal(A->lost, LW_ENOTHELD);
    if (A->lost_ms - since > 3000 / 3 + late_ms()) {
        stage_fail("lost after %lld ms", (long long)(A->lost_ms - since));
    }
    stage_clear_trace();
    UNTIL(redis_int("EXISTS %s", key_of("x")) ==
          0); /* also a thief's, by its own lease */
}

static void waiter_for_a_key_that_goes(int how)
{
    struct hold *A = own(client_at("a", stage.server.url), 3000), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    take_away(how);
    expect_W1(B);
}

static void release_of_a_key_that_went(int how)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    take_away(how);
    release_hold(A);
    expect_released(A, LW_ENOTHELD);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

#define GOES(name, how)                                                                  \
    CELL(name##__owner_lost_within_a_renewal)                                            \
    {                                                                                    \
        owner_of_a_key_that_goes(how);                                                   \
    }                                                                                    \
    CELL(name##__waiter_W1)                                                              \
    {                                                                                    \
        waiter_for_a_key_that_goes(how);                                                 \
    }                                                                                    \
    CELL(name##__release_ENOTHELD)                                                       \
    {                                                                                    \
        release_of_a_key_that_went(how);                                                 \
    }
#define PLAY_GOES(name)                                                                  \
    PLAY(name##__owner_lost_within_a_renewal), PLAY(name##__waiter_W1),                  \
        PLAY(name##__release_ENOTHELD)

GOES(flushall, 0)
GOES(deleted, 1)
GOES(stolen, 2)
GOES(evicted_by_allkeys_lru, EVICTED)
GOES(evicted_by_allkeys_random, EVICTED + 1)
GOES(evicted_by_volatile_lru, EVICTED + 2)
GOES(evicted_by_volatile_ttl, EVICTED + 3)
GOES(evicted_by_volatile_lfu, EVICTED + 4)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(killed_and_empty__owner_O2),
        PLAY(killed_and_empty__waiter_W1),
        PLAY(killed_and_empty__release_first_sent_afterwards_ENOTHELD),
        PLAY(killed_and_empty__release_sent_again_OK),
        PLAY(server_stopped__owner_O1),
        PLAY(server_stopped__waiter_W2),
        PLAY(server_stopped__release_EUNKNOWN),
        PLAY(script_flush__owner_unnoticed),
        PLAY(script_flush__waiter_unnoticed),
        PLAY(script_flush__release_OK),
        PLAY_GOES(flushall),
        PLAY_GOES(deleted),
        PLAY_GOES(stolen),
        PLAY_GOES(evicted_by_allkeys_lru),
        PLAY_GOES(evicted_by_allkeys_random),
        PLAY_GOES(evicted_by_volatile_lru),
        PLAY_GOES(evicted_by_volatile_ttl),
        PLAY_GOES(evicted_by_volatile_lfu),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
