/* SPDX-License-Identifier: MIT */
/*
 * Waiting by direct hand-over, without local turns: order, cost, time-outs, leaving.
 * Independent of how the queue is kept, except for its key's name.
 *
 * Usual course: one handle holds, others wait in the queue, and each release grants the
 * next one.
 */
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>

static void uncontended_lock_costs_no_script(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    release_hold(acquire_and_wait(a, "first", "x"));
    EXPECT("first granted; first released OK");
    monitor_start();
    struct hold *A = acquire_and_wait(a, "A", "x");
    assert_int_equal(monitor_count("set"), 1);
    assert_int_equal(monitor_count("incr"), 1);
    assert_int_equal(monitor_count("evalsha") + monitor_count("eval"), 0);
    release_hold(A);
    EXPECT("A granted; A released OK");
    assert_int_in_range(monitor_count(""), 3, 4); /* a script may be new to the server */
}

/* The try may have been executed. The request is therefore sent again with the same
 * token, which may be stored already. */
static void a_try_without_an_answer_is_asked_for_by_the_same_token(void **state)
{
    struct proxy *way = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", way->url, client_of(.backoff_max_ms = 50));
    struct hold *A;
    char token[128];

    (void)state;
    peer_wait_ready(a);
    proxy_swallow(way, COMMANDS, TO_CLIENT, true);
    A = acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .lease_ms = 600000));
    UNTIL(redis_int("EXISTS x") == 1);
    (void)snprintf(token, sizeof(token), "%s", redis_text("GET x"));
    proxy_swallow(way, COMMANDS, TO_CLIENT, false);
    proxy_cut(way, COMMANDS);
    EXPECT("A granted");
    assert_string_equal(lw_lock_owner(A->lock), token);
    assert_string_equal(redis_text("GET x"), token);
    release_hold(A);
    EXPECT("A released OK");
}

/* A refused try has stored nothing, so the request may use another token. That one is so
 * long that Redis does not store the queue as a list. */
static void who_queues_after_its_try_has_a_long_token(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    assert_true(strlen(redis_text("GET x")) <= 64);
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_string_equal(redis_text("OBJECT ENCODING %s", queue_of("x")), "skiplist");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

/* A request that tries once does not join the queue. It leaves extending the queue's life
 * to the first request that joins. */
static void first_who_joins_has_the_queue_live_on(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    acquire_hold(b, "B", "x", 0); /* by script: the name is known as contended */
    EXPECT("B EBUSY");
    monitor_start();
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_true(monitor_saw("\"kf "));
    acquire_hold(b, "C", "x", -1);
    wait_queued("x", 2);
    assert_true(monitor_saw("\"jf "));
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void try_once_ends_busy_and_tells_the_remaining_lease(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 20000));

    (void)state;
    EXPECT("A granted");
    struct hold *B = acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, 20000);
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0);
    assert_held_by_redis(A);
    assert_string_equal(lw_lock_owner(B->lock), "");
}

static void release_grants_the_waiter(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    (void)state;
    EXPECT("A granted");
    wait_queued("x", 1);
    stage_expect_nothing(100);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
    assert_true(B->fence > A->fence);
}

