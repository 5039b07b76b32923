/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a server that refuses a client: too many clients, a rotated
 * password, revoked permissions. Open connections are unaffected by the first two.
 *
 * Usual course of each cell: the scene, the refusal, and what is promised.
 */
#include "cells.h"

static struct peer *user(const char *label)
{
    struct peer *peer =
        peer_start(label, client_of(.username = "app", .password = "first",
                                    .local_turns = way->turns, .claim_ms = 1000,
                                    .request_timeout_ms = REQUEST_MS,
                                    .backoff_max_ms = 200, .close_timeout_ms = 2000));

    peer_wait_ready(peer);
    return peer;
}

static void make_user(void)
{
    redis_ok("ACL SETUSER app reset on >first +@all ~* &*");
}

static void rotate(void)
{
    redis_ok("ACL SETUSER app resetpass >second");
}

static void kill_links(const struct peer *peer)
{
    long long command = peer_link_id(peer, false);

    redis_ok("CLIENT KILL ID %lld", peer_link_id(peer, true));
    redis_ok("CLIENT KILL ID %lld", command);
}

/* ---- maxclients ---- */

static void fill_up(void)
{
    redis_ok("CONFIG SET maxclients 1");
}

static void empty_again(void)
{
    redis_ok("CONFIG SET maxclients 10000");
}

CELL(maxclients__owner_with_a_connection_unaffected)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    fill_up();
    expect_kept(A, peer_stats(A->peer).renewed);
    empty_again();
}

CELL(maxclients__owner_without_O1)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    fill_up();
    kill_links(A->peer);
    expect_O1(A, now_ms(), SHORT_MS);
    if (stage.server.tls_port == 0) { /* with TLS it closes without this error */
        assert_non_null(strstr(A->peer->whys, "max number of clients"));
    }
    empty_again();
}

CELL(maxclients__waiter_W2_backing_off)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, 2500);
    fill_up();
    kill_links(B->peer);
    expect_W2(B, 2500);
    assert_true(B->peer->downs < 100);
    empty_again();
}

CELL(maxclients__release_ECONN)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    fill_up();
    kill_links(A->peer);
    UNTIL(!A->peer->up);
    release_hold(A);
    expect_released(A, LW_ECONN);
    empty_again();
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

/* ---- the password ---- */

CELL(password_rotated__owner_with_a_connection_unaffected)
{
    struct hold *A;

    make_user();
    A = own(user("a"), SHORT_MS);
    rotate();
    expect_kept(A, peer_stats(A->peer).renewed);
}

CELL(password_rotated__owner_without_O1)
{
    struct hold *A;

    make_user();
    A = own(user("a"), SHORT_MS);
    rotate();
    kill_links(A->peer);
    expect_O1(A, now_ms(), SHORT_MS);
    assert_non_null(strstr(A->peer->whys, "WRONGPASS"));
    assert_null(strstr(A->peer->whys, "first"));
    assert_null(strstr(A->peer->log, "first"));
}

CELL(password_rotated__waiter_W2_backing_off)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    make_user();
    B = stand_behind(user("b"), A, 2500);
    rotate();
    kill_links(B->peer);
    expect_W2(B, 2500);
    assert_true(B->peer->downs < 100);
}

CELL(password_rotated_back__waiter_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    make_user();
    B = stand_behind(user("b"), A, STAGE_WAIT_MS);
    rotate();
    kill_links(B->peer);
    UNTIL(B->peer->downs > 2);
    make_user();
    release_hold(A);
    expect_W1(B);
}

CELL(password_rotated__release_EREDIS)
{
    struct hold *A;

    make_user();
    A = own(user("a"), LONG_MS);
    rotate();
    kill_links(A->peer);
    UNTIL(!A->peer->up);
    release_hold(A);
    expect_released(A, LW_EREDIS);
    make_user();
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

/* ---- permissions ---- */

CELL(permission_taken__owner_O1)
{
    struct hold *A;

    make_user();
    A = own(user("a"), SHORT_MS);
    redis_ok("ACL SETUSER app -@scripting -@write");
    expect_O1(A, now_ms(), SHORT_MS);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0); /* its lease expires */
}

CELL(permission_taken__waiter_EREDIS_at_once)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    make_user();
    B = stand_behind(user("b"), A, -1);
    redis_ok("ACL SETUSER app -@scripting -@write");
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_EREDIS);
    assert_non_null(strstr(lw_lock_errstr(B->lock), "NOPERM"));
    stage_clear_trace();
    release_hold(A); /* the entry that B may not remove costs a claim window */
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
    stage_clear_trace();
}

CELL(permission_taken__release_EREDIS)
{
    struct hold *A;

    make_user();
    A = own(user("a"), SHORT_MS);
    redis_ok("ACL SETUSER app -@scripting -@write");
    release_hold(A);
    expect_released(A, LW_EREDIS);
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0); /* its lease expires */
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(maxclients__owner_with_a_connection_unaffected),
        PLAY(maxclients__owner_without_O1),
        PLAY(maxclients__waiter_W2_backing_off),
        PLAY(maxclients__release_ECONN),
        PLAY(password_rotated__owner_with_a_connection_unaffected),
        PLAY(password_rotated__owner_without_O1),
        PLAY(password_rotated__waiter_W2_backing_off),
        PLAY(password_rotated_back__waiter_W1),
        PLAY(password_rotated__release_EREDIS),
        PLAY(permission_taken__owner_O1),
        PLAY(permission_taken__waiter_EREDIS_at_once),
        PLAY(permission_taken__release_EREDIS),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
