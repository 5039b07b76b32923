/* SPDX-License-Identifier: MIT */
/*
 * Local hand-over: the handles of one client for one mutex wait in a queue inside the
 * client, and one grant of Redis serves up to local_turns of them. Independent of how
 * handles are queued.
 *
 * Usual course: many handles of one client wait, and each is granted in order with a
 * fencing token of its own; only every sixteenth sends a command.
 */
#include "known.h"
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>

static struct peer *turning(const char *label, uint32_t turns)
{
    return peer_ready(label, client_of(.local_turns = turns));
}

static void ask_many(struct peer *peer, struct hold **all, int count, const char *name)
{
    char label[32];

    for (int i = 0; i < count; i++) {
        (void)snprintf(label, sizeof(label), "%s%d", peer->label, i);
        all[i] = acquire_hold(peer, label, name, -1);
    }
}

/* Each handle is granted in order and releases at once; fencing tokens increase. */
static void serve_in_order(struct hold **all, int count)
{
    uint64_t last = 0;

    for (int i = 0; i < count; i++) {
        UNTIL(all[i]->result == LW_OK);
        assert_held_by_redis(all[i]);
        if (all[i]->fence <= last) {
            stage_fail("I2: %llu after %llu", (unsigned long long)all[i]->fence,
                       (unsigned long long)last);
        }
        last = all[i]->fence;
        for (int j = i + 1; j < count; j++) {
            assert_int_equal(all[j]->result, PENDING);
        }
        release_hold(all[i]);
    }
    for (int i = 0; i < count; i++) {
        UNTIL(all[i]->released == LW_OK);
    }
    stage_clear_trace();
}

static void one_grant_of_redis_serves_sixteen(void **state)
{
    struct peer *a = turning("a", 16);
    struct hold *all[48];

    (void)state;
    make_scripts_known();
    ask_many(a, all, 48, "x");
    UNTIL(all[0]->result == LW_OK);
    monitor_start();
    serve_in_order(all, 48);
    int commands = monitor_count("");
    /* 4 or 5 releases, and a request behind each except the last; the first grant drew
     * only one token */
    if (commands > 10) {
        stage_fail("%d commands for 48 grants:\n%s", commands, monitor_text());
    }
    assert_int_equal(peer_stats(a).granted, 48);
    assert_int_in_range(peer_stats(a).passed, 42, 47);
}

static struct hold *who_holds(struct hold **all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i] != NULL && all[i]->result == LW_OK) {
            return all[i];
        }
    }
    return NULL;
}

static void turns_of_one_are_off(void **state)
{
    struct peer *a = turning("a", 1);
    struct hold *all[8];

    (void)state;
    ask_many(a, all, 8, "x");
    for (int i = 0; i < 8; i++) {
        struct hold *now = NULL;
        UNTIL((now = who_holds(all, 8)) != NULL);
        release_hold(now);
        UNTIL(now->released == LW_OK);
        for (int j = 0; j < 8; j++) {
            if (all[j] == now) {
                all[j] = NULL;
            }
        }
    }
    assert_int_equal(peer_stats(a).passed, 0);
    stage_clear_trace();
}

static void turns_of_two_pass_once_a_grant(void **state)
{
    struct peer *a = turning("a", 2), *b = turning("b", 2);
    struct hold *as[6], *bs[6];

    (void)state;
    struct hold *C = acquire_and_wait(peer_ready("c", NULL), "C", "x");
    EXPECT("C granted");
    ask_many(a, as, 6, "x");
    wait_queued("x", 1);
    ask_many(b, bs, 6, "x");
    wait_queued("x", 2); /* a token for each client, not for each handle */
    release_hold(C);
    EXPECT_SET("C released OK; a0 granted");
    static const char *const order[] = {"a1", "b0", "b1", "a2", "a3", "b2",
                                        "b3", "a4", "a5", "b4", "b5"};
    struct hold *now = as[0];
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s released OK; %s granted", now->label,
                       order[i]);
        release_hold(now);
        EXPECT_SET(text);
        now = order[i][0] == 'a' ? as[order[i][1] - '0'] : bs[order[i][1] - '0'];
    }
    release_hold(now);
    EXPECT("b5 released OK");
}

