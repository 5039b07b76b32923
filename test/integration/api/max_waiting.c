/* SPDX-License-Identifier: MIT */
/* max_waiting: a request ends with LW_EBUSY if this many others already wait. Independent
 * of how the server counts.
 *
 * Usual course: one client holds, others wait, one more is refused, and does not join the
 * queue. */
#include "groups.h"
#include "keep_scene.h"
#include "monitor.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>

#define MUTEX_QUEUE "lockwire:2:queue:{x}"
#define RW_QUEUE "lockwire:2:rwqueue:{x}"

static struct peer *a, *b;

static struct hold *limited(struct peer *peer, const char *label, enum lw_mode mode,
                            uint32_t max_waiting)
{
    return acquire_hold_with(
        peer, label, "x",
        asking(.mode = mode, .wait_ms = -1, .max_waiting = max_waiting));
}

static void queue_is(enum lw_mode mode, long long members)
{
    UNTIL(redis_int("ZCARD %s", mode == LW_MUTEX ? MUTEX_QUEUE : RW_QUEUE) == members);
}

static void refuses_beyond_the_limit_in(enum lw_mode mode)
{
    struct hold *first, *A, *B, *C;

    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    first = acquire_hold_with(b, "first", "x",
                              asking(.mode = mode == LW_MUTEX ? mode : LW_EXCLUSIVE));
    EXPECT("first granted");
    A = limited(a, "A", mode, 1);
    queue_is(mode, 1);
    C = limited(b, "C", mode, 1);
    EXPECT("C EBUSY");
    assert_int_in_range(lw_lock_retry_ms(C->lock), 1, 30000);
    assert_string_equal(lw_lock_errstr(C->lock), "max_waiting others already wait");
    assert_int_equal(lw_lock_error(C->lock), LW_EBUSY);
    assert_int_equal(lw_lock_state(C->lock), LW_DONE);
    B = limited(b, "B", mode, 2);
    queue_is(mode, 2);
    limited(a, "D", mode, 2);
    EXPECT("D EBUSY");
    assert_int_equal(peer_stats(b).busy, 1);
    assert_int_equal(peer_stats(b).waiting, 1);
    queue_is(mode, 2);
    release_hold(first);
    if (mode == LW_SHARED) { /* both read */
        EXPECT_SET("first released OK; A granted; B granted");
        return;
    }
    EXPECT_SET("first released OK; A granted");
    limited(a, "E", mode, 1);
    EXPECT("E EBUSY"); /* B waits */
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    limited(a, "F", mode, 1); /* a holder does not count */
    queue_is(mode, 1);
    release_hold(B);
    EXPECT_SET("B released OK; F granted");
}

static void refuses_beyond_the_limit_mutex(void **state)
{
    (void)state;
    refuses_beyond_the_limit_in(LW_MUTEX);
}

static void refuses_beyond_the_limit_exclusive(void **state)
{
    (void)state;
    refuses_beyond_the_limit_in(LW_EXCLUSIVE);
}

static void refuses_beyond_the_limit_shared(void **state)
{
    (void)state;
    refuses_beyond_the_limit_in(LW_SHARED);
}

/* Requests of every kind count. */
static void refuses_a_semaphore_beyond_the_limit(void **state)
{
    struct hold *A;

    (void)state;
    a = peer_ready("a", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.mode = LW_SHARED, .permits = 1));
    EXPECT("A granted");
    acquire_hold_with(a, "W", "x", asking(.mode = LW_EXCLUSIVE, .wait_ms = -1));
    queue_is(LW_SHARED, 1);
    acquire_hold_with(
        a, "B", "x",
        asking(.mode = LW_SHARED, .permits = 1, .wait_ms = -1, .max_waiting = 1));
    EXPECT("B EBUSY");
    acquire_hold_with(
        a, "C", "x",
        asking(.mode = LW_SHARED, .permits = 1, .wait_ms = -1, .max_waiting = 2));
    queue_is(LW_SHARED, 2);
    release_hold(A);
    EXPECT_SET("A released OK; W granted");
}

