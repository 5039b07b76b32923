/* SPDX-License-Identifier: MIT */
/* LW_REDISSON with a real Redis: the format, waiting on Redisson's channel, foreign keys,
 * and the mode's scripts sent twice. The holds of one owner are tested in owner.c, and
 * the real Redisson in test/interop.
 *
 * Usual course: after a grant, HGETALL returns one field of ours with the value 1. After
 * the release the key is gone, and a message has been published on the channel. */
#include "redisson/scene.h"

#include "monitor.h"
#include "scripts.h"

#include <stdio.h>
#include <string.h>

/* ---- format ---- */

static void one_field_of_value_1_with_the_lease_as_ttl(void **state)
{
    char expected[128];

    (void)state;
    two_clients();
    struct hold *A = take(a, "A");
    const char *owner = lw_lock_owner(A->lock);
    int parts = 0;
    for (const char *at = owner; *at; at++) {
        parts += *at == ':';
    }
    assert_int_equal(parts, 1); /* <uuid>:<n>, as Redisson's */
    (void)snprintf(expected, sizeof(expected), "%s 1", owner);
    assert_string_equal(fields(), expected);
    assert_int_in_range(redis_int("PTTL x"), 1, 20000);
    assert_int_equal(lw_lock_fence(A->lock), 0);
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 1, redis_int("PTTL x"));
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void a_release_tells_the_channel_of_the_name(void **state)
{
    static const struct {
        const char *name, *channel;
    } cases[] = {{"x", CHANNEL}, {"y:{x}", "redisson_lock__channel:y:{x}"}};

    (void)state;
    a = peer_ready("a", NULL);
    for (size_t i = 0; i < 2; i++) {
        redisContext *ear = redisConnectUnix(stage.server.path);
        assert_non_null(ear);
        freeReplyObject(redisCommand(ear, "SUBSCRIBE %s", cases[i].channel));
        struct hold *A =
            acquire_hold_with(a, "A", cases[i].name, asking(.mode = LW_REDISSON));
        EXPECT("A granted");
        release_hold(A);
        EXPECT("A released OK");
        redisReply *message;
        assert_int_equal(redisGetReply(ear, (void **)&message), REDIS_OK);
        assert_string_equal(message->element[0]->str, "message");
        assert_string_equal(message->element[2]->str, "0");
        freeReplyObject(message);
        redisFree(ear);
        free_hold(A);
    }
}

/* ---- a foreign holder ---- */

static void a_foreign_holder_is_busy_and_untouched(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 2, 15000);
    struct hold *A = try_once(a, "A");
    EXPECT("A EBUSY");
    assert_int_in_range(lw_lock_retry_ms(A->lock), 1, 15000);
    assert_string_equal(fields(), "4a0fc1f8-0000-4000-8000-1c6f654f1aaa:52 2");
    /* A handle that does not wait does not subscribe. */
    assert_int_equal(listeners(CHANNEL), 0);
    assert_false(peer_logged(a, "held by another program"));
    redis_ok("PERSIST x");
    struct hold *B = try_once(a, "B");
    EXPECT("B EBUSY");
    assert_int_equal(lw_lock_retry_ms(B->lock), -1);
    redis_ok("DEL x");
}

static void wakes_on(const char *message)
{
    java_holds("x", 1, 3600000);
    struct hold *A = join_line(a, "A");
    UNTIL(listeners(CHANNEL) == 1);
    monitor_start();
    stage_run_for(
        300); /* "try, subscribe, try again" has ended; the next poll is seconds away */
    monitor_clear();
    java_unlocks("x", message);
    EXPECT("A granted");
    assert_int_equal(monitor_count("evalsha"), 1);
    monitor_stop();
    release_hold(A);
    EXPECT("A released OK");
    free_hold(A);
}

static void both_messages_wake(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    wakes_on("0");
    wakes_on("1");
}

static void other_messages_do_not_wake(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, 3600000);
    join_line(a, "A");
    UNTIL(listeners(CHANNEL) == 1);
    stage_run_for(300);
    monitor_start();
    redis_ok("PUBLISH " CHANNEL " %s", "2");
    redis_ok("PUBLISH " CHANNEL " %b", "0\0x", (size_t)3);
    stage_run_for(200);
    assert_int_equal(monitor_count("evalsha"), 0);
    monitor_stop();
    java_unlocks("x", "0");
    EXPECT("A granted");
}

/* The lock is freed after the first try and before the subscription: no message reaches
 * the client. */
static void what_was_freed_before_the_subscription_is_found_by_trying_again(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    for (int i = 0; i < 20; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        redis_ok("HSET %s foreign 1", name);
        redis_ok("PEXPIRE %s 3600000", name);
        struct hold *A = acquire_hold_with(a, "A", name,
                                           asking(.mode = LW_REDISSON, .wait_ms = 20000));
        int64_t at = now_ms();
        while (now_ms() - at < i / 4) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        redis_ok("DEL %s", name);
        redis_ok("PUBLISH redisson_lock__channel:{%s} 0", name);
        EXPECT("A granted");
        assert_true(A->result_ms - A->asked_ms < 9000); /* no poll was needed */
        free_hold(A);
    }
}

