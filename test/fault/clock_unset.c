/* SPDX-License-Identifier: MIT */
/*
 * A server whose clock was never set, as on a machine that boots without a battery: its
 * time is in 1970, and fencing tokens start from that. Requests without a fencing token
 * succeed. Requests for one fail with an error about the clock, on a link that stays up,
 * and succeed as soon as the clock is right. LOCKWIRE_CLOCK_PRELOAD in the environment is
 * the path of clock_preload.c's module.
 *
 * Usual course: set_clock(), then a request.
 */
#include "clocks.h"
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define UNSET ((int64_t)12 * 86400) /* 1970-01-13 */
#define FENCE_MIN ((uint64_t)1 << 50)

static void set_clock(int64_t seconds)
{
    *clock_seconds += seconds - clock_of(&stage.server);
    UNTIL(clock_of(&stage.server) >= seconds && clock_of(&stage.server) < seconds + 3600);
}

static struct peer *client_on_the_unset_clock(const char *label)
{
    set_clock(UNSET);
    return peer_ready(label, NULL);
}

static void assert_blames_the_clock(const char *text)
{
    if (strstr(text, "the server's clock") == NULL ||
        strstr(text, "1970-01-13") == NULL) {
        stage_fail("\"%s\" says nothing of the clock", text);
    }
}

static void assert_stayed_up(const struct peer *peer)
{
    assert_true(peer->up);
    assert_int_equal(peer->ups, 1);
    assert_int_equal(peer->downs, 0);
}

static size_t times_logged(const struct peer *peer, const char *text)
{
    size_t times = 0;

    for (const char *at = peer->log; (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    return times;
}

static void who_wants_a_number_is_told_of_the_clock(void **state)
{
    struct peer *a = client_on_the_unset_clock("a");

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct hold *A = acquire_hold(a, "A", "x", 0);

        EXPECT("A ECONN");
        assert_blames_the_clock(lw_lock_errstr(A->lock));
        free_hold(A);
    }
    acquire_hold_with(a, "E", "y", asking(.mode = LW_EXCLUSIVE));
    acquire_hold_with(a, "S", "z", asking(.mode = LW_SHARED, .wait_ms = 300));
    EXPECT("E ECONN; S ETIMEOUT");
    assert_blames_the_clock(lw_lock_errstr(holds->lock));
    assert_blames_the_clock(a->log);
    assert_int_equal(times_logged(a, "the server's clock"), 1);
    assert_int_equal(redis_int("EXISTS x y z"), 0);
    assert_stayed_up(a);
}

static void hand_over(enum lw_mode mode)
{
    unsigned flags = mode == LW_REDISSON ? 0 : LW_NO_FENCE;
    struct peer *a = client_on_the_unset_clock("a"), *b = peer_ready("b", NULL);
    struct hold *A, *B;

    A = acquire_hold_with(a, "A", "x",
                          asking(.mode = mode, .flags = flags, .lease_ms = 20000));
    EXPECT("A granted");
    B = acquire_hold_with(b, "B", "x",
                          asking(.mode = mode, .flags = flags, .wait_ms = -1));
    if (mode != LW_REDISSON) {
        UNTIL(redis_int("EXISTS %s", mode == LW_MUTEX ? queue_of("x")
                                                      : "lockwire:2:rwqueue:{x}") == 1);
    }
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    assert_true(lw_lock_remaining_ms(A->lock) > 10000);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_int_equal(A->fence, 0);
    assert_int_equal(B->fence, 0);
    release_hold(B);
    EXPECT("B released OK");
    assert_stayed_up(a);
    assert_stayed_up(b);
}

static void a_mutex_without_number_works(void **state)
{
    (void)state;
    hand_over(LW_MUTEX);
}

static void a_writer_without_number_works(void **state)
{
    (void)state;
    hand_over(LW_EXCLUSIVE);
}

static void a_lock_of_Redisson_works(void **state)
{
    (void)state;
    hand_over(LW_REDISSON);
}

static void who_waits_has_it_when_the_clock_is_set(void **state)
{
    struct peer *a = client_on_the_unset_clock("a");
    struct hold *A = acquire_hold(a, "A", "x", -1);

    (void)state;
    UNTIL(*lw_lock_errstr(A->lock));
    assert_blames_the_clock(lw_lock_errstr(A->lock));
    set_clock(time(NULL));
    EXPECT("A granted");
    assert_true(A->fence >= FENCE_MIN);
    assert_string_equal(lw_lock_errstr(A->lock), "");
    assert_held_by_redis(A);
    assert_stayed_up(a);
}

/* The server kept its data, and so the counter that started from an earlier clock. */
static void a_counter_that_was_kept_goes_on(void **state)
{
    set_clock(UNSET);
    redis_ok("SET lockwire:fence 1700000000000000 PX 86400000");
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    assert_true(A->fence > 1700000000000000);
    struct hold *B = acquire_hold_with(a, "B", "y", asking(.mode = LW_EXCLUSIVE));
    EXPECT("B granted");
    assert_true(B->fence > A->fence);
    assert_held_by_redis(B);
    assert_false(peer_logged(a, "clock is wrong"));
}

/* A grant from before the loss was noticed is released. */
static void a_counter_lost_meanwhile_is_the_clock_s_fault_too(void **state)
{
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        set_clock(UNSET);
        redis_ok("SET lockwire:fence 1700000000000000 PX 86400000");
        struct peer *a = peer_ready("a", NULL);

        redis_ok("DEL lockwire:fence");
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i]));
        EXPECT("A ECONN");
        assert_blames_the_clock(lw_lock_errstr(A->lock));
        UNTIL(redis_int("EXISTS x") == 0);
        assert_stayed_up(a);
        free_hold(A);
        peer_close(a);
        EXPECT("a closed");
    }
}

/* The hash has a token from when the clock was wrong; the same owner enters again. */
static void a_number_of_the_unset_clock_is_not_repeated(void **state)
{
    set_clock(time(NULL));
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "A", "x", asking(.mode = LW_EXCLUSIVE, .owner = "anna"));
    EXPECT("A granted");
    redis_ok("HSET x mode %s", "2 1 0 1 99999999999999 1036800000000 anna");
    acquire_hold_with(a, "B", "x", asking(.mode = LW_EXCLUSIVE, .owner = "anna"));
    EXPECT("B granted");
    assert_true(holds->fence >= FENCE_MIN);
    assert_stayed_up(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(who_wants_a_number_is_told_of_the_clock),
        STAGE_TEST(a_mutex_without_number_works),
        STAGE_TEST(a_writer_without_number_works),
        STAGE_TEST(a_lock_of_Redisson_works),
        STAGE_TEST(who_waits_has_it_when_the_clock_is_set),
        STAGE_TEST(a_counter_that_was_kept_goes_on),
        STAGE_TEST(a_counter_lost_meanwhile_is_the_clock_s_fault_too),
        STAGE_TEST(a_number_of_the_unset_clock_is_not_repeated),
    };

    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    return cmocka_run_group_tests(tests, clocks_open_stage, clocks_close_stage);
}
