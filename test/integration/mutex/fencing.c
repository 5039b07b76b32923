/* SPDX-License-Identifier: MIT */
/*
 * Fencing tokens. I2: the token of every grant is larger than those of all earlier grants
 * of the name, whatever happened to the keys. Independent of how tokens are drawn.
 *
 * Usual course: grants come one after another, in every way that there is, and their
 * tokens are compared.
 */
#include "monitor.h"
#include "players.h"
#include "process.h"
#include "proxy.h"

#include <stdio.h>

static uint64_t last;

static void later_than_the_last(const struct hold *hold)
{
    if (hold->fence <= last) {
        stage_fail("I2: %s has %llu, there was %llu", hold->label,
                   (unsigned long long)hold->fence, (unsigned long long)last);
    }
    if (hold->fence < (UINT64_C(1) << 50) || hold->fence >= (UINT64_C(1) << 53)) {
        stage_fail("I2: %llu is no number", (unsigned long long)hold->fence);
    }
    if (lw_lock_fence(hold->lock) != hold->fence) {
        stage_fail("I2: %s changed its number", hold->label);
    }
    last = hold->fence;
}

static void grant(struct peer *peer)
{
    struct hold *A = acquire_and_wait(peer, "A", "x");

    later_than_the_last(A);
    release_hold(A);
    UNTIL(A->released == LW_OK);
    assert_true(lw_lock_fence(A->lock) == A->fence); /* also after the release */
    free_hold(A);
    stage_clear_trace();
}

static void I2_increases_over_plain_grants_of_two_clients(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    last = 0;
    for (int i = 0; i < 20; i++) {
        grant(i % 2 ? a : b);
    }
}

static void I2_increases_over_hand_overs(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *now = acquire_and_wait(a, "A", "x");

    (void)state;
    last = 0;
    later_than_the_last(now);
    for (int i = 0; i < 10; i++) {
        struct hold *next = acquire_hold(i % 2 ? a : b, "N", "x", -1);
        wait_queued("x", 1);
        release_hold(now);
        UNTIL(next->result == LW_OK);
        later_than_the_last(next);
        now = next;
    }
    stage_clear_trace();
}

static void I2_increases_over_mixed_ways_and_processes(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 4)),
                *b = peer_ready("b", NULL);
    struct process *process = process_start("P", NULL);

    (void)state;
    last = 0;
    for (int i = 0; i < 5; i++) {
        grant(a);
        grant(b);
        process_tell(process, "acquire D x 0 30000");
        UNTIL(stage_has("P: D granted"));
        struct hold *one = acquire_hold(a, "A", "x", -1),
                    *two = acquire_hold(a, "A", "x", -1);
        wait_queued("x", 1);
        if (process->fence <= last) {
            stage_fail("I2: %llu after %llu", process->fence, (unsigned long long)last);
        }
        last = process->fence;
        process_tell(process, "release D");
        UNTIL(one->result == LW_OK);
        later_than_the_last(one);
        release_hold(one);
        UNTIL(two->result == LW_OK);
        later_than_the_last(two);
        release_hold(two);
        UNTIL(two->released == LW_OK && stage_has("P: D released OK"));
        stage_clear_trace();
    }
}

static void I2_increases_after_the_counter_was_deleted(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    last = 0;
    for (int i = 0; i < 10; i++) {
        grant(a);
        redis_ok("DEL lockwire:fence");
        grant(b);
        redis_ok("DEL lockwire:fence");
    }
}

static void I2_increases_after_the_counter_was_deleted_and_handed_over(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    (void)state;
    last = A->fence;
    wait_queued("x", 1);
    redis_ok("DEL lockwire:fence");
    release_hold(A);
    UNTIL(B->result == LW_OK);
    later_than_the_last(B);
    stage_clear_trace();
}

static void I2_increases_after_FLUSHALL(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    last = 0;
    for (int i = 0; i < 5; i++) {
        grant(a);
        redis_ok("FLUSHALL");
        grant(b);
        redis_ok("FLUSHALL");
    }
}

static void I2_increases_after_an_empty_restart(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100));

    (void)state;
    last = 0;
    for (int i = 0; i < 3; i++) {
        grant(a);
        server_restart(&stage.server);
        peer_wait_ready(a);
    }
    grant(a);
}

/* The counter is an older one, as after a failover that lost the last writes. */
static void I2_increases_after_a_reconnect_although_the_counter_went_back(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100));
    char old[32];

    (void)state;
    last = 0;
    (void)snprintf(old, sizeof(old), "%s", redis_text("GET lockwire:fence"));
    for (int i = 0; i < 10; i++) {
        grant(a);
    }
    redis_ok("SET lockwire:fence %s PX 86400000", old);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups == 2);
    grant(a);
}

