/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: faults of our own process: stalled or stopped for longer than
 * the lease, forked, and handles and clients freed while something is broken.
 *
 * Usual course of each cell: the scene, the fault, and what is promised.
 */
#include "cells.h"
#include "process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the loop stalled, the process stopped ---- */

CELL(stalled_past_the_lease__owner_lost_first)
{
    struct hold *A = own(client_at("a", stage.server.url), 600);

    renew_hold(A, 0);
    stage_stall(900);
    EXPECT("A lost ELOST; A renewed ELOST");
}

CELL(stalled_past_the_lease__waiter_late_grant_is_given_back)
{
    struct peer *a = client_at("a", stage.server.url);
    struct hold *B = ask_to_wait(a, "B", 400, 60000);

    event_base_loop(stage.base, EVLOOP_NONBLOCK); /* the request is sent */
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 1 || B->result != PENDING);
    if (B->result != PENDING) { /* granted at once: nothing was late */
        assert_int_equal(B->result, LW_OK);
        stage_clear_trace();
        return;
    }
    stage_stall(600);
    EXPECT("B ETIMEOUT");
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

CELL(stalled_past_the_lease__release_ENOTHELD)
{
    struct hold *A = own(client_at("a", stage.server.url), 600);

    stage_stall(900);
    release_hold(A);
    expect_released(A, LW_ENOTHELD);
}

CELL(process_stopped__owner_lost_first_and_the_fence_protects)
{
    struct peer *b = client_at("b", stage.server.url);
    struct process *p = process_start("P", client_of(.local_turns = way->turns));
    struct hold *B;

    process_tell(p, "acquire A x -1 1000 %s", way->words);
    EXPECT("P: A granted");
    process_signal(p, SIGSTOP);
    B = ask_to_wait(b, "B", -1, 0);
    EXPECT("B granted");
    if (way->holder != LW_REDISSON) {
        assert_true(B->fence > p->fence);
    }
    process_signal(p, SIGCONT);
    EXPECT("P: A lost ELOST");
    assert_held_by_redis(B);
}

CELL(process_stopped__waiter_late_grant_is_released)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);
    struct process *p = process_start("P", client_of(.local_turns = way->turns));
    int64_t asked = now_ms();

    process_tell(p, "acquire W x 1500 30000 %s", way->waiter_words);
    wait_in_line(1);
    process_signal(p, SIGSTOP);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(now_ms() > asked + 1600); /* W has timed out, but its claim window is open */
    process_signal(p, SIGCONT);
    EXPECT("P: W ETIMEOUT");
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

/* ---- fork ---- */

/* In the child the lock counts as not held, and lock and client may only be freed. */
static void fork_and_free(struct hold *hold, int release_status)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(60);
        int result = lw_release(hold->lock, NULL, NULL);
        int64_t left = lw_lock_remaining_ms(hold->lock);
        lw_lock_free(hold->lock);
        lw_client_free(hold->peer->client);
        _exit(result == release_status && left == 0 ? 0 : 1);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

CELL(fork__owner_unaffected)
{
    struct hold *A = own(client_at("a", stage.server.url), SHORT_MS);

    fork_and_free(A, LW_ECLOSED);
    expect_kept(A, peer_stats(A->peer).renewed);
    expect_kept(A, peer_stats(A->peer).renewed);
    assert_int_equal(A->peer->downs, 0);
}

CELL(fork__waiter_unaffected)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;

    B = stand_behind(client_at("b", stage.server.url), A, STAGE_WAIT_MS);
    fork_and_free(B, LW_ECLOSED);
    release_hold(A);
    expect_W1(B);
    assert_int_equal(B->peer->downs, 0);
}

CELL(fork__release_OK_in_the_parent)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS);

    fork_and_free(A, LW_ECLOSED);
    release_hold(A);
    expect_released(A, LW_OK);
}

/* ---- freed at every step of a fault: no callback follows ---- */

enum fault { STOPPED, KILLED, CUT, HOLE, SLOW, REFUSING, FLUSHED };

