/* SPDX-License-Identifier: MIT */
/*
 * How a client authenticates: AUTH, SELECT, the connection's name, and where passwords
 * appear. Independent of the order of the handshake.
 *
 * Usual course: a server that requires a password gets it, and no log or error contains
 * it.
 */
#include "monitor.h"
#include "proxy.h"
#include "server/scene.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static void assert_silent_about(const struct peer *peer, const char *secret)
{
    if (strstr(peer->log, secret) != NULL || strstr(peer->whys, secret) != NULL ||
        strstr(peer->error, secret) != NULL) {
        stage_fail("the password was told: %s%s%s", peer->log, peer->whys, peer->error);
    }
}

/* ---- authentication, database and name ---- */

static void password_alone(void **state)
{
    (void)state;
    redis_ok("CONFIG SET requirepass hunter2");
    struct peer *a = peer_start("a", client_of(.password = "hunter2"));
    works(a);
    assert_silent_about(a, "hunter2");
}

static void user_and_password(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >hunter2 +@all ~* &*");
    redis_ok("ACL SETUSER default off");
    struct peer *a = peer_start("a", client_of(.username = "app", .password = "hunter2"));
    works(a);
    assert_silent_about(a, "hunter2");
    redis_ok("ACL SETUSER default on");
}

static void user_and_password_of_the_url_with_escapes(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);
    char url[256];

    (void)state;
    redis_ok("ACL SETUSER app reset on >p@ss/w:rd%% +@all ~* &*");
    (void)snprintf(url, sizeof(url), "redis://app:p%%40ss%%2Fw%%3Ard%%25@127.0.0.1:%d",
                   proxy->port);
    redis_ok("ACL SETUSER default off");
    struct peer *a = peer_start_at("a", url, NULL);
    works(a);
    assert_silent_about(a, "p@ss");
    assert_silent_about(a, "p%40ss");
    redis_ok("ACL SETUSER default on");
}

/* Username and password are independent: one that the options lack comes from the URL. */
static void user_of_the_url_and_password_of_the_options(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);
    char url[256];

    (void)state;
    redis_ok("ACL SETUSER app reset on >hunter2 +@all ~* &*");
    redis_ok("ACL SETUSER default off");
    (void)snprintf(url, sizeof(url), "redis://app@127.0.0.1:%d", proxy->port);
    struct peer *a = peer_start_at("a", url, client_of(.password = "hunter2"));
    works(a);
    (void)snprintf(url, sizeof(url), "redis://app:stale@127.0.0.1:%d", proxy->port);
    struct peer *b = peer_start_at("b", url, client_of(.password = "hunter2"));
    works(b);
    assert_silent_about(a, "hunter2");
    assert_silent_about(b, "hunter2");
    redis_ok("ACL SETUSER default on");
}

static void wrong_password_is_told_and_tried_again(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >right +@all ~* &*");
    struct peer *a = peer_start(
        "a", client_of(.username = "app", .password = "hunter2", .backoff_max_ms = 100));
    acquire_hold(a, "B", "y", 0);
    EXPECT("B ECONN");
    UNTIL(a->downs >= 3);
    assert_non_null(strstr(a->why, "WRONGPASS"));
    assert_int_equal(a->ups, 0);
    assert_silent_about(a, "hunter2");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    redis_ok("ACL SETUSER app >hunter2"); /* as in a rotation */
    EXPECT("A granted");
    assert_held_by_redis(A);
    assert_silent_about(a, "hunter2");
}

static void database_is_selected(void **state)
{
    char url[256];

    (void)state;
    (void)snprintf(url, sizeof(url), "%s?db=7", stage.server.url);
    struct peer *a = peer_start_at("a", url, NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    assert_int_equal(redis_int("EXISTS x"), 0);
    redis_ok("SELECT 7");
    assert_string_equal(redis_text("GET x"), lw_lock_owner(A->lock));
    release_hold(A);
    EXPECT("A granted; A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    redis_ok("SELECT 0");
    struct peer *b = peer_start_at("b", url, client_of(.db = 3)); /* options override */
    acquire_and_wait(b, "B", "x");
    redis_ok("SELECT 3");
    assert_int_equal(redis_int("EXISTS x"), 1);
    redis_ok("SELECT 0");
}

static void database_that_is_none_is_told(void **state)
{
    (void)state;
    struct peer *a = peer_start("a", client_of(.db = 99, .backoff_max_ms = 100));
    UNTIL(a->downs >= 2);
    assert_non_null(strstr(a->why, "DB index"));
    assert_int_equal(a->ups, 0);
}

static int count_named(const char *name)
{
    char text[64];
    int count = 0;

    (void)snprintf(text, sizeof(text), " name=%s ", name);
    for (const char *at = redis_text("CLIENT LIST"); (at = strstr(at, text)) != NULL;
         at++) {
        count++;
    }
    return count;
}

static void both_connections_carry_the_client_s_name(void **state)
{
    (void)state;
    peer_start("a", client_of(.client_name = "my-daemon"));
    UNTIL(count_named("my-daemon") == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(password_alone),
        STAGE_TEST(user_and_password),
        STAGE_TEST(user_and_password_of_the_url_with_escapes),
        STAGE_TEST(user_of_the_url_and_password_of_the_options),
        STAGE_TEST(wrong_password_is_told_and_tried_again),
        STAGE_TEST(database_is_selected),
        STAGE_TEST(database_that_is_none_is_told),
        STAGE_TEST(both_connections_carry_the_client_s_name),
    };

    return STAGE_RUN(tests);
}
