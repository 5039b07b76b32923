/* SPDX-License-Identifier: MIT */
/*
 * max_inflight: however few commands may be outstanding at a time, all requests complete,
 * also if the callers that waited for replies are gone; and all complete with
 * busy_poll_us. Independent of what a client sends when it connects.
 *
 * Usual course: with one command at a time a client comes up, holds a lock and releases
 * it.
 */
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>

static struct peer *narrow(uint32_t max_inflight)
{
    struct peer *a = peer_ready("a", client_of(.max_inflight = max_inflight,
                                               .backoff_min_ms = 1, .local_turns = 1));

    return a;
}

static void a_client_comes_up_again_with_any_limit(void **state)
{
    (void)state;
    for (uint32_t limit = 1; limit <= 4; limit++) {
        struct peer *a = narrow(limit);

        for (int again = 0; again < 2; again++) {
            int ups = a->ups;
            struct hold *A = acquire_and_wait(a, "A", "x");

            redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
            UNTIL(a->ups > ups);
            release_hold(A);
            EXPECT("A granted; A released OK");
        }
        peer_close(a);
        EXPECT("a closed");
    }
}

static void no_more_than_the_limit_are_unanswered(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a =
        peer_start_at("a", proxy->url, client_of(.max_inflight = 2, .local_turns = 1));
    char name[8];

    (void)state;
    peer_wait_ready(a);
    monitor_start();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        acquire_hold_with(a, name, name, asking(.flags = LW_NO_FENCE));
    }
    UNTIL(monitor_count("set") == 2);
    stage_expect_nothing(100);
    assert_int_equal(monitor_count("set"), 2);
    monitor_stop();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("n0 granted; n1 granted; n2 granted; n3 granted; n4 granted; n5 granted; "
           "n6 granted; n7 granted; n8 granted; n9 granted");
}

#define MANY 100

static struct proxy *slow_way;
static struct hold *many[MANY];

/* Starts a client with one command at a time, 20 ms each. Requests from one turn of the
 * event loop keep its link busy for longer than a lease of a second. */
static struct peer *slow_peer(void)
{
    struct peer *a;

    slow_way = proxy_start(stage.server.path, false);
    a = peer_start_at(
        "a", slow_way->url,
        client_of(.max_inflight = 1, .local_turns = 1, .request_timeout_ms = 1000));
    peer_wait_ready(a);
    return a;
}

static void ask_for_many(struct peer *a)
{
    char name[8];

    proxy_delay(slow_way, COMMANDS, TO_SERVER, 20);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        many[i] =
            acquire_hold_with(a, name, name, asking(.wait_ms = -1, .flags = LW_NO_FENCE));
    }
}

static void many_are_granted(void)
{
    for (int i = 0; i < MANY; i++) {
        UNTIL(many[i]->result == LW_OK);
    }
}

static void a_lease_outlives_many_who_ask_in_one_turn(void **state)
{
    struct peer *a = slow_peer();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));

    (void)state;
    EXPECT("A granted");
    ask_for_many(a);
    many_are_granted();
    assert_int_equal(A->lost, PENDING);
    assert_held_by_redis(A);
}

static void a_release_does_not_wait_for_those_who_ask(void **state)
{
    struct peer *a = slow_peer();
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_and_wait(a, "B", "y"),
                *C;

    (void)state;
    C = acquire_hold(a, "C", "x", -1);
    wait_queued("x", 1);
    ask_for_many(a);
    renew_hold(B, 0);
    release_hold(A);
    free_hold(C);
    UNTIL(A->released == LW_OK && B->renewed == LW_OK);
    UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
    assert_int_equal(many[MANY - 1]->result, PENDING);
    many_are_granted();
}

/* The foreign key expires before the many have all been requested. */
static void who_waits_asks_again_before_those_who_ask(void **state)
{
    struct peer *a = slow_peer();
    struct hold *A;

    (void)state;
    redis_ok("SET x stranger PX 300");
    A = acquire_hold(a, "A", "x", -1);
    wait_queued("x", 1);
    ask_for_many(a);
    UNTIL(A->result == LW_OK);
    assert_int_equal(many[MANY - 1]->result, PENDING);
    many_are_granted();
}

/* No request draws a fencing token, so only the heartbeat can find that the counter is
 * gone. */
