/* SPDX-License-Identifier: MIT */
/* The invariants that other files do not show by name: mutual exclusion seen from outside
 * (I1, with a canary that must be able to die), nothing left behind (I9), no waiter at
 * the head that could enter after a script (I10), no blocking (I8). Elsewhere: I1 in
 * holding.c, rules_lost.c and waiting_faults.c, I2 in fencing.c, I3 and I5 in
 * waiting_faults.c, I4 in waiting.c, I6 in waiting.c and server/lies.c, I7 in rules_*.c
 * and reentrancy.c. Independent of how the lock is stored.
 *
 * Usual course: many clients, a shared thing, and what must be true of it. */
#include "players.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- I1: a counter, read, kept for a moment and written back under the lock ---- */

#define CANARY_ROUNDS 150

static struct {
    int value;  /* the shared thing */
    int rounds; /* finished writes */
    int inside; /* workers that now believe that they hold */
    int overlaps;
    bool unlocked; /* the control: no worker acquires the lock */
    uint64_t last_fence;
} canary;

struct worker {
    struct peer *peer;
    struct hold *hold;
    struct event *moment;
    int read;
};

static void start_round(struct worker *worker);

static void enter(struct worker *worker)
{
    worker->read = canary.value;
    canary.overlaps += canary.inside++ > 0;
    event_add(worker->moment, &(struct timeval){.tv_usec = 1000});
}

static void on_round(struct hold *hold, enum moment moment)
{
    struct worker *worker = hold->aim;

    if (moment == AT_RESULT) {
        if (hold->fence <= canary.last_fence) {
            stage_complain("I2: %llu after %llu", (unsigned long long)hold->fence,
                           (unsigned long long)canary.last_fence);
        }
        canary.last_fence = hold->fence;
        enter(worker);
    } else if (moment == AT_RELEASED) {
        free_hold(hold);
        start_round(worker);
    } else {
        stage_complain("%s was lost", hold->label);
    }
}

static void start_round(struct worker *worker)
{
    if (canary.rounds >= CANARY_ROUNDS) {
        return;
    }
    if (canary.unlocked) {
        enter(worker);
        return;
    }
    worker->hold = acquire_hold(worker->peer, worker->peer->label, "x", -1);
    worker->hold->aim = worker;
    worker->hold->then = on_round;
}

static void on_moment(evutil_socket_t fd, short what, void *arg)
{
    struct worker *worker = arg;

    (void)fd, (void)what;
    canary.inside--;
    canary.value = worker->read + 1;
    canary.rounds++;
    if (canary.unlocked) {
        start_round(worker);
    } else {
        release_hold(worker->hold);
    }
}

static void run_canary(uint32_t turns, bool unlocked)
{
    struct worker workers[12];
    struct peer *three[] = {peer_ready("a", client_of(.local_turns = turns)),
                            peer_ready("b", client_of(.local_turns = turns)),
                            peer_ready("c", client_of(.local_turns = turns))};

    memset(&canary, 0, sizeof(canary));
    canary.unlocked = unlocked;
    for (int i = 0; i < 12; i++) {
        workers[i] = (struct worker){.peer = three[i % 3]};
        workers[i].moment = evtimer_new(stage.base, on_moment, &workers[i]);
        start_round(&workers[i]);
    }
    UNTIL(canary.rounds >= CANARY_ROUNDS && canary.inside == 0);
    UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
    for (int i = 0; i < 12; i++) {
        event_free(workers[i].moment);
    }
    stage_clear_trace();
}

static void I1_no_update_is_lost_under_the_lock(void **state)
{
    (void)state;
    run_canary(1, false);
    assert_int_equal(canary.value, canary.rounds);
    assert_int_equal(canary.overlaps, 0);
}

static void I1_no_update_is_lost_under_the_lock_with_turns(void **state)
{
    (void)state;
    run_canary(16, false);
    assert_int_equal(canary.value, canary.rounds);
    assert_int_equal(canary.overlaps, 0);
}

static void I1_without_the_lock_updates_are_lost(void **state)
{
    (void)state;
    run_canary(1, true);
    assert_true(canary.value < canary.rounds); /* the canary can die */
    assert_true(canary.overlaps > 0);
}

/* ---- I1: a stopped holder learns of its loss before anything else ---- */

static void I1_stalled_holder_is_told_before_anything_else(void **state)
{
    struct process *process = process_start("P", NULL);
    struct peer *b = peer_ready("b", NULL);

    (void)state;
    process_tell(process, "acquire A x 0 600");
    EXPECT("P: A granted");
    process_tell(process, "acquire W x 60000 600");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    process_signal(process, SIGSTOP);
    EXPECT("B granted");
    assert_held_by_redis(B);
    process_signal(process, SIGCONT);
    EXPECT("P: A lost ELOST");
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT_SET("B released OK; P: W granted");
    process_tell(process, "release W");
    EXPECT("P: W released OK");
}

/* ---- I8 ---- */

/* Every call returns, whatever the server does. A blocking read or write would not end
 * before the test's time limit. */
