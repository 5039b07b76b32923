/* SPDX-License-Identifier: MIT */
/*
 * Denied permissions. NOAUTH counts as a link that is down. NOPERM ends a request at once
 * and permanently, with a text that has the reason. Independent of how the library
 * classifies errors.
 *
 * Usual course: an account is denied something, a client requests it, and gets the error.
 */
#include "players.h"
#include "server/scene.h"

#include <stdio.h>
#include <string.h>

/* ---- NOAUTH ---- */

static void NOAUTH_counts_as_link_down_with_the_reason(void **state)
{
    (void)state;
    redis_ok("CONFIG SET requirepass secret");
    struct peer *a = peer_start("a", client_of(.local_turns = 1, .backoff_max_ms = 100));
    struct hold *A = acquire_hold(a, "A", "x", -1);
    acquire_hold(a, "B", "y", 0);
    EXPECT("B ECONN");
    assert_non_null(strstr(a->whys, "NOAUTH"));
    assert_int_equal(a->ups, 0);
    redis_ok("CONFIG SET requirepass %b", "", (size_t)0);
    EXPECT("A granted");
    assert_held_by_redis(A);
}

/* ---- NOPERM: at once, permanently ---- */

static struct peer *user(const char *rules)
{
    char line[256];

    (void)snprintf(line, sizeof(line), "ACL SETUSER app reset on >secret +@all ~* &* %s",
                   rules);
    redis_ok(line);
    return peer_ready(
        "a", client_of(.username = "app", .password = "secret", .local_turns = 1));
}

static void NOPERM_on_a_command_ends_any_wait_at_once(void **state)
{
    struct peer *a = user("-set"), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "T", "theirs");
    EXPECT("T granted");
    struct hold *A = acquire_hold(a, "A", "x", -1), *B = acquire_hold(a, "B", "x", 0);
    struct hold *C = acquire_hold(a, "C", "x", 60000);
    EXPECT_SET("A EREDIS; B EREDIS; C EREDIS");
    assert_says(A, "script"); /* a script's own words, of Redis or of Valkey */
    assert_says(B, "script");
    assert_says(C, "script");
    assert_true(C->result_ms - C->asked_ms < 20000);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void NOPERM_on_scripts_ends_a_wait_at_once(void **state)
{
    struct peer *b = peer_ready("b", NULL), *a = user("-eval -evalsha");

    (void)state;
    acquire_and_wait(b, "T", "x");
    EXPECT("T granted");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    EXPECT("A EREDIS");
    assert_says(A, "NOPERM");
}

