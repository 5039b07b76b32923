/* SPDX-License-Identifier: MIT */
/*
 * What an account may not: NOAUTH counts as a link that is down, NOPERM ends what was
 * asked, at once and for good, with a text that says what. Needs nothing beyond test/lib
 * and its scene. Must not know how the library sorts errors.
 *
 * Happy path: an account is denied something, somebody asks, and is told.
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
    struct hold *A = ask(a, "A", "x", -1);
    ask(a, "B", "y", 0);
    EXPECT("B ECONN");
    assert_non_null(strstr(a->whys, "NOAUTH"));
    assert_int_equal(a->ups, 0);
    redis_ok("CONFIG SET requirepass %b", "", (size_t)0);
    EXPECT("A granted");
    assert_held_by_redis(A);
}

/* ---- NOPERM: at once, for good ---- */

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
    take(b, "T", "theirs");
    EXPECT("T granted");
    struct hold *A = ask(a, "A", "x", -1), *B = ask(a, "B", "x", 0);
    struct hold *C = ask(a, "C", "x", 60000);
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
    take(b, "T", "x");
    EXPECT("T granted");
    struct hold *A = ask(a, "A", "x", -1);
    EXPECT("A EREDIS");
    assert_says(A, "NOPERM");
}

static void NOPERM_on_a_key_ends_any_wait_at_once(void **state)
{
    struct peer *a = user("resetkeys ~mine* ~lockwire:*");

    (void)state;
    struct hold *A = ask(a, "A", "theirs", -1);
    EXPECT("A EREDIS");
    assert_says(A, "NOPERM");
    struct hold *B = ask(a, "B", "mine", -1);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

static void NOPERM_comes_while_it_waits(void **state)
{
    struct peer *b = peer_ready("b", NULL), *a = user("");

    (void)state;
    struct hold *T = ask_with(b, "T", "x", asking(.lease_ms = 1000));
    EXPECT("T granted");
    struct hold *A = ask(a, "A", "x", -1);
    wait_queued("x", 1);
    redis_ok("ACL SETUSER app -evalsha -eval");
    EXPECT("A EREDIS"); /* at its next asking */
    assert_says(A, "NOPERM");
    redis_ok("ACL SETUSER app +@all");
    assert_held_by_redis(T);
    stage.keys_may_stay = true; /* it could not leave */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(NOAUTH_counts_as_link_down_with_the_reason),
        STAGE_TEST(NOPERM_on_a_command_ends_any_wait_at_once),
        STAGE_TEST(NOPERM_on_scripts_ends_a_wait_at_once),
        STAGE_TEST(NOPERM_on_a_key_ends_any_wait_at_once),
        STAGE_TEST(NOPERM_comes_while_it_waits),
    };

    return STAGE_RUN(tests);
}
