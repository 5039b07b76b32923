/* SPDX-License-Identifier: MIT */
/*
 * The life of a mutex at a quorum of three or five real servers: acquired, waited for,
 * handed over, renewed, lost, released, with one server slow or dead. Depends on the
 * public header and test/lib.
 *
 * Every grant is checked: its fencing token is larger than the one before.
 */
#include "scene.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_free_lock_is_granted_by_all_servers(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    A = quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    assert_true(A->fence > 1ULL << 50);
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 20000, 30000);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

static void a_held_lock_is_busy(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, 30000);
    B = acquire_hold(b, "C", "x", 100);
    EXPECT("C ETIMEOUT");
    assert_string_equal(lw_lock_errstr(B->lock), "");
    UNTIL(quorum_queued(0, "x") == 0 && quorum_queued(2, "x") == 0);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

/* The tickets of different clients may be wrong by the time that a request took. */
#define LATER_MS 400

static void waiters_are_served_in_their_order(void **state)
{
    struct peer *a, *b, *c;
    struct hold *A, *B, *C;

    (void)state;
    quorum_start(5);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    c = quorum_peer("c", NULL);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(4, "x") == 1);
    stage_run_for(LATER_MS);
    C = acquire_hold(c, "C", "x", -1);
    UNTIL(quorum_queued(0, "x") == 2 && quorum_queued(4, "x") == 2);
    UNTIL(lw_lock_position(C->lock) == 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_true(peer_stats(b).handed_over >= 3);
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    assert_true(C->fence > B->fence);
    release_hold(C);
    EXPECT("C released OK");
    UNTIL(quorum_count("x") == 0);
}

/* A delayed request makes the client's estimate of the server's clock too late. */
static void a_client_that_was_delayed_is_not_overtaken(void **state)
{
    struct peer *a, *b, *c;
    struct hold *A, *B, *C;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    c = quorum_peer("c", NULL);
    A = quorum_take(a, "A", "x");
    proxy_delay(quorum_proxy[0], COMMANDS, TO_SERVER, 1000);
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1);
    proxy_delay(quorum_proxy[0], COMMANDS, TO_SERVER, 0);
    free_hold(B);
    UNTIL(quorum_queued(0, "x") == 0 && quorum_queued(1, "x") == 0 &&
          quorum_queued(2, "x") == 0);
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    stage_run_for(LATER_MS);
    C = acquire_hold(c, "C", "x", -1);
    UNTIL(quorum_queued(0, "x") == 2 && quorum_queued(1, "x") == 2 &&
          quorum_queued(2, "x") == 2);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    release_hold(C);
    EXPECT("C released OK");
}

/* At every server, claims with the same ticket are in the order of their tokens. */
static void tokens_of_a_claim_begin_with_one_id(void **state)
{
    const size_t digits = 36;
    struct peer *a;
    char token[64];

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    (void)snprintf(token, sizeof(token), "%s", quorum_value(0, "x"));
    assert_int_equal(token[digits], ':');
    for (int i = 1; i < 3; i++) {
        assert_int_equal(strncmp(token, quorum_value(i, "x"), digits + 1), 0);
    }
}

/* One grant serves the handles of a client one after another. */
static void handles_of_one_client_take_turns(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B, *C;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", client_of(.local_turns = 16));
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    C = acquire_hold(b, "C", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK; C granted");
    assert_int_equal(peer_stats(b).passed, 1);
    assert_true(C->fence > B->fence);
    release_hold(C);
    EXPECT("C released OK");
}

static void a_hold_is_renewed_and_shortened(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 600));
    EXPECT("A granted");
    stage_expect_nothing(2000);
    assert_int_equal(quorum_count("x"), 3);
    renew_hold(A, 20000);
    EXPECT("A renewed OK");
    UNTIL(lw_lock_remaining_ms(A->lock) > 10000);
    renew_hold(A, 1000);
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 0, 1000);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

/* A lease that is not renewed ends at the majority's deadline. */
static void a_hold_that_is_not_renewed_is_lost(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)acquire_hold_with(a, "A", "x", asking(.lease_ms = 300, .flags = LW_NO_RENEW));
    EXPECT("A granted; A lost ELOST");
    UNTIL(quorum_count("x") == 0);
    (void)acquire_hold_with(a, "B", "x", asking(.max_hold_ms = 300));
    EXPECT("B granted; B lost ETIMEOUT");
    UNTIL(quorum_count("x") == 0);
}

static void waiting_handles_leave_all_queues(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    free_hold(B);
    UNTIL(quorum_queued(0, "x") == 0 && quorum_queued(1, "x") == 0 &&
          quorum_queued(2, "x") == 0);
    free_hold(A);
    UNTIL(quorum_count("x") == 0);
}

/* The servers' fence counters are far apart. */
static void fencing_tokens_grow_whichever_servers_grant(void **state)
{
    static const char raise[] = "INCRBY lockwire:fence 1000000000";
    struct peer *a;
    uint64_t last = 0;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    for (int i = 0; i < 12; i++) {
        struct hold *A;

        freeReplyObject(server_command(&quorum_server[i % 3], raise));
        server_pause(&quorum_server[(i + 1) % 3]);
        A = quorum_take(a, "A", "x");
        assert_true(A->fence > last);
        last = A->fence;
        release_hold(A);
        EXPECT("A released OK");
        server_resume(&quorum_server[(i + 1) % 3]);
        UNTIL(quorum_count("x") == 0);
    }
}

