/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a lock that its owner detaches and another client adopts,
 * while links, the server or one of the processes fail. In each cell A detaches, B waits,
 * D adopts. A restart that keeps the data is in rows_aof.c, a failover in
 * rows_failover.c, rows_servers.c and rows_sentinels.c, a slot that moves in
 * rows_cluster.c.
 *
 * The promises: at most one holder; a lock that the server does not lose stays
 * detached for at least keep_ms; a detach or an adoption that is sent twice has the
 * effect of one; each fencing token is larger than the last one; the waiter gets the
 * lock when keep_ms has passed (W1); and an adopter gets LW_ENOTHELD if the token no
 * longer holds the lock.
 */
#include "cells.h"
#include "known.h"
#include "process.h"

#include <signal.h>

#define KEEP_MS 20000      /* longer than any cell */
#define BRIEF_KEEP_MS 1500 /* so that it passes */

static struct proxy *proxy;

static struct peer *behind_proxy(const char *label)
{
    proxy = proxy_start(stage.server.path, true);
    return client_at(label, proxy->url);
}

static struct peer *client(const char *label)
{
    return client_at(label, stage.server.url);
}

static void cut_both(void)
{
    proxy_cut(proxy, COMMANDS);
    proxy_cut(proxy, SUBSCRIPTION);
}

static void restart_empty(void)
{
    server_kill(&stage.server);
    server_restart(&stage.server);
}

/* Lets A detach the lock. Returns B, which waits for it. */
static struct hold *wait_for_detached(struct hold **ret_owner, uint32_t keep_ms)
{
    *ret_owner = own(client("a"), LONG_MS);
    leave_detached(*ret_owner, keep_ms);
    return stand_behind(client("b"), *ret_owner, STAGE_WAIT_MS);
}

static bool is_detached(uint32_t keep_ms)
{
    long long left = redis_int("PTTL %s", key_of("x"));

    return left > 0 && left <= (long long)keep_ms;
}

/* Expects that the lock expires no earlier than end_ms, and at most slack_ms later. */
static void expect_end(int64_t end_ms, int64_t slack_ms)
{
    int64_t before_ms = now_ms();
    long long left = redis_int("PTTL %s", key_of("x"));

    if (now_ms() + left + 1 < end_ms || before_ms + left > end_ms + slack_ms) {
        stage_fail("the lock ends %lld ms late", (long long)(before_ms + left - end_ms));
    }
}

/* Has the adopter release the lock, which the waiter must get with a larger fencing
 * token. */
static void expect_handed_on(struct hold *adopter, struct hold *waiter)
{
    release_hold(adopter);
    UNTIL(adopter->released != PENDING);
    assert_int_equal(adopter->released, LW_OK);
    UNTIL(waiter->result != PENDING);
    assert_true(waiter->fence > adopter->fence);
    expect_W1(waiter);
}

/* ---- reset ---- */

/* The least time between the two detach commands. If the second one had the whole
 * keep_ms, the lock would expire so much later. */
#define GAP_MS 400