/* ---- another process is served within sixteen grants ---- */

static int served, of_others_waited;
static struct hold *other;

static void go_on(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT) {
        served++;
        if (other->result == PENDING) {
            of_others_waited++;
        }
        release_hold(hold);
    } else if (moment == AT_RELEASED) {
        free_hold(hold);
        if (other->result == PENDING) {
            acquire_hold(hold->peer, "g", "x", -1)->then = go_on;
        }
    }
}

static void other_process_is_served_within_sixteen_grants(void **state)
{
    struct peer *a = turning("a", 16), *b = turning("b", 16);

    (void)state;
    struct hold *first = acquire_and_wait(a, "A", "x");
    other = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    served = of_others_waited = 0;
    for (int i = 0; i < 40; i++) {
        acquire_hold(a, "g", "x", -1)->then = go_on;
    }
    release_hold(first);
    UNTIL(other->result == LW_OK);
    if (of_others_waited > 15) { /* `first` was served by the same grant */
        stage_fail("%d grants went before", of_others_waited);
    }
    release_hold(other);
    UNTIL(other->released != PENDING && peer_stats(a).waiting == 0);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_clear_trace();
}

/* ---- giving up in the local queue ---- */

static void giving_up_behind_a_sibling_costs_no_command(void **state)
{
    struct peer *a = turning("a", 16);

    (void)state;
    release_hold(acquire_and_wait(a, "F", "f"));
    EXPECT("F granted; F released OK");
    struct hold *G = acquire_and_wait(a, "G", "g"), *H = acquire_hold(a, "H", "g", -1);
    release_hold(G);
    EXPECT("G granted; G released OK; H granted");
    release_hold(H); /* from here on the server knows the scripts */
    EXPECT("H released OK");
    struct hold *P = acquire_and_wait(a, "P", "x"), *A = acquire_hold(a, "A", "x", -1);
    release_hold(P); /* a plain grant draws one token, the next one sixteen */
    EXPECT("P granted; P released OK; A granted");
    monitor_start();
    struct hold *T = acquire_hold(a, "T", "x", 150), *D = acquire_hold(a, "D", "x", -1);
    struct hold *E = acquire_hold(a, "E", "x", -1);
    acquire_hold(a, "B", "x", 0);
    EXPECT("B EBUSY");
    free_hold(D);
    EXPECT("T ETIMEOUT");
    assert_int_equal(monitor_count(""), 0);
    release_hold(A);
    EXPECT("A released OK; E granted");
    assert_int_equal(monitor_count(""), 0);
    assert_held_by_redis(E);
    assert_int_equal(T->result, LW_ETIMEOUT);
    release_hold(E);
    EXPECT("E released OK");
    assert_int_equal(monitor_count(""), 1);
}

static void last_one_to_give_up_leaves_the_queue(void **state)
{
    struct peer *a = turning("a", 16), *b = turning("b", 16);

    (void)state;
    acquire_and_wait(b, "B", "x");
    struct hold *D = acquire_hold(a, "D", "x", -1);
    acquire_hold(a, "T", "x", 100);
    wait_queued("x", 1);
    EXPECT("B granted; T ETIMEOUT");
    stage_run_for(50);
    assert_int_equal(redis_int("ZCARD %s", queue_of("x")), 1);
    free_hold(D);
    UNTIL(redis_int("EXISTS %s", queue_of("x")) == 0);
}

static void wait_0_with_a_sibling_is_busy_without_a_command(void **state)
{
    struct peer *a = turning("a", 16), *b = turning("b", 16);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x");
    acquire_and_wait(b, "H", "y");
    acquire_hold(a, "W", "y", -1);
    wait_queued("y", 1);
    EXPECT("A granted; H granted");
    monitor_start();
    struct hold *B = acquire_hold(a, "B", "x", 0); /* a sibling holds */
    acquire_hold(a, "C", "y", 0);                  /* a sibling waits */
    EXPECT("B EBUSY; C EBUSY");
    assert_int_equal(monitor_count(""), 0);
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, 30000);
    assert_held_by_redis(A);
}