static void I8_no_call_blocks_although_the_server_is_stopped(void **state)
{
    struct peer *a = peer_ready("a", client_of(.close_timeout_ms = 300));
    struct hold *held[20];
    char name[16];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "x%d", i);
        held[i] = acquire_and_wait(a, "A", name);
    }
    server_pause(&stage.server);
    for (int i = 0; i < 20; i++) {
        renew_hold(held[i], 0);
        acquire_hold(a, "W", "x1", -1);
        free_hold(acquire_hold(a, "D", "y", 1000));
        i % 2 ? release_hold(held[i]) : free_hold(held[i]);
    }
    peer_close(a);
    UNTIL(a->closed);
    server_resume(&stage.server);
    stage_clear_trace();
    stage.keys_may_stay = true;
}

static int count_threads(void)
{
    char line[128];
    int threads = 0;
    FILE *status = fopen("/proc/self/status", "re");

    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        (void)sscanf(line, "Threads: %d", &threads);
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return threads;
}

static void I8_no_thread_and_no_signal_handler_is_made(void **state)
{
    int threads = count_threads();
    struct sigaction before, after;

    (void)state;
    sigaction(SIGPIPE, NULL, &before);
    struct peer *a = peer_ready("a", NULL);
    release_hold(acquire_and_wait(a, "A", "x"));
    EXPECT("A granted; A released OK");
    sigaction(SIGPIPE, NULL, &after);
    assert_ptr_equal(before.sa_handler, after.sa_handler);
    assert_int_equal(count_threads(), threads);
}

/* ---- I9 ---- */

static void assert_every_key_has_a_ttl(void)
{
    assert_string_equal(
        redis_text("EVAL %s 0", "for _, key in ipairs(redis.call('KEYS', '*')) do "
                                "  if redis.call('PTTL', key) == -1 then return key end "
                                "end return ''"),
        "");
}

static void I9_every_key_has_a_ttl_at_any_moment(void **state)
{
    struct peer *three[] = {peer_ready("a", NULL), peer_ready("b", NULL),
                            peer_ready("c", client_of(.local_turns = 8))};
    struct hold *all[30];
    char name[2] = "a";

    (void)state;
    for (int i = 0; i < 30; i++) {
        name[0] = (char)('a' + i % 4);
        all[i] = acquire_hold(three[i % 3], "A", name, i % 5 ? -1 : 0);
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        assert_every_key_has_a_ttl();
    }
    for (int i = 0; i < 300; i++) {
        struct hold *hold = all[i % 30];
        stage_run_for(1);
        if (hold->lock != NULL && hold->result == LW_OK && !hold->releasing &&
            hold->released == PENDING && i % 2) {
            release_hold(hold);
        } else if (hold->lock != NULL && i % 7 == 0) {
            free_hold(hold);
        }
        assert_every_key_has_a_ttl();
    }
    stage_clear_trace();
}

static void I9_after_idling_nothing_is_left_but_the_fence(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct process *dead = process_start("P", client_of(.claim_ms = 500));

    (void)state;
    acquire_and_wait(a, "A", "x");
    process_tell(dead, "acquire D x -1 500");
    process_tell(dead, "acquire E y 0 500");
    EXPECT_SET("A granted; P: E granted");
    wait_queued("x", 1);
    process_kill(dead);
    release_hold(holds); /* A, whose release removes the dead process from the queue */
    EXPECT("A released OK");
    UNTIL(redis_int("EXISTS x y %s", queue_of("x")) == 0);
}

/* ---- I10 ---- */

static void I10_head_that_leaves_a_free_lock_lets_the_next_in(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    for (int i = 0; i < 20; i++) {
        struct hold *A = acquire_and_wait(a, "A", "x"),
                    *H = acquire_hold(a, "H", "x", -1);
        wait_queued("x", 1);
        struct hold *B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 2);
        redis_ok("DEL x"); /* free, without any message */
        int64_t before = now_ms();
        i % 2 ? free_hold(H) : free_hold(A); /* a leave, or a release */
        if (i % 2) {
            UNTIL(B->result == LW_OK);
        } else {
            UNTIL(H->result == LW_OK);
            free_hold(H);
            UNTIL(B->result == LW_OK);
        }
        /* No poll was needed. */
        assert_true(now_ms() - before < 1000 + 10 * stage.worst_lag_ms);
        free_hold(A), free_hold(B);
        UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
    }
    stage_clear_trace();
}

static void I10_newcomer_at_a_free_lock_lets_the_head_in_first(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct peer *c = peer_ready("c", NULL);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    acquire_hold(c, "W", "x", 200); /* so that this client knows the name as contended */
    EXPECT("A granted; W ETIMEOUT");
    redis_ok("DEL x");
    struct hold *C = acquire_hold(c, "C", "x", -1);
    EXPECT("B granted");
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    assert_held_by_redis(C);
    free_hold(A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(I1_no_update_is_lost_under_the_lock),
        STAGE_TEST(I1_no_update_is_lost_under_the_lock_with_turns),
        STAGE_TEST(I1_without_the_lock_updates_are_lost),
        STAGE_TEST(I1_stalled_holder_is_told_before_anything_else),
        STAGE_TEST(I8_no_call_blocks_although_the_server_is_stopped),
        STAGE_TEST(I8_no_thread_and_no_signal_handler_is_made),
        STAGE_TEST(I9_every_key_has_a_ttl_at_any_moment),
        STAGE_TEST(I9_after_idling_nothing_is_left_but_the_fence),
        STAGE_TEST(I10_head_that_leaves_a_free_lock_lets_the_next_in),
        STAGE_TEST(I10_newcomer_at_a_free_lock_lets_the_head_in_first),
    };

    return STAGE_RUN(tests);
}