CELL(reset__detach_OK_though_sent_again)
{
    struct hold *A, *B, *D;
    int64_t detached_ms;

    A = own(behind_proxy("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    make_scripts_known();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    detached_ms = now_ms();
    detach_hold(A, KEEP_MS);
    UNTIL(is_detached(KEEP_MS));
    stage_run_for(GAP_MS);
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    expect_released(A, LW_OK);
    expect_end(detached_ms + KEEP_MS, GAP_MS / 2 + 3 * stage.worst_lag_ms);
    D = ask_to_adopt(client("d"), A, 0, 0);
    expect_adopted(D, A);
    expect_handed_on(D, B);
}

CELL(reset__detach_OK_though_the_first_one_was_lost)
{
    struct hold *A, *B;
    int64_t detached_ms;

    A = own(behind_proxy("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    proxy_swallow(proxy, COMMANDS, TO_SERVER, true);
    detached_ms = now_ms();
    detach_hold(A, 2 * BRIEF_KEEP_MS);
    stage_run_for(20);
    cut_both();
    proxy_swallow(proxy, COMMANDS, TO_SERVER, false);
    UNTIL(A->released != PENDING);
    if (A->released_ms < detached_ms + 2 * BRIEF_KEEP_MS) { /* else it may have expired */
        assert_int_equal(A->released, LW_OK);
    }
    expect_W1_after(B, detached_ms + 2 * BRIEF_KEEP_MS);
    assert_true(B->fence > A->fence);
}

/* The second detach finds the adopter, and leaves its lease unchanged. */
CELL(reset__detach_ENOTHELD_if_adopted_meanwhile)
{
    struct hold *A, *B, *D;

    A = own(behind_proxy("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    make_scripts_known();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    detach_hold(A, KEEP_MS);
    UNTIL(is_detached(KEEP_MS));
    D = ask_to_adopt(client("d"), A, 0, LONG_MS);
    expect_adopted(D, A);
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    expect_released(A, LW_ENOTHELD);
    assert_false(is_detached(KEEP_MS));
    assert_held_by_redis(D);
    expect_handed_on(D, B);
}

CELL(reset__adoption_OK_though_sent_again)
{
    struct hold *A, *B, *D;
    struct peer *d = behind_proxy("d");

    B = wait_for_detached(&A, KEEP_MS);
    make_scripts_known();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    D = ask_to_adopt(d, A, STAGE_WAIT_MS, 0);
    UNTIL(!is_held_by(lw_lock_token(A->lock)));
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    expect_adopted(D, A);
    expect_not_adopted(ask_to_adopt(client("e"), A, 0, 0), LW_ENOTHELD);
    assert_held_by_redis(D);
    expect_handed_on(D, B);
}

/* ---- black hole, and half of it ---- */

/* The detach is retried when the link is back, and then finds the adopter. */
CELL(black_hole__detach_EUNKNOWN_and_the_adopter_is_kept)
{
    struct hold *A, *B, *D;

    A = own(behind_proxy("a"), LONG_MS);
    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    proxy_black_hole(proxy, true);
    detach_hold(A, KEEP_MS);
    expect_released(A, LW_EUNKNOWN);
    D = ask_to_adopt(client("d"), A, 0, LONG_MS);
    expect_adopted(D, A);
    proxy_black_hole(proxy, false);
    cut_both();
    UNTIL(A->peer->up);
    peer_close(A->peer); /* after the last reply */
    UNTIL(A->peer->closed);
    assert_false(is_detached(KEEP_MS));
    assert_held_by_redis(D);
    expect_handed_on(D, B);
}

CELL(black_hole__adoption_ETIMEOUT_and_the_lock_stays)
{
    struct hold *A, *B, *D;
    struct peer *d = behind_proxy("d");

    B = wait_for_detached(&A, KEEP_MS);
    proxy_black_hole(proxy, true);
    D = ask_to_adopt(d, A, 1500, 0);
    expect_not_adopted(D, LW_ETIMEOUT);
    assert_true(is_held_by(lw_lock_token(A->lock)));
    D = ask_to_adopt(client("e"), A, 0, 0);
    expect_adopted(D, A);
    proxy_black_hole(proxy, false);
    cut_both();
    UNTIL(d->up);
    peer_close(d); /* after the release of a possible adoption */
    UNTIL(d->closed);
    assert_held_by_redis(D);
    expect_handed_on(D, B);
}

/* The adoption succeeds, but its reply is lost. */
CELL(half_open__adoption_ETIMEOUT_is_released)
{
    struct hold *A, *B, *D;
    struct peer *d = behind_proxy("d");

    B = wait_for_detached(&A, KEEP_MS);
    make_scripts_known();
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
    D = ask_to_adopt(d, A, 1500, LONG_MS);
    UNTIL(!is_held_by(lw_lock_token(A->lock)));
    expect_not_adopted(D, LW_ETIMEOUT);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    cut_both();
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

/* ---- slow: more than the adopter's lease ---- */

CELL(slow__late_adoption_is_released)
{
    struct hold *A, *B, *D;
    struct peer *d = behind_proxy("d");

    B = wait_for_detached(&A, KEEP_MS);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 600);
    D = ask_to_adopt(d, A, 2500, 400);
    expect_not_adopted(D, LW_ETIMEOUT);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

/* ---- notifications lost, either link killed ---- */

CELL(notifications_lost__waiter_W1_when_it_ends)
{
    struct peer *b = behind_proxy("b");
    struct hold *A = own(client("a"), LONG_MS);
    struct hold *B = stand_behind(b, A, STAGE_WAIT_MS);
    int64_t detached_ms;

    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    detached_ms = now_ms();
    leave_detached(A, BRIEF_KEEP_MS);
    expect_W1_after(B, detached_ms + BRIEF_KEEP_MS);
    assert_true(B->fence > A->fence);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

CELL(notifications_lost__waiter_W1_when_the_adopter_releases)
{
    struct peer *b = behind_proxy("b");
    struct hold *A = own(client("a"), LONG_MS), *D;
    struct hold *B = stand_behind(b, A, STAGE_WAIT_MS);

    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    leave_detached(A, KEEP_MS);
    D = ask_to_adopt(client("d"), A, 0, 0);
    expect_adopted(D, A);
    expect_handed_on(D, B);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
}

CELL(command_link_killed__detach_and_adoption_OK)
{
    struct peer *a = client("a"), *d = client("d");
    struct hold *A = own(a, LONG_MS), *D;

    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    leave_detached(A, KEEP_MS);
    redis_ok("CLIENT KILL ID %lld", peer_link_id(d, false));
    D = ask_to_adopt(d, A, STAGE_WAIT_MS, 0);
    expect_adopted(D, A);
    release_hold(D);
    expect_released(D, LW_OK);
    assert_int_equal(redis_int("EXISTS %s", key_of("x")), 0);
}

/* ---- the server: killed and empty, stopped, scripts flushed ---- */

CELL(killed_and_empty__adoption_ENOTHELD)
{
    struct hold *A, *B = wait_for_detached(&A, KEEP_MS);
    struct peer *d = client("d");

    restart_empty();
    expect_not_adopted(ask_to_adopt(d, A, STAGE_WAIT_MS, 0), LW_ENOTHELD);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

CELL(killed_and_empty__detach_ENOTHELD)
{
    struct hold *A = own(client("a"), LONG_MS);

    restart_empty();
    detach_hold(A, KEEP_MS);
    expect_released(A, LW_ENOTHELD);
}

/* A server that is stopped may have read the command: it executes the command when it
 * continues, and the client sends it again. */
CELL(server_stopped__adoption_OK_afterwards)
{
    struct hold *A, *B = wait_for_detached(&A, KEEP_MS), *D;
    struct peer *d = client("d");

    server_pause(&stage.server);
    D = ask_to_adopt(d, A, STAGE_WAIT_MS, 0);
    UNTIL(!d->up);
    server_resume(&stage.server);
    expect_adopted(D, A);
    expect_handed_on(D, B);
}

CELL(server_stopped__adoption_ETIMEOUT_is_released)
{
    struct hold *A, *B = wait_for_detached(&A, KEEP_MS), *D;
    struct peer *d = client("d");

    server_pause(&stage.server);
    D = ask_to_adopt(d, A, REQUEST_MS / 2, LONG_MS);
    expect_not_adopted(D, LW_ETIMEOUT);
    server_resume(&stage.server);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

CELL(server_stopped__detach_EUNKNOWN_and_it_ends)
{
    struct hold *A = own(client("a"), LONG_MS), *B;
    int64_t detached_ms;

    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    server_pause(&stage.server);
    detached_ms = now_ms();
    detach_hold(A, 2 * BRIEF_KEEP_MS);
    expect_released(A, LW_EUNKNOWN);
    server_resume(&stage.server);
    expect_W1_after(B, detached_ms + 2 * BRIEF_KEEP_MS);
    assert_true(B->fence > A->fence);
}

CELL(script_flush__detach_and_adoption_OK)
{
    struct hold *A = own(client("a"), LONG_MS), *B, *D;

    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    redis_ok("SCRIPT FLUSH");
    leave_detached(A, KEEP_MS);
    redis_ok("SCRIPT FLUSH");
    D = ask_to_adopt(client("d"), A, 0, 0);
    expect_adopted(D, A);
    expect_handed_on(D, B);
}

/* ---- the key is lost ---- */

CELL(deleted__adoption_ENOTHELD)
{
    struct hold *A, *B = wait_for_detached(&A, KEEP_MS);

    stage.keys_may_stay = true; /* the description of A's hold, until its TTL */
    redis_ok("DEL %s", key_of("x"));
    expect_not_adopted(ask_to_adopt(client("d"), A, 0, 0), LW_ENOTHELD);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

CELL(stolen__adoption_fails)
{
    struct hold *A, *B = wait_for_detached(&A, KEEP_MS);

    stage.keys_may_stay = true; /* the description of A's hold, until its TTL */
    redis_ok("SET %s a-thief PX 1000", key_of("x"));
    expect_not_adopted(ask_to_adopt(client("d"), A, 0, 0),
                       way->holder == LW_MUTEX ? LW_ENOTHELD : LW_EINVAL);
    expect_W1(B);
    assert_true(B->fence > A->fence);
}

/* ---- a process is killed or stopped ---- */

static struct process *start_process(void)
{
    return process_start("P",
                         client_of(.local_turns = way->turns, .backoff_max_ms = 200,
                                   .request_timeout_ms = REQUEST_MS, .claim_ms = 1000));
}

/* Has P detach the lock, and kills it once the server has executed that. Returns the time
 * right before the order to P. */
static int64_t kill_after_detach(struct process *p, uint32_t keep_ms)
{
    int64_t told_ms = now_ms();

    process_tell(p, "detach A %u", keep_ms);
    UNTIL(is_detached(keep_ms));
    process_kill(p);
    stage_clear_trace();
    return told_ms;
}

CELL(process_killed_after_detach__adoption_OK)
{
    struct process *p = start_process();
    struct hold *B, *D;

    process_tell(p, "acquire A x 0 %d %s", LONG_MS, way->words);
    EXPECT("P: A granted");
    B = stand_behind(client("b"), NULL, STAGE_WAIT_MS);
    kill_after_detach(p, KEEP_MS);
    D = adopt_hold(client("d"), "D", "x", p->token, asking(.mode = way->holder));
    EXPECT("D granted");
    assert_held_by_redis(D);
    assert_true(D->fence > p->fence);
    expect_handed_on(D, B);
}

CELL(process_killed_after_detach__waiter_W1_when_it_ends)
{
    struct process *p = start_process();
    struct hold *B;
    int64_t told_ms;

    process_tell(p, "acquire A x 0 %d %s", LONG_MS, way->words);
    EXPECT("P: A granted");
    B = stand_behind(client("b"), NULL, STAGE_WAIT_MS);
    told_ms = kill_after_detach(p, BRIEF_KEEP_MS);
    expect_W1_after(B, told_ms + BRIEF_KEEP_MS);
    assert_true(B->fence > p->fence);
}

/* A process adopts the lock for less time than it was detached for, and dies. */
CELL(process_killed_while_it_adopts__waiter_W1_when_it_ends)
{
    struct process *p = start_process();
    struct hold *A = own(client("a"), LONG_MS), *B;
    int64_t detached_ms;

    B = stand_behind(client("b"), A, STAGE_WAIT_MS);
    detached_ms = now_ms();
    leave_detached(A, 2 * BRIEF_KEEP_MS);
    process_tell(p, "adopt D x %s 0 %d %s", lw_lock_token(A->lock), BRIEF_KEEP_MS / 3,
                 way->words);
    UNTIL(!is_held_by(lw_lock_token(A->lock)));
    process_kill(p);
    stage_clear_trace();
    expect_not_adopted(ask_to_adopt(B->peer, A, 0, 0), LW_ENOTHELD);
    expect_end(detached_ms + 2 * BRIEF_KEEP_MS, late_ms());
    expect_W1_after(B, detached_ms + 2 * BRIEF_KEEP_MS);
    assert_true(B->fence > p->fence);
    assert_true(B->fence > A->fence);
}

CELL(process_stopped__adopter_lost_first_and_the_fence_protects)
{
    struct hold *A = own(client("a"), LONG_MS), *B;
    struct peer *b = client("b");
    struct process *p = start_process();

    leave_detached(A, BRIEF_KEEP_MS);
    process_tell(p, "adopt D x %s 0 1000 %s", lw_lock_token(A->lock), way->words);
    EXPECT("P: D granted");
    assert_true(p->fence > A->fence);
    process_signal(p, SIGSTOP);
    B = ask_to_wait(b, "B", -1, 0);
    EXPECT("B granted");
    assert_true(B->fence > p->fence);
    process_signal(p, SIGCONT);
    EXPECT("P: D lost ELOST");
    assert_held_by_redis(B);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_OURS(reset__detach_OK_though_sent_again),
        PLAY_OURS(reset__detach_OK_though_the_first_one_was_lost),
        PLAY_OURS(reset__detach_ENOTHELD_if_adopted_meanwhile),
        PLAY_OURS(reset__adoption_OK_though_sent_again),
        PLAY_OURS(black_hole__detach_EUNKNOWN_and_the_adopter_is_kept),
        PLAY_OURS(black_hole__adoption_ETIMEOUT_and_the_lock_stays),
        PLAY_OURS(half_open__adoption_ETIMEOUT_is_released),
        PLAY_OURS(slow__late_adoption_is_released),
        PLAY_OURS(notifications_lost__waiter_W1_when_it_ends),
        PLAY_OURS(notifications_lost__waiter_W1_when_the_adopter_releases),
        PLAY_OURS(command_link_killed__detach_and_adoption_OK),
        PLAY_OURS(killed_and_empty__adoption_ENOTHELD),
        PLAY_OURS(killed_and_empty__detach_ENOTHELD),
        PLAY_OURS(server_stopped__adoption_OK_afterwards),
        PLAY_OURS(server_stopped__adoption_ETIMEOUT_is_released),
        PLAY_OURS(server_stopped__detach_EUNKNOWN_and_it_ends),
        PLAY_OURS(script_flush__detach_and_adoption_OK),
        PLAY_OURS(deleted__adoption_ENOTHELD),
        PLAY_OURS(stolen__adoption_fails),
        PLAY_OURS(process_killed_after_detach__adoption_OK),
        PLAY_OURS(process_killed_after_detach__waiter_W1_when_it_ends),
        PLAY_OURS(process_killed_while_it_adopts__waiter_W1_when_it_ends),
        PLAY_OURS(process_stopped__adopter_lost_first_and_the_fence_protects),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}