static void strike(enum fault fault, struct proxy *proxy, bool on)
{
    if (fault == STOPPED) {
        on ? server_pause(&stage.server) : server_resume(&stage.server);
    } else if (fault == KILLED) {
        on ? server_kill(&stage.server) : server_restart(&stage.server);
    } else if (fault == HOLE) {
        proxy_black_hole(proxy, on);
    } else if (fault == SLOW) {
        proxy_delay(proxy, COMMANDS, TO_CLIENT, on ? 300 : 0);
    } else if (fault == REFUSING) {
        redis_ok("CONFIG SET min-replicas-to-write %d", on);
    } else if (fault == FLUSHED && on) {
        redis_ok("FLUSHALL");
    }
    if (fault == CUT || (fault == HOLE && !on)) {
        proxy_cut(proxy, COMMANDS);
        proxy_cut(proxy, SUBSCRIPTION);
    }
}

/* Frees the locks or the clients after `step` turns of the loop. There are four turns
 * after each of three stages of the fault. players.h checks that no callback follows. */
static void free_at(enum fault fault, int step, bool client)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = client_at("a", proxy->url), *b = client_at("b", proxy->url);
    struct hold *A = own(a, 800), *B = stand_behind(b, A, STAGE_WAIT_MS);
    int at = 0;

    for (int stage_number = 0; stage_number < 3; stage_number++) {
        if (stage_number == 0) {
            strike(fault, proxy, true);
        } else if (stage_number == 1 && A->lock != NULL &&
                   lw_lock_state(A->lock) == LW_HELD) {
            release_hold(A);
        } else if (stage_number == 2) {
            strike(fault, proxy, false);
        }
        for (int i = 0; i < 4; i++, at++) {
            if (at == step && client) {
                peer_free(a);
                peer_free(b);
            } else if (at == step) {
                free_hold(A);
                free_hold(B);
                if (B->aim != NULL) {
                    free_hold(B->aim);
                }
            }
            event_base_loop(stage.base, EVLOOP_ONCE);
        }
    }
    if (!client) {
        UNTIL(redis_int("EXISTS %s", key_of("x")) ==
              0); /* the freed locks are released */
    }
    stage_run_for(100);
    for (struct peer *peer = a; peer != NULL; peer = peer == a ? b : NULL) {
        peer_free(peer);
    }
    UNTIL(event_base_get_num_events(stage.base, EVENT_BASE_COUNT_ADDED) <= 1 + 1);
    proxy_stop(proxy);
    if (client) {
        redis_ok("FLUSHALL"); /* a freed client's lock stays for its lease */
    }
    stage_clear_trace();
}

static void free_at_every_step(enum fault fault, bool client)
{
    for (int step = 0; step < 12; step += smoke ? 3 : 1) {
        free_at(fault, step, client);
    }
}

#define SILENT(name, fault)                                                              \
    CELL(name##__freed_locks_are_silent)                                                 \
    {                                                                                    \
        free_at_every_step(fault, false);                                                \
    }                                                                                    \
    CELL(name##__freed_clients_are_silent)                                               \
    {                                                                                    \
        free_at_every_step(fault, true);                                                 \
    }
#define PLAY_SILENT(name)                                                                \
    PLAY(name##__freed_locks_are_silent), PLAY(name##__freed_clients_are_silent)

SILENT(server_stopped, STOPPED)
SILENT(killed_and_empty, KILLED)
SILENT(reset, CUT)
SILENT(black_hole, HOLE)
SILENT(slow, SLOW)
SILENT(noreplicas, REFUSING)
SILENT(flushall, FLUSHED)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(stalled_past_the_lease__owner_lost_first),
        PLAY(stalled_past_the_lease__waiter_late_grant_is_given_back),
        PLAY(stalled_past_the_lease__release_ENOTHELD),
        PLAY(process_stopped__owner_lost_first_and_the_fence_protects),
        PLAY(process_stopped__waiter_late_grant_is_released),
        PLAY(fork__owner_unaffected),
        PLAY(fork__waiter_unaffected),
        PLAY(fork__release_OK_in_the_parent),
        PLAY_SILENT(server_stopped),
        PLAY_SILENT(killed_and_empty),
        PLAY_SILENT(reset),
        PLAY_SILENT(black_hole),
        PLAY_SILENT(slow),
        PLAY_SILENT(noreplicas),
        PLAY_SILENT(flushall),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