static void I2_counter_of_the_wrong_kind_gives_no_small_number(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    last = 0;
    grant(a);
    redis_ok("SET lockwire:fence 5 PX 86400000");
    grant(a);
    redis_ok("SET lockwire:fence 9007199254740992 PX 86400000"); /* 2^53 */
    grant(a);
    redis_ok("SET lockwire:fence word PX 86400000");
    grant(a);
}

static void no_fence_saves_the_command_and_tells_0(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    release_hold(acquire_and_wait(a, "F", "f"));
    EXPECT("F granted; F released OK");
    monitor_start();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.flags = LW_NO_FENCE));
    EXPECT("A granted");
    assert_int_equal(lw_lock_fence(A->lock), 0);
    assert_int_equal(monitor_count("set"), 1);
    assert_int_equal(monitor_count("incr"), 0);
    release_hold(A);
    EXPECT("A released OK");
}

static void fence_is_0_where_nothing_was_granted(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(a, "A", "x");
    struct hold *B = acquire_hold(b, "B", "x", 0), *C = acquire_hold(b, "C", "x", -1);
    EXPECT("A granted; B EBUSY");
    assert_int_equal(lw_lock_fence(B->lock), 0);
    assert_int_equal(lw_lock_fence(C->lock), 0);
}

static void counter_has_a_ttl_of_a_day(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    last = 0;
    grant(a);
    assert_int_in_range(redis_int("PTTL lockwire:fence"), 86000000, 86400000);
}

/* A plain try finds the counter lost, and its client is freed before the reply. */
static void a_client_dies_with_the_counter_it_made(struct peer *c, struct proxy *proxy)
{
    redis_ok("DEL lockwire:fence");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    acquire_hold_with(c, "C", "y", asking(.lease_ms = 1000));
    UNTIL(redis_int("EXISTS lockwire:fence") == 1);
    peer_free(c);
    proxy_stop(proxy);
    stage.notes_may_stay = true;
}

static void I9_a_heartbeat_gives_a_counter_without_a_ttl_one(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_ready("a", client_of(.request_timeout_ms = 3000)),
                *c = peer_start_at("c", proxy->url, NULL);

    (void)state;
    peer_wait_ready(c);
    last = 0;
    grant(a);
    a_client_dies_with_the_counter_it_made(c, proxy);
    UNTIL(redis_int("PTTL lockwire:fence") > 0);
    grant(a);
    UNTIL(redis_int("EXISTS y") == 0);
}

static void I9_who_connects_replaces_a_counter_without_a_ttl(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *c =
        peer_start_at("c", proxy->url, client_of(.request_timeout_ms = 30000));

    (void)state;
    peer_wait_ready(c);
    a_client_dies_with_the_counter_it_made(c, proxy);
    assert_string_equal(redis_text("GET lockwire:fence"), "1");
    assert_int_equal(redis_int("PTTL lockwire:fence"), -1);
    peer_ready("a", NULL);
    assert_true(redis_int("PTTL lockwire:fence") > 0);
    assert_true(atoll(redis_text("GET lockwire:fence")) > 1LL << 50);
    UNTIL(redis_int("EXISTS y") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(I2_increases_over_plain_grants_of_two_clients),
        STAGE_TEST(I2_increases_over_hand_overs),
        STAGE_TEST(I2_increases_over_mixed_ways_and_processes),
        STAGE_TEST(I2_increases_after_the_counter_was_deleted),
        STAGE_TEST(I2_increases_after_the_counter_was_deleted_and_handed_over),
        STAGE_TEST(I2_increases_after_FLUSHALL),
        STAGE_TEST(I2_increases_after_an_empty_restart),
        STAGE_TEST(I2_increases_after_a_reconnect_although_the_counter_went_back),
        STAGE_TEST(I2_counter_of_the_wrong_kind_gives_no_small_number),
        STAGE_TEST(no_fence_saves_the_command_and_tells_0),
        STAGE_TEST(fence_is_0_where_nothing_was_granted),
        STAGE_TEST(counter_has_a_ttl_of_a_day),
        STAGE_TEST(I9_a_heartbeat_gives_a_counter_without_a_ttl_one),
        STAGE_TEST(I9_who_connects_replaces_a_counter_without_a_ttl),
    };

    return STAGE_RUN(tests);
}