/* A free lock is granted at once; the second of three requests waits. */
static void three_at_once_in(enum lw_mode mode)
{
    struct hold *A;

    a = peer_ready("a", client_of(.local_turns = 16));
    A = limited(a, "A", mode, 1);
    limited(a, "B", mode, 1);
    limited(a, "C", mode, 1);
    EXPECT_SET("A granted; C EBUSY");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void three_at_once_mutex(void **state)
{
    (void)state;
    three_at_once_in(LW_MUTEX);
}

static void three_at_once_exclusive(void **state)
{
    (void)state;
    three_at_once_in(LW_EXCLUSIVE);
}

/* The client's own waiters count one by one, although they share one token. */
static void local_waiters_count_one_by_one(void **state)
{
    struct hold *A;

    (void)state;
    a = peer_ready("a", client_of(.local_turns = 16));
    b = peer_ready("b", NULL);
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    acquire_hold(a, "L1", "x", -1);
    acquire_hold(a, "L2", "x", -1);
    monitor_start();
    limited(a, "B", LW_MUTEX, 2);
    EXPECT("B EBUSY");
    stage_expect_nothing(50);
    assert_int_equal(monitor_count("evalsha"), 0); /* no command was needed */
    monitor_stop();
    limited(a, "C", LW_MUTEX, 3);
    queue_is(LW_MUTEX, 1);
    limited(a, "D", LW_MUTEX, 3);
    EXPECT("D EBUSY");
    limited(b, "E", LW_MUTEX, 1); /* for another client only C counts */
    EXPECT("E EBUSY");
    release_hold(A); /* C is in the queue, and local waiters follow it */
    EXPECT_SET("A released OK; C granted");
}

/* A handle that tries once does not wait. */
static void local_waiters_behind_one_token_count(void **state)
{
    struct hold *first;

    (void)state;
    a = peer_ready("a", client_of(.local_turns = 16));
    b = peer_ready("b", NULL);
    first = acquire_and_wait(b, "first", "x");
    EXPECT("first granted");
    acquire_hold(a, "L1", "x", -1);
    acquire_hold(a, "L2", "x", -1);
    acquire_hold(a, "L3", "x", -1);
    queue_is(LW_MUTEX, 1);
    limited(a, "B", LW_MUTEX, 3);
    EXPECT("B EBUSY");
    limited(a, "C", LW_MUTEX, 4);
    queue_is(LW_MUTEX, 2);
    limited(b, "D", LW_MUTEX, 3); /* for another client they count as one, besides C */
    queue_is(LW_MUTEX, 3);
    release_hold(first);
    EXPECT_SET("first released OK; L1 granted");
}

/* The requests that are sent before the subscription is up do not join; the limit is
 * checked when they do. */
static void requests_before_the_subscription_in(enum lw_mode mode)
{
    struct proxy *way = proxy_start(stage.server.path, false);
    struct hold *first, *A;

    b = peer_ready("b", NULL);
    first = acquire_hold_with(b, "first", "x", asking(.mode = mode));
    EXPECT("first granted");
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, true);
    a = peer_start_at("a", way->url, NULL);
    A = limited(a, "A", mode, 1);
    limited(a, "B", mode, 1);
    limited(a, "C", mode, 1);
    UNTIL(peer_stats(a).commands >= 6);
    stage_expect_nothing(50);
    queue_is(mode, 0);
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, false);
    EXPECT_SET("B EBUSY; C EBUSY");
    queue_is(mode, 1);
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, true);
    struct peer *c = peer_start_at("c", way->url, NULL);
    limited(c, "D", mode, 1); /* not subscribed, and refused at once */
    EXPECT("D EBUSY");
    release_hold(first);
    EXPECT_SET("first released OK; A granted");
    release_hold(A);
    EXPECT("A released OK");
}

static void requests_before_the_subscription_mutex(void **state)
{
    (void)state;
    requests_before_the_subscription_in(LW_MUTEX);
}

static void requests_before_the_subscription_exclusive(void **state)
{
    (void)state;
    requests_before_the_subscription_in(LW_EXCLUSIVE);
}

/* A waiter loses its connection, and then the queue is lost. When the waiter returns,
 * another one is in the queue. The first one gets its place back by its ticket. */
