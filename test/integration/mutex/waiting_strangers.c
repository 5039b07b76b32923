/* SPDX-License-Identifier: MIT */
/*
 * Foreign keys: `SET NX` holders with and without TTL, keys of another type, companion
 * keys of the wrong type. Their names begin with "stranger". Independent of how often the
 * library polls.
 *
 * Usual course: a foreign client holds the lock; a try is busy, a waiter is granted when
 * the foreign key has gone; that key is not touched.
 */
#include "players.h"

#include <stdio.h>
#include <string.h>

#define NAME "stranger"

static void foreign_holder_excludes_and_is_excluded(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("SET %s theirs NX PX 60000", NAME);
    struct hold *A = acquire_hold(a, "A", NAME, 0);
    EXPECT("A EBUSY");
    assert_int_in_range(lw_lock_retry_ms(A->lock), 50000, 60000);
    assert_false(peer_logged(a, "has no TTL"));
    assert_string_equal(redis_text("GET %s", NAME), "theirs");
    redis_ok("DEL %s", NAME);
    struct hold *B = acquire_and_wait(a, "B", NAME);
    assert_string_equal(redis_text("SET %s theirs NX PX 60000", NAME), "");
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT("B granted; B released OK");
    assert_string_equal(redis_text("SET %s theirs NX PX 60000", NAME), "OK");
}

static void foreign_lease_that_ends_grants_the_waiter(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("SET %s theirs NX PX 700", NAME);
    int64_t before = now_ms();
    struct hold *A = acquire_hold(a, "A", NAME, -1);
    EXPECT("A granted");
    assert_true(A->result_ms - before >= 690);
    stage_skip_if_lag(50);
    /* The first waiter polls exactly when the lease ends. */
    assert_int_in_range(A->result_ms - before, 690, 1000);
}

static void several_waiters_behind_a_foreign_lease_keep_their_order(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A, *B;

    (void)state;
    redis_ok("SET %s theirs NX PX 500", NAME);
    A = acquire_hold(a, "A", NAME, -1);
    wait_queued(NAME, 1);
    B = acquire_hold(b, "B", NAME, -1);
    EXPECT("A granted");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
}