static void NOPERM_on_a_key_ends_any_wait_at_once(void **state)
{
    struct peer *a = user("resetkeys ~mine* ~lockwire:*");

    (void)state;
    struct hold *A = acquire_hold(a, "A", "theirs", -1);
    EXPECT("A EREDIS");
    assert_says(A, "NOPERM");
    struct hold *B = acquire_hold(a, "B", "mine", -1);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

static void NOPERM_comes_while_it_waits(void **state)
{
    struct peer *b = peer_ready("b", NULL), *a = user("");

    (void)state;
    struct hold *T = acquire_hold_with(b, "T", "x", asking(.lease_ms = 1000));
    EXPECT("T granted");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    wait_queued("x", 1);
    redis_ok("ACL SETUSER app -evalsha -eval");
    EXPECT("A EREDIS"); /* at its next request */
    assert_says(A, "NOPERM");
    redis_ok("ACL SETUSER app +@all");
    assert_held_by_redis(T);
    stage.keys_may_stay = true; /* it could not leave the queue */
}

/* ---- refusals are reported in the server's words ---- */

static int logged_times(const struct peer *peer, const char *text)
{
    int times = 0;

    for (const char *at = peer->log; (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    return times;
}

/* In the words of Redis and of Valkey, before 7.0 and after. */
static const char *const refusal[] = {"NOPERM", "can't", "no permission"};

static bool quotes(const char *text)
{
    for (size_t i = 0; i < sizeof(refusal) / sizeof(*refusal); i++) {
        if (strstr(text, refusal[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* If any part of a release is denied, the lock is not lost: the key is ours until its
 * lease expires. */
static void a_refused_release_is_told(void **state)
{
    static const char *const rules[] = {"-get", "-del", "-eval -evalsha"};
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_REDISSON};
    static const char *const guards[] = {"-get", "-hget", "-hexists"};

    (void)state;
    stage.keys_may_stay = true; /* the clients' identities: they may not be deleted */
    for (size_t mode = 0; mode < 3; mode++) {
        for (size_t rule = 0; rule < 3; rule++) {
            struct peer *a = user("");
            struct hold *A = acquire_hold_with(
                a, "A", "x", asking(.mode = modes[mode], .lease_ms = 2000));
            const char *denied = rule == 0 ? guards[mode] : rules[rule];
            char line[80];

            EXPECT("A granted");
            (void)snprintf(line, sizeof(line), "ACL SETUSER app %s",
                           rule == 1 && mode == 2 ? "-hdel" : denied);
            redis_ok(line);
            stage_run_for(50); /* so that the release is not a fast one */
            release_hold(A);
            EXPECT("A released EREDIS");
            if (!quotes(lw_lock_errstr(A->lock))) {
                stage_fail("%s: \"%s\"", line, lw_lock_errstr(A->lock));
            }
            assert_int_equal(lw_lock_error(A->lock), LW_EREDIS);
            assert_int_equal(
                logged_times(
                    a,
                    "release of x refused; the lock stays held until its lease expires"),
                1);
            free_hold(A);
            peer_free(a);
            redis_ok("DEL x");
        }
    }
}

/* A mutex that was held briefly is released by another script, or by the server's own
 * command for that, which needs no GET. */
static void a_refused_release_without_a_look_is_told(void **state)
{
    struct peer *a = user("");
    struct hold *A;

    (void)state;
    for (int i = 0; i < 20; i++) { /* one release in 32 is not a fast one */
        A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 60000));
        EXPECT("A granted");
        redis_ok("ACL SETUSER app -get");
        release_hold(A);
        UNTIL(A->released != PENDING);
        stage_clear_trace();
        if (A->released == LW_OK) {
            assert_int_equal(redis_int("EXISTS x"), 0);
        } else {
            assert_int_equal(A->released, LW_EREDIS);
            redis_ok("DEL x");
        }
        redis_ok("ACL SETUSER app +@all");
        free_hold(A);
    }
}

static void a_refused_renewal_is_told_at_the_loss(void **state)
{
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_REDISSON};
    static const char *const guards[] = {"-mget", "-hget", "-hexists"};

    (void)state;
    stage.keys_may_stay = true;
    for (size_t mode = 0; mode < 3; mode++) {
        struct peer *a = user("");
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[mode], .lease_ms = 1000));
        char line[80];

        EXPECT("A granted");
        (void)snprintf(line, sizeof(line), "ACL SETUSER app %s", guards[mode]);
        redis_ok(line);
        EXPECT("A lost ELOST");
        if (!quotes(lw_lock_errstr(A->lock))) {
            stage_fail("%s: \"%s\"", line, lw_lock_errstr(A->lock));
        }
        assert_int_equal(lw_lock_error(A->lock), LW_EREDIS);
        assert_int_equal(logged_times(a, "the server refused to renew held locks; "
                                         "retrying until their leases expire"),
                         1);
        redis_ok("ACL SETUSER app +@all");
        free_hold(A);
        peer_free(a);
        redis_ok("DEL x");
    }
}

static void a_denied_PUBLISH_is_logged(void **state)
{
    (void)state;
    UNTIL(peer_logged(user("-publish"), "PUBLISH is not permitted"));
}

/* ---- the connection for messages ---- */

static void messages_that_do_not_come_are_told_of(void **state)
{
    struct peer *a = user("");

    (void)state;
    UNTIL(peer_stats(a).subscription_up == 1);
    redis_ok("CONFIG SET maxclients 2"); /* the test's own and the command link */
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, 1));
    UNTIL(peer_stats(a).subscription_up == 0);
    UNTIL(peer_logged(a, "the subscription connection is down; waiters poll: "));
    assert_non_null(strstr(a->log, "max number of clients"));
    assert_int_equal(peer_stats(a).link_up, 1);
    redis_ok("CONFIG SET maxclients 1000");
    UNTIL(peer_stats(a).subscription_up == 1);
    assert_int_equal(logged_times(a, "the subscription connection is down"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(NOAUTH_counts_as_link_down_with_the_reason),
        STAGE_TEST(NOPERM_on_a_command_ends_any_wait_at_once),
        STAGE_TEST(NOPERM_on_scripts_ends_a_wait_at_once),
        STAGE_TEST(NOPERM_on_a_key_ends_any_wait_at_once),
        STAGE_TEST(NOPERM_comes_while_it_waits),
        STAGE_TEST(a_refused_release_is_told),
        STAGE_TEST(a_refused_release_without_a_look_is_told),
        STAGE_TEST(a_refused_renewal_is_told_at_the_loss),
        STAGE_TEST(a_denied_PUBLISH_is_logged),
        STAGE_TEST(messages_that_do_not_come_are_told_of),
    };

    return STAGE_RUN(tests);
}