static void a_waiter_that_rejoins_is_not_refused_in(enum lw_mode mode)
{
    struct proxy *way = proxy_start(stage.server.path, false);
    struct hold *first, *A;

    b = peer_ready("b", NULL);
    first = acquire_hold_with(b, "first", "x", asking(.mode = mode));
    EXPECT("first granted");
    a = peer_start_at("a", way->url, NULL);
    peer_wait_ready(a);
    A = limited(a, "A", mode, 1);
    queue_is(mode, 1);
    UNTIL(lw_lock_position(A->lock) == 0);
    proxy_refuse(way, true);
    proxy_cut(way, COMMANDS);
    proxy_cut(way, SUBSCRIPTION);
    UNTIL(!a->up);
    redis_ok("DEL %s", mode == LW_MUTEX ? MUTEX_QUEUE : RW_QUEUE);
    acquire_hold_with(b, "B", "x", asking(.mode = mode, .wait_ms = -1));
    queue_is(mode, 1);
    proxy_refuse(way, false);
    queue_is(mode, 2);
    UNTIL(lw_lock_position(A->lock) == 0);
    release_hold(first);
    EXPECT_SET("first released OK; A granted");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void a_waiter_that_rejoins_is_not_refused_mutex(void **state)
{
    (void)state;
    a_waiter_that_rejoins_is_not_refused_in(LW_MUTEX);
}

static void a_waiter_that_rejoins_is_not_refused_exclusive(void **state)
{
    (void)state;
    a_waiter_that_rejoins_is_not_refused_in(LW_EXCLUSIVE);
}

/* The reply to the request that joined is lost. */
static void a_request_whose_reply_is_lost_is_not_refused(void **state)
{
    struct proxy *way = proxy_start(stage.server.path, false);
    struct hold *first;

    (void)state;
    b = peer_ready("b", NULL);
    first = acquire_and_wait(b, "first", "x");
    EXPECT("first granted");
    a = peer_start_at("a", way->url, NULL);
    peer_wait_ready(a);
    acquire_hold(a, "T", "x", 0); /* from now on the script is sent first */
    EXPECT("T EBUSY");
    proxy_hold(way, COMMANDS, TO_CLIENT, true);
    limited(a, "A", LW_MUTEX, 1);
    queue_is(LW_MUTEX, 1);
    proxy_cut(way, COMMANDS);
    proxy_hold(way, COMMANDS, TO_CLIENT, false);
    UNTIL(a->downs == 1 && a->up);
    release_hold(first);
    EXPECT_SET("first released OK; A granted");
}

static void a_dead_waiter_counts_until_it_is_removed(void **state)
{
    struct hold *first, *A;

    (void)state;
    a = peer_ready("a", NULL);
    first = acquire_and_wait(a, "first", "x");
    EXPECT("first granted");
    redis_ok("ZADD " MUTEX_QUEUE
             " 1 77777777-1111-4222-8333-444455556666:00000000000000000000001:2000-");
    redis_ok("PEXPIRE " MUTEX_QUEUE " 100000");
    limited(a, "B", LW_MUTEX, 1);
    EXPECT("B EBUSY");
    A = limited(a, "A", LW_MUTEX, 2);
    queue_is(LW_MUTEX, 2);
    release_hold(first);
    EXPECT_SET("first released OK; A granted");
    limited(a, "C", LW_MUTEX, 1);
    queue_is(LW_MUTEX, 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
}

/* A lease has expired while others wait: the first of them gets the lock, and only the
 * others count. */
static void an_expired_lock_with_a_full_queue(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    redis_ok("SET x foreign PX 600000");
    acquire_hold(a, "B", "x", -1);
    acquire_hold(a, "C", "x", -1);
    queue_is(LW_MUTEX, 2);
    redis_ok("DEL x");
    limited(a, "A", LW_MUTEX, 2);
    EXPECT("B granted");
    queue_is(LW_MUTEX, 2);
    limited(a, "D", LW_MUTEX, 2);
    EXPECT("D EBUSY");
}

static void an_owner_that_holds_is_not_refused(void **state)
{
    struct hold *A, *B, *R;

    (void)state;
    a = peer_ready("a", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.mode = LW_SHARED, .owner = "anna"));
    R = acquire_hold_with(a, "R", "x", asking(.mode = LW_SHARED, .owner = "rita"));
    EXPECT("A granted; R granted");
    B = acquire_hold_with(a, "B", "x",
                          asking(.mode = LW_EXCLUSIVE, .owner = "bert", .wait_ms = -1));
    queue_is(LW_EXCLUSIVE, 1);
    acquire_hold_with(
        a, "A2", "x",
        asking(.mode = LW_SHARED, .owner = "anna", .wait_ms = -1, .max_waiting = 1));
    EXPECT("A2 granted");
    acquire_hold_with(
        a, "W", "x",
        asking(.mode = LW_EXCLUSIVE, .owner = "anna", .wait_ms = -1, .max_waiting = 1));
    queue_is(LW_EXCLUSIVE, 2);
    release_hold(R);
    EXPECT_SET("R released OK; W granted");
    (void)A, (void)B;
}

static void a_foreign_key_counts_waiters_as_well(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    stage.keys_may_stay = true;
    redis_ok("RPUSH x foreign");
    redis_ok("PEXPIRE x 600000");
    for (int i = 0; i < 2; i++) {
        enum lw_mode mode = i == 0 ? LW_MUTEX : LW_EXCLUSIVE;

        limited(a, "A", mode, 1);
        queue_is(mode, 1);
        limited(a, "B", mode, 1);
        EXPECT("B EBUSY");
    }
}

static void a_limit_of_others_does_not_matter(void **state)
{
    struct hold *A;

    (void)state;
    a = peer_ready("a", client_of(.local_turns = 16));
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    limited(a, "B", LW_MUTEX, 1);
    queue_is(LW_MUTEX, 1);
    acquire_hold(a, "C", "x", -1);
    acquire_hold_with(a, "D", "x", asking(.max_waiting = 9)); /* wait_ms 0 */
    EXPECT("D EBUSY");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

static void a_keep_retries(void **state)
{
    struct hold *first, *B;
    struct keeper *K;

    (void)state;
    a = peer_ready("a", NULL);
    first = acquire_and_wait(a, "first", "x");
    B = acquire_hold(a, "B", "x", -1);
    queue_is(LW_MUTEX, 1);
    EXPECT("first granted");
    K = keeper_start(a, "K", "x", asking(.max_waiting = 1));
    UNTIL(peer_logged(a, "max_waiting others already wait; retrying in 1000 ms"));
    assert_int_equal(lw_lock_state(lock_of(K)), LW_DONE);
    release_hold(first);
    EXPECT_SET("first released OK; B granted");
    UNTIL(lw_lock_position(lock_of(K)) == 0);
    release_hold(B);
    EXPECT_SET("B released OK; K gained");
}

static void several_names_end_together(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    acquire_and_wait(b, "first", "x");
    EXPECT("first granted");
    acquire_hold(b, "B", "x", -1);
    queue_is(LW_MUTEX, 1);
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1, .max_waiting = 1), "w x y");
    EXPECT("G EBUSY");
    assert_int_in_range(lw_lock_retry_ms(lw_all_lock(G->all, 1)), 1, 30000);
    UNTIL(redis_int("EXISTS w y") == 0);
    struct group *H = group_ask(a, "H", asking(.wait_ms = -1, .max_waiting = 2), "w x y");
    queue_is(LW_MUTEX, 2);
    group_free(H);
    queue_is(LW_MUTEX, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(refuses_beyond_the_limit_mutex),
        STAGE_TEST(refuses_beyond_the_limit_exclusive),
        STAGE_TEST(refuses_beyond_the_limit_shared),
        STAGE_TEST(refuses_a_semaphore_beyond_the_limit),
        STAGE_TEST(three_at_once_mutex),
        STAGE_TEST(three_at_once_exclusive),
        STAGE_TEST(local_waiters_count_one_by_one),
        STAGE_TEST(local_waiters_behind_one_token_count),
        STAGE_TEST(requests_before_the_subscription_mutex),
        STAGE_TEST(requests_before_the_subscription_exclusive),
        STAGE_TEST(a_waiter_that_rejoins_is_not_refused_mutex),
        STAGE_TEST(a_waiter_that_rejoins_is_not_refused_exclusive),
        STAGE_TEST(a_request_whose_reply_is_lost_is_not_refused),
        STAGE_TEST(a_dead_waiter_counts_until_it_is_removed),
        STAGE_TEST(an_expired_lock_with_a_full_queue),
        STAGE_TEST(an_owner_that_holds_is_not_refused),
        STAGE_TEST(a_foreign_key_counts_waiters_as_well),
        STAGE_TEST(a_limit_of_others_does_not_matter),
        STAGE_TEST(a_keep_retries),
        STAGE_TEST(several_names_end_together),
    };

    return STAGE_RUN(tests);
}