static void release_s_callback_comes_before_the_successor_s_grant(void **state)
{
    struct peer *a = turning("a", 16);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x");
    struct hold *B = acquire_hold(a, "B", "x", -1), *C = acquire_hold(a, "C", "x", -1);
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK; C granted");
    free_hold(C);
}

static void free_while_held_passes_on(void **state)
{
    struct peer *a = turning("a", 16);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(a, "B", "x", -1);
    EXPECT("A granted");
    free_hold(A);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

/* ---- fencing tokens, and the link ---- */

static void handle_that_wants_a_number_gets_one_whoever_asked_before(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.local_turns = 16));

    (void)state;
    peer_wait_ready(a);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    struct hold *N =
        acquire_hold_with(a, "N", "x", asking(.wait_ms = -1, .flags = LW_NO_FENCE));
    UNTIL(redis_int("EXISTS x") == 1); /* without a token; its reply is held back */
    struct hold *F = acquire_hold(a, "F", "x", -1);
    free_hold(N);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("F granted"); /* players.h checks its fencing token */
    assert_true(lw_lock_fence(F->lock) > 0);
    assert_held_by_redis(F);
}

static void numbers_increase_with_and_without_LW_NO_FENCE_in_turn(void **state)
{
    struct peer *a = turning("a", 16);
    struct hold *all[20];
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        all[i] = acquire_hold_with(
            a, "A", "x", asking(.wait_ms = -1, .flags = i % 3 ? 0 : LW_NO_FENCE));
    }
    for (int i = 0; i < 20; i++) {
        UNTIL(all[i]->result == LW_OK);
        if (all[i]->fence && all[i]->fence <= last) {
            stage_fail("I2: %llu after %llu", (unsigned long long)all[i]->fence,
                       (unsigned long long)last);
        }
        last = all[i]->fence ? all[i]->fence : last;
        release_hold(all[i]);
    }
    UNTIL(all[19]->released == LW_OK);
    stage_clear_trace();
}

static void connection_cut_in_the_middle_of_turns(void **state)
{
    struct peer *a = turning("a", 16);
    struct hold *all[40];

    (void)state;
    ask_many(a, all, 40, "x");
    for (int i = 0; i < 40; i++) {
        UNTIL(all[i]->result != PENDING);
        assert_int_equal(all[i]->result, LW_OK);
        assert_held_by_redis(all[i]);
        long long id = i % 7 == 3 ? peer_link_id(a, i % 2) : 0;
        if (id) {
            redis_ok("CLIENT KILL ID %lld", id);
        }
        release_hold(all[i]);
    }
    UNTIL(all[39]->released != PENDING);
    stage_clear_trace();
    UNTIL(redis_int("EXISTS x") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(one_grant_of_redis_serves_sixteen),
        STAGE_TEST(turns_of_one_are_off),
        STAGE_TEST(turns_of_two_pass_once_a_grant),
        STAGE_TEST(other_process_is_served_within_sixteen_grants),
        STAGE_TEST(giving_up_behind_a_sibling_costs_no_command),
        STAGE_TEST(last_one_to_give_up_leaves_the_queue),
        STAGE_TEST(wait_0_with_a_sibling_is_busy_without_a_command),
        STAGE_TEST(release_s_callback_comes_before_the_successor_s_grant),
        STAGE_TEST(free_while_held_passes_on),
        STAGE_TEST(handle_that_wants_a_number_gets_one_whoever_asked_before),
        STAGE_TEST(numbers_increase_with_and_without_LW_NO_FENCE_in_turn),
        STAGE_TEST(connection_cut_in_the_middle_of_turns),
    };

    return STAGE_RUN(tests);
}