static void foreign_holder_without_ttl_is_waited_for(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("SET %s theirs", NAME);
    struct hold *A = acquire_hold(a, "A", NAME, 0), *B = acquire_hold(a, "B", NAME, -1);
    EXPECT("A EBUSY");
    assert_int_equal(lw_lock_retry_ms(A->lock), -1);
    assert_int_equal(peer_count_logged(a, "4 key " NAME " has no TTL: "), 1);
    stage_expect_nothing(300);
    assert_string_equal(redis_text("GET %s", NAME), "theirs");
    assert_int_equal(redis_int("PTTL %s", NAME), -1);
    redis_ok("DEL %s", NAME);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

/* Some programs set the largest time that there is, to keep a lock indefinitely, or
 * confuse units of time. */
static void a_foreign_lease_of_ages_is_a_lease(void **state)
{
    static const char *const ends[] = {"9200000000000000000", "9999999999999000",
                                       "1900000000000000"};
    static const char *const values[] = {"theirs", "theirs+"};
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (int i = 0; i < 6; i++) {
        redis_ok("SET %s %s", NAME, values[i % 2]);
        redis_int("PEXPIREAT %s %s", NAME, ends[i / 2]);
        struct hold *A = acquire_hold(a, "A", NAME, 0);
        EXPECT("A EBUSY");
        assert_true(lw_lock_retry_ms(A->lock) > 100000000000000);
        free_hold(A);
        struct hold *B = acquire_hold(a, "B", NAME, -1);
        wait_queued(NAME, 1);
        redis_ok("DEL %s %s", NAME, queue_of(NAME));
        free_hold(B);
    }
    assert_int_equal(peer_stats(a).reconnects, 0);
    assert_int_equal(peer_stats(a).resent, 0);
}

static void foreign_release_is_found_by_asking(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("SET %s theirs NX PX 900", NAME);
    acquire_hold(a, "A", NAME, -1);
    wait_queued(NAME, 1);
    redis_ok("DEL %s", NAME);
    EXPECT("A granted");
}

/* ---- a key of another type ---- */

static const char *dump_of(const char *name)
{
    return redis_text("EVAL %s 1 %s", "return redis.sha1hex(redis.call('DUMP', KEYS[1]))",
                      name);
}

static void of_another_type(const char *type, const char *command)
{
    struct peer *a = peer_ready("a", NULL);
    char dump[64];

    redis_ok(command, NAME);
    redis_ok("PEXPIRE %s 1000", NAME);
    (void)snprintf(dump, sizeof(dump), "%s", dump_of(NAME));
    struct hold *A = acquire_hold(a, "A", NAME, 0), *B = acquire_hold(a, "B", NAME, -1);
    EXPECT("A EBUSY");
    assert_int_in_range(lw_lock_retry_ms(A->lock), 0, 1000);
    stage_run_for(300);
    if (redis_int("EXISTS %s", NAME) == 1 && B->result == PENDING) {
        assert_string_equal(dump_of(NAME), dump);
    }
    if (!peer_logged(a, type) || !peer_logged(a, NAME)) {
        stage_fail("the log says neither \"%s\" nor where: %s", type, a->log);
    }
    EXPECT("B granted"); /* when the foreign key has expired by itself */
    assert_held_by_redis(B);
    release_hold(B);
    EXPECT("B released OK");
}

static void hash_is_a_stranger(void **state)
{
    (void)state;
    of_another_type("hash", "HSET %s field value");
}

static void list_is_a_stranger(void **state)
{
    (void)state;
    of_another_type("list", "RPUSH %s value");
}

static void set_is_a_stranger(void **state)
{
    (void)state;
    of_another_type("set", "SADD %s value");
}

static void zset_is_a_stranger(void **state)
{
    (void)state;
    of_another_type("zset", "ZADD %s 1 value");
}

static void stream_is_a_stranger(void **state)
{
    (void)state;
    of_another_type("stream", "XADD %s * field value");
}

static void key_that_became_a_hash_while_held_is_lost_and_left_alone(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", NAME, asking(.lease_ms = 1500));
    EXPECT("A granted");
    redis_ok("DEL %s", NAME);
    redis_ok("HSET %s field value", NAME);
    EXPECT("A lost ENOTHELD");
    assert_int_equal(A->lost, LW_ENOTHELD);
    free_hold(A);
    struct hold *B = acquire_hold(a, "B", NAME, 0);
    EXPECT("B EBUSY");
    free_hold(B);
    assert_string_equal(redis_text("HGET %s field", NAME), "value");
}

static void queue_of_the_wrong_type_leaves_no_grant_behind_an_error(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    redis_ok("SET %s wrong", queue_of(NAME));
    struct hold *A = acquire_and_wait(a, "A", NAME);
    EXPECT("A granted");
    struct hold *B = acquire_hold(b, "B", NAME, 300);
    EXPECT("B ETIMEOUT");
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS %s", NAME), 0);
    assert_string_equal(redis_text("GET %s", queue_of(NAME)), "wrong");
    assert_int_equal(B->result, LW_ETIMEOUT);
}

static void fence_of_the_wrong_type_leaves_no_grant_behind_an_error(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    release_hold(acquire_and_wait(a, "A", NAME));
    EXPECT("A granted; A released OK");
    redis_ok("DEL lockwire:fence");
    redis_ok("HSET lockwire:fence field value");
    struct hold *B = acquire_hold(a, "B", NAME, 2000);
    UNTIL(B->result != PENDING);
    free_hold(B);
    UNTIL(redis_int("EXISTS %s", NAME) == 0);
    redis_ok("DEL lockwire:fence");
    stage_clear_trace();
    struct hold *C = acquire_and_wait(a, "C", NAME);
    assert_held_by_redis(C);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(foreign_holder_excludes_and_is_excluded),
        STAGE_TEST(foreign_lease_that_ends_grants_the_waiter),
        STAGE_TEST(several_waiters_behind_a_foreign_lease_keep_their_order),
        STAGE_TEST(foreign_holder_without_ttl_is_waited_for),
        STAGE_TEST(a_foreign_lease_of_ages_is_a_lease),
        STAGE_TEST(foreign_release_is_found_by_asking),
        STAGE_TEST(hash_is_a_stranger),
        STAGE_TEST(list_is_a_stranger),
        STAGE_TEST(set_is_a_stranger),
        STAGE_TEST(zset_is_a_stranger),
        STAGE_TEST(stream_is_a_stranger),
        STAGE_TEST(key_that_became_a_hash_while_held_is_lost_and_left_alone),
        STAGE_TEST(queue_of_the_wrong_type_leaves_no_grant_behind_an_error),
        STAGE_TEST(fence_of_the_wrong_type_leaves_no_grant_behind_an_error),
    };

    return STAGE_RUN(tests);
}