static void a_lease_that_ends_is_found_by_its_ttl(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, 400);
    join_line(a, "A");
    EXPECT("A granted");
}

/* ---- both clients are ours ---- */

static void clients_exclude_and_wake_each_other(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = take(a, "A");
    struct hold *B = join_line(b, "B");
    UNTIL(listeners(CHANNEL) == 1);
    stage_expect_nothing(200);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
    assert_string_equal(fields(), "");
}

static void handles_of_one_client_exclude_each_other(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take(a, "A");
    try_once(a, "B");
    EXPECT("B EBUSY");
    struct hold *C = join_line(a, "C");
    UNTIL(listeners(CHANNEL) == 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    release_hold(C);
    EXPECT("C released OK");
}

static void it_is_renewed_until_released(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON, .lease_ms = 3000));
    EXPECT("A granted");
    UNTIL(peer_stats(a).renewed >= 2);
    assert_string_equal(stage.trace, "");
    renew_hold(A, 50000);
    EXPECT("A renewed OK");
    assert_int_in_range(redis_int("PTTL x"), 40000, 50000);
    release_hold(A);
    EXPECT("A released OK");
}

static void a_deleted_lock_is_lost(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take(a, "A");
    redis_ok("DEL x");
    renew_hold(A, 0);
    EXPECT_SET("A lost ENOTHELD; A renewed ELOST");
    release_refused(A, LW_ENOTHELD);
}

static void a_stolen_lock_is_not_released(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take(a, "A");
    redis_ok("DEL x");
    java_holds("x", 1, 20000);
    release_hold(A);
    EXPECT("A released ENOTHELD");
    assert_string_equal(fields(), "4a0fc1f8-0000-4000-8000-1c6f654f1aaa:52 1");
    redis_ok("DEL x");
}

static void a_renewal_that_is_refused_has_an_error_text(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = want(a, "A", asking(.lease_ms = 1200));
    EXPECT("A granted");
    redis_ok("ACL SETUSER default -evalsha -eval");
    EXPECT("A lost ELOST");
    assert_non_null(strstr(lw_lock_errstr(A->lock), "NOPERM"));
    redis_ok("ACL SETUSER default +@all");
    stage.keys_may_stay = true;
}

static void many_names_wait_on_one_link(void **state)
{
    struct hold *waiters[30];
    char name[16];

    (void)state;
    a = peer_ready("a", NULL);
    for (int i = 0; i < 30; i++) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        redis_ok("HSET %s foreign 1", name);
        redis_ok("PEXPIRE %s 3600000", name);
        waiters[i] =
            acquire_hold_with(a, name, name, asking(.mode = LW_REDISSON, .wait_ms = -1));
    }
    (void)snprintf(name, sizeof(name), "m29");
    UNTIL(listeners("redisson_lock__channel:{m29}") == 1);
    stage_run_for(300);
    for (int i = 29; i >= 0; i--) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        redis_ok("DEL %s", name);
        redis_ok("PUBLISH redisson_lock__channel:{%s} 0", name);
        UNTIL(waiters[i]->result == LW_OK);
        for (int j = 0; j < i; j++) {
            assert_int_equal(waiters[j]->result, PENDING);
        }
    }
    stage_clear_trace();
}

/* ---- the link ---- */

static void the_link_comes_back_and_is_closed_when_idle(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, 3600000);
    struct hold *A = join_line(a, "A");
    UNTIL(listeners(CHANNEL) == 1);
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(listeners(CHANNEL) == 0);
    UNTIL(listeners(CHANNEL) == 1);
    java_unlocks("x", "0");
    EXPECT("A granted");
    UNTIL(listeners(CHANNEL) == 0); /* after 10 to 15 s without waiters */
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    struct hold *B = join_line(a, "B");
    UNTIL(listeners(CHANNEL) == 1); /* and opened again */
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
}

static void who_may_not_subscribe_polls(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER default resetchannels &lockwire:*");
    a = peer_ready("a", NULL);
    java_holds("x", 1, 600);
    struct hold *A = join_line(a, "A");
    EXPECT("A granted");
    assert_true(peer_logged(a, "refused SUBSCRIBE"));
    release_hold(A); /* a client that may not publish can release all the same */
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* ---- foreign keys ---- */

static void keys_of_other_kinds_are_strangers(void **state)
{
    static const struct {
        const char *command, *type;
    } kinds[] = {{"SET x token PX 60000", "string"},
                 {"RPUSH x 1", "list"},
                 {"HSET x mode read 7:1 1", "hash"}};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        char label[4] = {'p', (char)('0' + i), '\0'}, told[32];

        redis_ok(kinds[i].command);
        redis_ok("PEXPIRE x 60000");
        struct peer *peer = peer_ready(label, NULL);
        try_once(peer, "A");
        EXPECT("A EBUSY");
        (void)snprintf(told, sizeof(told), "contains a %s", kinds[i].type);
        assert_true(peer_logged(peer, told));
        assert_int_equal(redis_int("EXISTS x"), 1);
        redis_ok("DEL x");
    }
}

