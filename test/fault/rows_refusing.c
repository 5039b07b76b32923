/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a server that refuses commands on open connections: out of
 * memory, too few replicas, unable to save (MISCONF), demoted to a replica, paused for
 * writes, busy with an endless script. The server is real; it cannot create its dump
 * file, so that every save fails.
 *
 * Usual course of each cell: the scene, begin(), what is promised, end().
 */
#include "cells.h"

#include <stdio.h>
#include <sys/stat.h>

#define WHILE_MS 300 /* well within a lease */

/* Creates a directory at the path of the dump file. */
static int open_stage(void **state)
{
    char path[sizeof(stage.server.process.dir) + 16];

    stage_open(state);
    (void)snprintf(path, sizeof(path), "%s/dump.rdb", stage.server.process.dir);
    return mkdir(path, 0700);
}

/* ---- out of memory, noeviction ---- */

CELL(out_of_memory__owner_renews)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    redis_ok("CONFIG SET maxmemory 1");
    expect_kept(A, peer_stats(A->peer).renewed);
    expect_kept(A, peer_stats(A->peer).renewed);
    redis_ok("CONFIG SET maxmemory 0");
}

CELL(out_of_memory__waiter_W2)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, 2000);
    redis_ok("CONFIG SET maxmemory 1");
    expect_W2(B, 2000);
    redis_ok("CONFIG SET maxmemory 0");
}

CELL(out_of_memory__release_OK)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    redis_ok("CONFIG SET maxmemory 1");
    release_hold(A);
    expect_released(A, LW_OK);
    redis_ok("CONFIG SET maxmemory 0");
}

/* ---- NOREPLICAS: not even PEXPIRE and DEL are allowed ---- */

static void want_replicas(void)
{
    redis_ok("CONFIG SET min-replicas-to-write 1");
}

static void want_no_replicas(void)
{
    redis_ok("CONFIG SET min-replicas-to-write 0");
}

/* ---- MISCONF: PEXPIRE and DEL are not allowed either ---- */

static void fail_to_save(void)
{
    redis_ok("CONFIG SET save %s", "3600 1000000");
    redis_ok("BGSAVE");
    UNTIL(strstr(redis_text("INFO persistence"), "rdb_last_bgsave_status:err") != NULL &&
          redis_info("rdb_bgsave_in_progress") == 0);
}

static void save_no_more(void)
{
    redis_ok("CONFIG SET save %b", "", (size_t)0);
}

/* ---- READONLY ---- */

static void demote(void)
{
    redis_ok("REPLICAOF 127.0.0.1 1");
}

static void promote(void)
{
    redis_ok("REPLICAOF NO ONE");
}

/* ---- CLIENT PAUSE WRITE: no replies, but connections stay open ---- */

static void pause_writes(void)
{
    redis_ok("CLIENT PAUSE 60000 WRITE");
}

static void go_on(void)
{
    redis_ok("CLIENT UNPAUSE");
}

/* ---- BUSY: even PING is refused ---- */

static redisContext *hog;

static bool is_busy(void)
{
    redisReply *reply = server_try(&stage.server, "PING");
    bool busy = reply->type == REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return busy;
}

static void run_without_end(void)
{
    int written = 0;

    redis_ok("CONFIG SET lua-time-limit 20");
    hog = redisConnectUnix(stage.server.path);
    if (hog == NULL ||
        redisAppendCommand(hog, "EVAL %s 0", "while true do end") != REDIS_OK) {
        stage_fail("no connection");
    }
    while (!written && redisBufferWrite(hog, &written) == REDIS_OK) {
        ;
    }
    UNTIL(is_busy());
}

static void kill_script(void)
{
    redis_ok("SCRIPT KILL");
    UNTIL(!is_busy());
    redisFree(hog);
}

/* ---- what all of these promise ---- */

/* `outcome` is EUNKNOWN if the server does not reply at all, else ECONN. */
#define REFUSAL(name, begin, end, outcome)                                               \
    CELL(name##__owner_O1)                                                               \
    {                                                                                    \
        struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);                \
                                                                                         \
        begin();                                                                         \
        expect_O1(A, now_ms(), SHORT_MS);                                                \
        end();                                                                           \
    }                                                                                    \
    CELL(name##__owner_kept_if_it_ends_in_time)                                          \
    {                                                                                    \
        struct hold *A = own(client_at("a", stage.server.url), 6000);                    \
                                                                                         \
        begin();                                                                         \
        renew_hold(A, 0);                                                                \
        stage_run_for(WHILE_MS);                                                         \
        end();                                                                           \
        expect_kept(A, peer_stats(A->peer).renewed);                                     \
        stage_clear_trace();                                                             \
    }                                                                                    \
    CELL(name##__waiter_W2)                                                              \
    {                                                                                    \
        struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;             \
                                                                                         \
        B = stand_behind(client_at("b", stage.server.url), A, 2000);                     \
        begin();                                                                         \
        expect_W2(B, 2000);                                                              \
        end();                                                                           \
    }                                                                                    \
    CELL(name##__waiter_W1_when_it_ends)                                                 \
    {                                                                                    \
        struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;             \
                                                                                         \
        B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);            \
        begin();                                                                         \
        stage_run_for(WHILE_MS);                                                         \
        end();                                                                           \
        release_hold(A);                                                                 \
        expect_W1(B);                                                                    \
    }                                                                                    \
    CELL(name##__release_##outcome)                                                      \
    {                                                                                    \
        struct hold *A = own(client_at("a", stage.server.url), LONG_MS);                 \
                                                                                         \
        begin();                                                                         \
        release_hold(A);                                                                 \
        expect_released(A, LW_##outcome);                                                \
        end();                                                                           \
        UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);                                 \
    }
#define PLAY_REFUSAL(name, outcome)                                                      \
    PLAY(name##__owner_O1), PLAY(name##__owner_kept_if_it_ends_in_time),                 \
        PLAY(name##__waiter_W2), PLAY(name##__waiter_W1_when_it_ends),                   \
        PLAY(name##__release_##outcome)

REFUSAL(noreplicas, want_replicas, want_no_replicas, ECONN)
REFUSAL(misconf, fail_to_save, save_no_more, ECONN)
REFUSAL(demoted, demote, promote, ECONN)
REFUSAL(paused_for_writes, pause_writes, go_on, EUNKNOWN)
REFUSAL(busy, run_without_end, kill_script, ECONN)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(out_of_memory__owner_renews),
        PLAY(out_of_memory__waiter_W2),
        PLAY(out_of_memory__release_OK),
        PLAY_REFUSAL(noreplicas, ECONN),
        PLAY_REFUSAL(misconf, ECONN),
        PLAY_REFUSAL(demoted, ECONN),
        PLAY_REFUSAL(paused_for_writes, EUNKNOWN),
        PLAY_REFUSAL(busy, ECONN),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, open_stage, stage_close);
}