/* ---- many clients ---- */

#define CROWD 12
#define ROUNDS 10

static struct {
    struct hold *hold[CROWD];
    struct peer *peer[CROWD];
    int rounds[CROWD], holders, done;
    uint64_t last;
} crowd;

static void crowd_ask(int i);

static void crowd_moves(struct hold *hold, enum moment moment)
{
    int i = (int)(intptr_t)hold->aim;

    if (moment == AT_RESULT) {
        if (hold->result != LW_OK) {
            stage_complain("an end: %s", status_name(hold->result));
            return;
        }
        if (crowd.holders++ != 0 || hold->fence <= crowd.last) {
            stage_complain("%d hold, number %llu after %llu", crowd.holders,
                           (unsigned long long)hold->fence,
                           (unsigned long long)crowd.last);
        }
        crowd.last = hold->fence;
        crowd.holders--;
        crowd.rounds[i]++;
        free_hold(hold);
        if (crowd.rounds[i] < ROUNDS) {
            crowd_ask(i);
        } else {
            crowd.done++;
        }
    }
}

static void crowd_ask(int i)
{
    char label[16];

    (void)snprintf(label, sizeof(label), "H%d", i);
    crowd.hold[i] = acquire_hold(crowd.peer[i], label, "x", -1);
    crowd.hold[i]->aim = (void *)(intptr_t)i;
    crowd.hold[i]->then = crowd_moves;
}

static void run_crowd(void)
{
    memset(&crowd, 0, sizeof(crowd));
    for (int i = 0; i < CROWD; i++) {
        char label[16];

        (void)snprintf(label, sizeof(label), "p%d", i);
        crowd.peer[i] =
            quorum_peer(label, client_of(.local_turns = 1, .backoff_max_ms = 100));
    }
    for (int i = 0; i < CROWD; i++) {
        crowd_ask(i);
    }
    UNTIL(crowd.done == CROWD);
    stage_clear_trace();
}

static void a_crowd_is_served(void **state)
{
    (void)state;
    quorum_start(3);
    run_crowd();
    UNTIL(quorum_count("x") == 0);
}

static void a_crowd_is_served_while_a_server_is_dead(void **state)
{
    (void)state;
    quorum_start(3);
    server_kill(&quorum_server[0]);
    run_crowd();
    UNTIL(quorum_count("x") == 0);
}

static void a_crowd_is_served_while_a_server_hangs(void **state)
{
    (void)state;
    quorum_start(5);
    server_pause(&quorum_server[1]);
    run_crowd();
    server_resume(&quorum_server[1]);
    UNTIL(quorum_count("x") == 0);
}

static void a_client_closes_with_all_its_members(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(2, "x") == 1);
    peer_close(b);
    EXPECT("B ECLOSED; b closed");
    UNTIL(quorum_queued(0, "x") == 0 && quorum_queued(2, "x") == 0);
    peer_close(a);
    EXPECT("a closed");
    UNTIL(quorum_count("x") == 0);
    (void)A, (void)B;
}

/* As with a single server, the lock of a freed client stays held until its lease ends. */
static void a_freed_client_releases_nothing(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)acquire_hold_with(a, "A", "x", asking(.lease_ms = 20000));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    peer_free(a);
    stage_run_for(100);
    assert_int_equal(quorum_count("x"), 3);
}

/* Checks that the client and its members are inert in the child. The parent does not
 * notice. */
static int act_as_child(struct hold *A, bool runs)
{
    if (runs && (event_reinit(stage.base) != 0 ||
                 event_base_loop(stage.base, EVLOOP_NONBLOCK) < 0)) {
        return 1;
    }
    if (lw_lock_state(A->lock) != LW_DONE || lw_lock_remaining_ms(A->lock) != 0 ||
        lw_release(A->lock, NULL, NULL) != LW_ECLOSED ||
        lw_client_is_up(A->peer->client, NULL)) {
        return 2;
    }
    lw_lock_free(A->lock);
    lw_client_free(A->peer->client);
    return 0;
}

static void a_forked_child_is_inert(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    for (int runs = 0; runs < 2; runs++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            _exit(act_as_child(A, runs));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        stage_expect_nothing(1500);
    }
    assert_int_equal(quorum_count("x"), 3);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_free_lock_is_granted_by_all_servers),
        STAGE_TEST(a_held_lock_is_busy),
        STAGE_TEST(waiters_are_served_in_their_order),
        STAGE_TEST(a_client_that_was_delayed_is_not_overtaken),
        STAGE_TEST(tokens_of_a_claim_begin_with_one_id),
        STAGE_TEST(handles_of_one_client_take_turns),
        STAGE_TEST(a_hold_is_renewed_and_shortened),
        STAGE_TEST(a_hold_that_is_not_renewed_is_lost),
        STAGE_TEST(waiting_handles_leave_all_queues),
        STAGE_TEST(fencing_tokens_grow_whichever_servers_grant),
        STAGE_TEST(a_crowd_is_served),
        STAGE_TEST(a_crowd_is_served_while_a_server_is_dead),
        STAGE_TEST(a_crowd_is_served_while_a_server_hangs),
        STAGE_TEST(a_client_closes_with_all_its_members),
        STAGE_TEST(a_freed_client_releases_nothing),
        STAGE_TEST(a_forked_child_is_inert),
    };

    return STAGE_RUN(tests);
}