static void siblings_wait_for_each_other_without_turns(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(a, "B", "x", -1);

    (void)state;
    acquire_hold(a, "C", "x", 0);
    EXPECT("A granted; C EBUSY");
    wait_queued("x", 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
}

/* The SET NX of the first request is refused. It queues before those that were made after
 * it. */
static void siblings_asked_for_at_once_keep_their_order(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *H = acquire_and_wait(a, "H", "x"), *waiting[3];
    static const char *const labels[] = {"B1", "B2", "B3"};

    (void)state;
    EXPECT("H granted");
    for (int i = 0; i < 3; i++) {
        waiting[i] = acquire_hold(b, labels[i], "x", -1);
    }
    wait_queued("x", 3);
    release_hold(H);
    EXPECT_SET("H released OK; B1 granted");
    release_hold(waiting[0]);
    EXPECT_SET("B1 released OK; B2 granted");
    release_hold(waiting[1]);
    EXPECT_SET("B2 released OK; B3 granted");
    release_hold(waiting[2]);
    EXPECT("B3 released OK");
}

static void first_try_grants_and_siblings_queue(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold(a, "A", "x", -1), *B = acquire_hold(a, "B", "x", -1);

    (void)state;
    acquire_hold(a, "C", "x", 0);
    EXPECT_SET("A granted; C EBUSY");
    wait_queued("x", 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
}

static void order_of_arrival_over_two_clients(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *waiting[4];
    static const char *const labels[] = {"B1", "A1", "B2", "A2"};

    (void)state;
    EXPECT("A granted");
    for (int i = 0; i < 4; i++) {
        waiting[i] = acquire_hold(i % 2 ? a : b, labels[i], "x", -1);
        wait_queued("x", i + 1);
    }
    release_hold(A);
    EXPECT_SET("A released OK; B1 granted");
    release_hold(waiting[0]);
    EXPECT_SET("B1 released OK; A1 granted");
    release_hold(waiting[1]);
    EXPECT_SET("A1 released OK; B2 granted");
    release_hold(waiting[2]);
    EXPECT_SET("B2 released OK; A2 granted");
    assert_held_by_redis(waiting[3]);
}

/* ---- many grants, each releasing at once ---- */

static int grants, grants_wanted, at_once;

static void ask_again(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT) {
        if (hold->result != LW_OK) {
            stage_complain("%s was to be granted", hold->label);
        } else if (++at_once != 1) {
            stage_complain("I1: %s holds beside another", hold->label);
        }
        at_once--;
        grants++;
        release_hold(hold);
    } else if (moment == AT_RELEASED) {
        free_hold(hold);
        if (grants < grants_wanted) {
            acquire_hold(hold->peer, hold->label, "x", -1)->then = ask_again;
        }
    }
}

static void run_ring(struct peer **ring, int peers_count, int each, int wanted)
{
    char label[16];

    grants = at_once = 0;
    grants_wanted = wanted;
    for (int i = 0; i < peers_count * each; i++) {
        (void)snprintf(label, sizeof(label), "%c%d", 'A' + i % peers_count,
                       i / peers_count);
        acquire_hold(ring[i % peers_count], label, "x", -1)->then = ask_again;
    }
    UNTIL(grants >= wanted);
    UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
    stage_clear_trace();
}

static void I4_hand_over_costs_two_commands_without_turns(void **state)
{
    struct peer *ring[] = {peer_ready("a", NULL), peer_ready("b", NULL)};

    (void)state;
    run_ring(ring, 2, 3, 20);
    monitor_start();
    run_ring(ring, 2, 3, 200);
    int commands = monitor_count(""), total = grants;
    if (commands * 10 > total * 22) {
        stage_fail("I4: %d commands for %d grants", commands, total);
    }
    struct lw_stats a = peer_stats(ring[0]), b = peer_stats(ring[1]);
    assert_true(a.handed_over + b.handed_over > 150);
}

static void I4_cost_does_not_grow_with_the_number_of_waiters(void **state)
{
    struct peer *ring[] = {peer_ready("a", NULL), peer_ready("b", NULL),
                           peer_ready("c", NULL)};

    (void)state;
    run_ring(ring, 3, 2, 20);
    monitor_start();
    run_ring(ring, 3, 70, 500);
    int commands = monitor_count(""), total = grants;
    if (commands * 10 > total * 22) {
        stage_fail("I4: %d commands for %d grants", commands, total);
    }
}

static void two_hundred_waiters_are_served_in_order(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *holder = acquire_and_wait(a, "A", "x"), *waiting[200];
    char label[16], line[64];

    (void)state;
    EXPECT("A granted");
    for (int i = 0; i < 200; i++) {
        (void)snprintf(label, sizeof(label), "w%d", i);
        waiting[i] = acquire_hold(i % 2 ? a : b, label, "x", -1);
        wait_queued("x", i + 1); /* so that the other client's next one comes later */
    }
    for (int i = 0; i < 200; i++) {
        release_hold(holder);
        (void)snprintf(line, sizeof(line), "%s released OK; w%d granted", holder->label,
                       i);
        EXPECT_SET(line);
        holder = waiting[i];
    }
}

/* ---- giving up ---- */

static void wait_ends_on_time(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *waiting[3];

    (void)state;
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    waiting[0] = acquire_hold(b, "B300", "x", 300);
    waiting[1] = acquire_hold(b, "B100", "x", 100);
    waiting[2] = acquire_hold(b, "B200", "x", 200);
    EXPECT("B100 ETIMEOUT; B200 ETIMEOUT; B300 ETIMEOUT");
    stage_skip_if_lag(50);
    for (int i = 0; i < 3; i++) {
        int64_t wanted = i == 0 ? 300 : i * 100,
                took = waiting[i]->result_ms - waiting[i]->asked_ms;
        assert_int_in_range(took, wanted - 1, wanted + 150);
    }
    UNTIL(redis_int("EXISTS %s", queue_of("x")) == 0);
}

static void time_out_leaves_the_queue_to_the_next(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    acquire_hold(b, "B", "x", 300);
    wait_queued("x", 1);
    struct hold *C = acquire_hold(b, "C", "x", -1);
    wait_queued("x", 2);
    EXPECT("B ETIMEOUT");
    wait_queued("x", 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    assert_held_by_redis(C);
}

static void rule3_free_while_waiting_leaves_the_queue(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    (void)state;
    EXPECT("A granted");
    wait_queued("x", 1);
    free_hold(B);
    UNTIL(redis_int("EXISTS %s", queue_of("x")) == 0);
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void rule3_free_before_anything_was_sent(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    free_hold(acquire_hold(a, "A", "x", -1));
    free_hold(acquire_hold(a, "B", "x", 0));
    stage_expect_nothing(100);
    UNTIL(redis_int("EXISTS x") == 0);
}

static void I6_grant_that_comes_after_a_free_is_given_back(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    for (int i = 0; i < 30; i++) { /* freed at every stage of the request */
        struct hold *A = acquire_hold(a, "A", "x", -1);
        for (int turns = 0; turns < i % 10; turns++) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        free_hold(A);
        struct hold *B = acquire_and_wait(b, "B", "x");
        release_hold(B);
        UNTIL(B->released == LW_OK);
        free_hold(B);
    }
    stage_clear_trace();
    UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
}

static void wait_for_ever_outlasts_several_holders(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 500));

    (void)state;
    EXPECT("A granted");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    stage_run_for(1800); /* several leases of the holder */
    stage_skip_if_lag(100);
    assert_int_equal(B->result, PENDING);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void waiting_begins_before_the_first_connection(void **state)
{
    struct server late;
    struct lw_client_options options = *client_of(.backoff_max_ms = 200);

    (void)state;
    server_absent(&late);
    struct peer *a = peer_start_at("a", late.url, &options);
    struct hold *A = acquire_hold(a, "A", "x", -1);
    acquire_hold(a, "C", "y", 200);
    EXPECT("C ETIMEOUT");
    assert_true(a->downs >= 1);
    server_restart(&late);
    EXPECT("A granted");
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    release_hold(A);
    EXPECT("A released OK");
    peer_close(a);
    EXPECT("a closed");
    server_stop(&late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(uncontended_lock_costs_no_script),
        STAGE_TEST(a_try_without_an_answer_is_asked_for_by_the_same_token),
        STAGE_TEST(who_queues_after_its_try_has_a_long_token),
        STAGE_TEST(first_who_joins_has_the_queue_live_on),
        STAGE_TEST(try_once_ends_busy_and_tells_the_remaining_lease),
        STAGE_TEST(release_grants_the_waiter),
        STAGE_TEST(siblings_wait_for_each_other_without_turns),
        STAGE_TEST(siblings_asked_for_at_once_keep_their_order),
        STAGE_TEST(first_try_grants_and_siblings_queue),
        STAGE_TEST(order_of_arrival_over_two_clients),
        STAGE_TEST(I4_hand_over_costs_two_commands_without_turns),
        STAGE_TEST(I4_cost_does_not_grow_with_the_number_of_waiters),
        STAGE_TEST(two_hundred_waiters_are_served_in_order),
        STAGE_TEST(wait_ends_on_time),
        STAGE_TEST(time_out_leaves_the_queue_to_the_next),
        STAGE_TEST(rule3_free_while_waiting_leaves_the_queue),
        STAGE_TEST(rule3_free_before_anything_was_sent),
        STAGE_TEST(I6_grant_that_comes_after_a_free_is_given_back),
        STAGE_TEST(wait_for_ever_outlasts_several_holders),
        STAGE_TEST(waiting_begins_before_the_first_connection),
    };

    return STAGE_RUN(tests);
}