static void the_fence_is_seeded_before_those_who_ask(void **state)
{
    struct peer *a = slow_peer();

    (void)state;
    ask_for_many(a);
    redis_ok("DEL lockwire:fence");
    UNTIL(redis_int("EXISTS lockwire:fence") == 1);
    assert_int_equal(many[MANY - 1]->result, PENDING);
    many_are_granted();
}

/* Handles that request the lock again as soon as they have released it. A request of the
 * same client follows each release. */
static struct {
    struct lw_client *client;
    long grants;
    int open;
    bool over;
} churn;

static void churn_granted(struct lw_lock *lock, int status, void *name);

static void churn_ask(const char *name)
{
    struct lw_lock *lock;

    churn.open++;
    assert_int_equal(lw_acquire(churn.client, name, asking(.wait_ms = -1), churn_granted,
                                (void *)(uintptr_t)name, &lock),
                     0);
}

static void churn_released(struct lw_lock *lock, int status, void *name)
{
    (void)status;
    lw_lock_free(lock);
    churn.open--;
    if (!churn.over) {
        churn_ask(name);
    }
}

static void churn_granted(struct lw_lock *lock, int status, void *name)
{
    assert_int_equal(status, LW_OK);
    churn.grants++;
    assert_int_equal(lw_release(lock, churn_released, name), 0);
}

static void turns_of_many_names_keep_nobody_out(void **state)
{
    static const char *const names[] = {"n0", "n1", "n2", "n3", "n4", "n5"};
    struct peer *a = peer_ready("a", client_of(.max_inflight = 2, .local_turns = 16));

    (void)state;
    churn.client = a->client;
    for (int i = 0; i < 6 * 40; i++) {
        churn_ask(names[i % 6]);
    }
    UNTIL(churn.grants > 1000);
    struct hold *L = acquire_hold(a, "L", "lonely", 0);
    long before = churn.grants;
    UNTIL(L->result != PENDING || churn.grants > before + 50000);
    assert_int_equal(L->result, LW_OK);
    EXPECT("L granted");
    churn.over = true;
    UNTIL(churn.open == 0);
}

/* The caller of the renewal is gone when its reply comes. The release waits for the room
 * that the reply makes. */
static void an_answer_that_nobody_waits_for_makes_room(void **state)
{
    struct peer *a = narrow(1);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    renew_hold(A, 0);
    release_hold(A);
    EXPECT("A granted; A renewed ECANCELED; A released OK");
    A = acquire_and_wait(a, "B", "x");
    renew_hold(A, 0);
    free_hold(A);
    EXPECT("B granted");
    acquire_and_wait(a, "C", "x");
    EXPECT("C granted");
}

static void what_was_not_sent_yet_is_never_sent(void **state)
{
    struct peer *a = narrow(1);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    monitor_start();
    renew_hold(A, 40000);
    renew_hold(A, 50000);
    release_hold(A);
    EXPECT("A granted; A renewed ECANCELED; A renewed ECANCELED; A released OK");
    assert_true(monitor_saw("40000"));
    assert_false(monitor_saw("50000"));
    monitor_stop();
}

static void all_complete_with_busy_polling(void **state)
{
    struct peer *a = peer_ready("a", client_of(.busy_poll_us = 100)), *b;
    char url[64];
    struct hold *A, *B;

    (void)state;
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d",
                   server_listen(&stage.server));
    b = peer_start_at("b", url, client_of(.busy_poll_us = 1));
    peer_wait_ready(b);
    A = acquire_and_wait(a, "A", "x");
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK");
    B = acquire_hold_with(b, "B", "x", asking(.wait_ms = STAGE_WAIT_MS));
    wait_queued("x", 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_client_comes_up_again_with_any_limit),
        STAGE_TEST(no_more_than_the_limit_are_unanswered),
        STAGE_TEST(a_lease_outlives_many_who_ask_in_one_turn),
        STAGE_TEST(a_release_does_not_wait_for_those_who_ask),
        STAGE_TEST(who_waits_asks_again_before_those_who_ask),
        STAGE_TEST(the_fence_is_seeded_before_those_who_ask),
        STAGE_TEST(an_answer_that_nobody_waits_for_makes_room),
        STAGE_TEST(what_was_not_sent_yet_is_never_sent),
        STAGE_TEST(all_complete_with_busy_polling),
        STAGE_TEST(turns_of_many_names_keep_nobody_out),
    };

    return STAGE_RUN(tests);
}