static void our_read_write_lock_is_a_stranger(void **state)
{
    static const enum lw_mode modes[] = {LW_EXCLUSIVE, LW_SHARED};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        char label[4] = {'p', (char)('0' + i), '\0'};
        struct peer *peer = peer_ready(label, NULL);
        struct hold *A = acquire_hold_with(peer, "A", "x", asking(.mode = modes[i]));

        EXPECT("A granted");
        try_once(peer, "B");
        EXPECT("B EBUSY");
        assert_true(peer_logged(peer, "contains a hash"));
        release_hold(A);
        EXPECT("A released OK");
    }
}

static void a_mutex_takes_it_for_a_stranger(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = take(a, "A");
    acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    assert_true(peer_logged(b, "contains a hash"));
    release_hold(A);
    EXPECT("A released OK");
}

/* ---- the scripts, each sent twice ---- */

static const char *script(const char *name)
{
    for (size_t i = 0; i < LW__SCRIPT_COUNT; i++) {
        if (strcmp(lw__scripts[i].name, name) == 0) {
            return lw__scripts[i].text;
        }
    }
    stage_fail("no script %s", name);
}

static long long first_of(redisReply *reply)
{
    long long number = reply->elements > 0 ? reply->element[0]->integer : -1;

    freeReplyObject(reply);
    return number;
}

static void every_script_may_be_sent_twice(void **state)
{
    const char *acquire = script("redisson_acquire"), *renew = script("redisson_renew"),
               *release = script("redisson_release");

    (void)state;
    stage.keys_may_stay = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            first_of(server_command(&stage.server, "EVAL %s 1 x u:1 30000", acquire)), 1);
    }
    assert_string_equal(fields(), "u:1 1");
    assert_int_equal(
        first_of(server_command(&stage.server, "EVAL %s 1 x u:2 30000", acquire)), 0);
    assert_int_equal(
        first_of(server_command(&stage.server, "EVAL %s 1 x u:1 500", acquire)), 1);
    /* A late request shortens nothing. */
    assert_int_in_range(redis_int("PTTL x"), 20000, 30000);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            first_of(server_command(&stage.server, "EVAL %s 1 x u:1 60000", renew)), 1);
    }
    assert_int_in_range(redis_int("PTTL x"), 50000, 60000);
    assert_int_equal(
        first_of(server_command(&stage.server, "EVAL %s 1 x u:1 500", renew)), 1);
    assert_int_in_range(redis_int("PTTL x"), 50000, 60000);
    assert_int_equal(
        first_of(server_command(&stage.server, "EVAL %s 1 x u:2 500", renew)), 0);
    redis_ok("EVAL %s 1 y u:1 30000", acquire);
    freeReplyObject(
        server_command(&stage.server, "EVAL %s 2 x y u:1 u:1 90000 120000", renew));
    assert_int_in_range(redis_int("PTTL x"), 80000, 90000);
    assert_int_in_range(redis_int("PTTL y"), 110000, 120000);
    assert_int_equal(redis_int("EVAL %s 1 x u:2 ch", release), 0);
    assert_int_equal(redis_int("EVAL %s 1 x u:1 ch", release), 1);
    assert_int_equal(
        first_of(server_command(&stage.server, "EVAL %s 1 x u:2 30000", acquire)), 1);
    /* The lock is the next holder's. */
    assert_int_equal(redis_int("EVAL %s 1 x u:1 ch", release), 0);
    assert_string_equal(fields(), "u:2 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(one_field_of_value_1_with_the_lease_as_ttl),
        STAGE_TEST(a_release_tells_the_channel_of_the_name),
        STAGE_TEST(a_foreign_holder_is_busy_and_untouched),
        STAGE_TEST(both_messages_wake),
        STAGE_TEST(other_messages_do_not_wake),
        STAGE_TEST(what_was_freed_before_the_subscription_is_found_by_trying_again),
        STAGE_TEST(a_lease_that_ends_is_found_by_its_ttl),
        STAGE_TEST(clients_exclude_and_wake_each_other),
        STAGE_TEST(handles_of_one_client_exclude_each_other),
        STAGE_TEST(it_is_renewed_until_released),
        STAGE_TEST(a_deleted_lock_is_lost),
        STAGE_TEST(a_stolen_lock_is_not_released),
        STAGE_TEST(a_renewal_that_is_refused_has_an_error_text),
        STAGE_TEST(many_names_wait_on_one_link),
        STAGE_TEST(the_link_comes_back_and_is_closed_when_idle),
        STAGE_TEST(who_may_not_subscribe_polls),
        STAGE_TEST(keys_of_other_kinds_are_strangers),
        STAGE_TEST(our_read_write_lock_is_a_stranger),
        STAGE_TEST(a_mutex_takes_it_for_a_stranger),
        STAGE_TEST(every_script_may_be_sent_twice),
    };

    return STAGE_RUN(tests);
}
