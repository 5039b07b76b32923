/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: faults between client and server: reset, black hole,
 * half-open, slow, without notifications, links killed by the server. The client in
 * question connects through a proxy.
 *
 * Usual course of each cell: the scene, the fault, and what is promised.
 */
#include "cells.h"
#include "known.h"

static struct proxy *proxy;

static struct peer *behind_proxy(const char *label)
{
    proxy = proxy_start(stage.server.path, true);
    return client_at(label, proxy->url);
}

/* Has A hold the lock, without a proxy. Returns B, which waits behind the proxy. */
static struct hold *wait_behind_proxy(struct hold **ret_holder, int64_t wait_ms)
{
    struct peer *b = behind_proxy("b");

    *ret_holder = own(client_at("a", stage.server.url), LONG_MS);
    return stand_behind(b, *ret_holder, wait_ms);
}

static void cut_both(void)
{
    proxy_cut(proxy, COMMANDS);
    proxy_cut(proxy, SUBSCRIPTION);
}

/* ---- reset ---- */

CELL(reset__owner_O2)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    redis_ok("DEL %s", key_of("x"));
    cut_both();
    expect_O2(A);
}

CELL(reset__owner_kept_if_it_is_still_there)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    cut_both();
    expect_kept(A, 0);
}

CELL(reset__waiter_W1)
{
    struct hold *A, *B = wait_behind_proxy(&A, STAGE_WAIT_MS);

    cut_both();
    release_hold(A);
    expect_W1(B);
}

CELL(reset__release_OK_though_sent_again)
{
    struct peer *a = behind_proxy("a");
    struct hold *A;

    make_scripts_known();
    A = own(a, LONG_MS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    release_hold(A);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    expect_released(A, LW_OK);
}

/* ---- black hole, and half of it ---- */

CELL(black_hole__owner_O1)
{
    struct hold *A = own(behind_proxy("a"), 3000);

    proxy_black_hole(proxy, true);
    int64_t since = now_ms();
    UNTIL(!A->peer->up); /* by the request time-out, before the lease expires */
    stage_skip_if_lag(500);
    assert_int_equal(A->lost, PENDING);
    expect_O1(A, since, 3000);
    proxy_black_hole(proxy, false);
    cut_both();
}

CELL(black_hole__waiter_W2)
{
    struct hold *A, *B = wait_behind_proxy(&A, 2500);

    proxy_black_hole(proxy, true);
    expect_W2(B, 2500);
    proxy_black_hole(proxy, false);
    cut_both();
}

CELL(black_hole__release_EUNKNOWN)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    proxy_black_hole(proxy, true);
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
    proxy_black_hole(proxy, false);
    cut_both();
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

CELL(half_open__owner_O1)
{
    struct hold *A = own(behind_proxy("a"), SHORT_MS);

    proxy_swallow(proxy, COMMANDS, TO_SERVER, true);
    expect_O1(A, now_ms(), SHORT_MS);
    proxy_swallow(proxy, COMMANDS, TO_SERVER, false);
    cut_both();
}

CELL(half_open__waiter_W2)
{
    struct hold *A, *B = wait_behind_proxy(&A, 2500);

    proxy_swallow(proxy, COMMANDS, TO_SERVER, true);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    expect_W2(B, 2500);
    proxy_black_hole(proxy, false);
    cut_both();
}

CELL(half_open__release_EUNKNOWN)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    proxy_swallow(proxy, COMMANDS, TO_SERVER, true);
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
    proxy_swallow(proxy, COMMANDS, TO_SERVER, false);
    cut_both();
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

/* ---- slow: more than a third of the lease, then more than all of it ---- */

CELL(slow__owner_never_falsely_held_then_O1)
{
    struct hold *A = own(behind_proxy("a"), 1200);

    proxy_delay(proxy, COMMANDS, TO_CLIENT, 500);
    for (int64_t end = now_ms() + 2500; now_ms() < end && A->lost == PENDING;) {
        stage_run_for(20);
        if (A->lost == PENDING && lw_lock_remaining_ms(A->lock) > 0) {
            assert_held_by_redis(A);
        }
    }
    proxy_delay(proxy, COMMANDS, TO_SERVER, 1500);
    expect_O1(A, now_ms(), 1200);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
    proxy_delay(proxy, COMMANDS, TO_SERVER, 0);
}

CELL(slow__waiter_late_grant_is_discarded)
{
    struct peer *b = behind_proxy("b");
    struct hold *B;

    proxy_delay(proxy, COMMANDS, TO_CLIENT, 600);
    B = ask_to_wait(b, "B", 2500, 400);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_ETIMEOUT); /* each reply comes after its lease */
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
    stage_clear_trace();
}

CELL(slow__release_OK)
{
    struct peer *a = behind_proxy("a");
    struct hold *A;

    make_scripts_known();
    A = own(a, 1200);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 500);
    release_hold(A);
    expect_released(A, LW_OK);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
}

CELL(slower_than_a_request_may_take__release_EUNKNOWN)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    proxy_delay(proxy, COMMANDS, TO_CLIENT, REQUEST_MS + 500);
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

/* ---- notifications lost, the subscriber cut off, either link killed ---- */

CELL(notifications_lost__waiter_W1)
{
    struct hold *A, *B = wait_behind_proxy(&A, STAGE_WAIT_MS);

    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(A);
    expect_W1(B);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

CELL(notifications_lost__release_OK)
{
    struct hold *A = own(behind_proxy("a"), LONG_MS);

    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(A);
    expect_released(A, LW_OK);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

static void kill_link(struct peer *peer, bool subscription)
{
    redis_ok("CLIENT KILL ID %lld", peer_link_id(peer, subscription));
}

static void waiter_whose_link_is_killed(bool subscription)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    kill_link(B->peer, subscription);
    release_hold(A);
    expect_W1(B);
}

CELL(subscriber_killed__waiter_W1)
{
    waiter_whose_link_is_killed(true);
}
CELL(command_link_killed__waiter_W1)
{
    waiter_whose_link_is_killed(false);
}

CELL(command_link_killed__owner_O2)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);
    long long id = peer_link_id(A->peer, false);

    redis_ok("DEL %s", key_of("x"));
    redis_ok("CLIENT KILL ID %lld", id);
    expect_O2(A);
}

CELL(command_link_killed__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    kill_link(A->peer, false);
    release_hold(A);
    expect_released(A, LW_OK);
}

CELL(subscriber_killed__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    kill_link(A->peer, true);
    release_hold(A);
    expect_released(A, LW_OK);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(reset__owner_O2),
        PLAY(reset__owner_kept_if_it_is_still_there),
        PLAY(reset__waiter_W1),
        PLAY(reset__release_OK_though_sent_again),
        PLAY(black_hole__owner_O1),
        PLAY(black_hole__waiter_W2),
        PLAY(black_hole__release_EUNKNOWN),
        PLAY(half_open__owner_O1),
        PLAY(half_open__waiter_W2),
        PLAY(half_open__release_EUNKNOWN),
        PLAY(slow__owner_never_falsely_held_then_O1),
        PLAY(slow__waiter_late_grant_is_discarded),
        PLAY(slow__release_OK),
        PLAY(slower_than_a_request_may_take__release_EUNKNOWN),
        PLAY(notifications_lost__waiter_W1),
        PLAY(notifications_lost__release_OK),
        PLAY(subscriber_killed__waiter_W1),
        PLAY(command_link_killed__waiter_W1),
        PLAY(command_link_killed__owner_O2),
        PLAY(command_link_killed__release_OK),
        PLAY(subscriber_killed__release_OK),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
