/* SPDX-License-Identifier: MIT */
/*
 * The credentials callback: when it is called, and how its results and its failures are
 * handled. Independent of the order of the handshake.
 *
 * Usual course: each connection calls it, gets the credentials that the server now
 * requires, and works.
 */
#include "proxy.h"
#include "secret.h"
#include "server/scene.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The results of the callback, and the number of its calls. */
static struct {
    int calls;
    int status;           /* of the calls number `from` to `to` */
    int from, to;         /* counted from 1; `to` is 0 for none */
    const char *username; /* NULL: left empty */
    const char *password;
    void (*also)(struct peer *peer, struct lw_credentials *ret);
} answer;

static int on_credentials(struct lw_client *client, struct lw_credentials *ret, void *arg)
{
    struct peer *peer = arg;

    answer.calls++;
    if (players_in_call) {
        stage_complain("rule 1: credentials came inside a call");
    }
    if (client != peer->client || peer->closed) {
        stage_complain("credentials of %s came after its end", peer->label);
    }
    if (ret->size != sizeof(*ret) || *ret->username != '\0' || *ret->password != '\0') {
        stage_complain("what is to be filled in is not empty");
    }
    if (answer.username != NULL) {
        (void)snprintf(ret->username, sizeof(ret->username), "%s", answer.username);
    }
    if (answer.password != NULL) {
        (void)snprintf(ret->password, sizeof(ret->password), "%s", answer.password);
    }
    if (answer.also != NULL) {
        answer.also(peer, ret);
    }
    return answer.calls >= answer.from && answer.calls <= answer.to ? answer.status : 0;
}

/* Has the server let in "app" by this password alone. */
static void server_wants(const char *password)
{
    redis_ok("ACL SETUSER app reset on >%s +@all ~* &*", password);
    redis_ok("ACL SETUSER default off");
}

static void give(const char *username, const char *password)
{
    memset(&answer, 0, sizeof(answer));
    answer.username = username;
    answer.password = password;
}

static struct peer *start(const char *label)
{
    return peer_start(label, client_of(.credentials = on_credentials, .local_turns = 1,
                                       .backoff_min_ms = 5, .backoff_max_ms = 20));
}

static void assert_silent_about(const struct peer *peer, const char *secret)
{
    if (strstr(peer->log, secret) != NULL || strstr(peer->whys, secret) != NULL) {
        stage_fail("the password was told: %s%s", peer->log, peer->whys);
    }
}

static void cut(const struct peer *peer, bool subscription)
{
    long long id = peer_link_id(peer, subscription);

    redis_ok("CLIENT KILL ID %lld", id);
    UNTIL(peer_link_id(peer, subscription) != id &&
          peer_link_id(peer, subscription) != 0);
}

/* ---- valid credentials ---- */

static void each_connection_asks_and_logs_in(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    struct peer *a = start("a");
    assert_int_equal(answer.calls, 0);
    peer_wait_ready(a);
    assert_int_equal(answer.calls, 2);
    works(a);
    assert_int_equal(a->downs, 0);
    assert_silent_about(a, "hunter2");
}

static void a_password_alone_is_the_default_users(void **state)
{
    (void)state;
    redis_ok("CONFIG SET requirepass hunter2");
    give(NULL, "hunter2");
    struct peer *a = start("a");
    peer_wait_ready(a);
    works(a);
    redis_ok("CONFIG SET requirepass %b", "", (size_t)0);
}

/* No server accepts a longer one before authentication. */
static void the_longest_password_fits(void **state)
{
    static char longest[sizeof(((struct lw_credentials *)NULL)->password)];

    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    server_wants(longest);
    give("app", longest);
    struct peer *a = start("a");
    peer_wait_ready(a);
    works(a);
}

static void a_rotated_password_is_used_by_the_next_connection(void **state)
{
    (void)state;
    server_wants("first");
    give("app", "first");
    struct peer *a = start("a"), *b = start("b");
    peer_wait_ready(a);
    peer_wait_ready(b);
    for (int subscription = 0; subscription <= 1; subscription++) {
        static const char *const next[] = {"second", "third"};
        struct hold *A = acquire_and_wait(a, "A", "x"), *B;
        int calls = answer.calls;

        EXPECT("A granted");
        server_wants(next[subscription]);
        answer.password = next[subscription];
        cut(a, subscription);
        cut(b, subscription);
        peer_wait_ready(a);
        peer_wait_ready(b);
        assert_int_equal(answer.calls, calls + 2);
        B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 1);
        release_hold(A);
        EXPECT_SET("A released OK; B granted");
        assert_int_equal(A->lost, PENDING);
        release_hold(B);
        EXPECT("B released OK");
    }
    assert_int_equal(a->downs, 1);
    assert_int_equal(peer_stats(b).handed_over, 2);
}

static void redissons_listener_asks_as_well(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    struct peer *a = start("a"), *b = start("b");
    peer_wait_ready(a);
    peer_wait_ready(b);
    assert_int_equal(answer.calls, 4);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON));
    EXPECT("A granted");
    acquire_hold_with(b, "B", "x", asking(.mode = LW_REDISSON, .wait_ms = -1));
    UNTIL(answer.calls == 5);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

/* ---- missing credentials ---- */

static void a_failure_backs_off_and_says_so(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);
    char url[64];

    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    answer.status = LW_ETIMEOUT;
    answer.from = 1;
    answer.to = 3;
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", proxy->port);
    struct peer *a =
        peer_start_at("a", url,
                      client_of(.credentials = on_credentials, .local_turns = 1,
                                .backoff_min_ms = 50, .backoff_max_ms = 50));
    UNTIL(a->downs == 3);
    assert_int_equal(answer.calls, 3);
    assert_string_equal(a->why, "no credentials available: timed out");
    assert_int_equal(peer_count_logged(a, "4 no credentials available: timed out"), 1);
    assert_true(a->linked_ms[2] - a->linked_ms[0] >= 50); /* two delays of 25 to 50 */
    UNTIL(a->up);
    assert_int_equal(a->downs, 3);
    works(a);
    assert_silent_about(a, "hunter2");
}

static void the_subscription_fails_by_itself(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    answer.status = -99;
    answer.from = 2;
    answer.to = 4;
    struct peer *a = start("a");
    UNTIL(a->up);
    UNTIL(peer_logged(a, "4 no credentials available: unknown error"));
    works(a);
    peer_wait_ready(a);
    assert_int_equal(answer.calls, 5);
    assert_int_equal(a->downs, 0);
}

static void leave_no_end(struct peer *peer, struct lw_credentials *ret)
{
    (void)peer;
    memset(ret->password, 'x', sizeof(ret->password));
}

static void leave_no_end_of_the_user(struct peer *peer, struct lw_credentials *ret)
{
    (void)peer;
    memset(ret->username, 'x', sizeof(ret->username));
}

static void what_cannot_be_sent_is_a_failure(void **state)
{
    (void)state;
    give("app", NULL);
    struct peer *a = start("a");
    UNTIL(a->downs >= 1);
    assert_string_equal(a->why, "no credentials available: the password is empty");
    give("app", "hunter2");
    answer.also = leave_no_end;
    UNTIL(strstr(a->why, ": username or password without a terminating NUL") != NULL);
    give("app", "hunter2");
    UNTIL(strstr(a->why, "WRONGPASS") != NULL);
    answer.also = leave_no_end_of_the_user;
    UNTIL(strstr(a->why, ": username or password without a terminating NUL") != NULL);
    assert_int_equal(a->ups, 0);
    assert_silent_about(a, "hunter2");
}

/* ---- other events in the callback ---- */

static void free_it(struct peer *peer, struct lw_credentials *ret)
{
    (void)ret;
    peer_free(peer);
}

static void free_at_the_second(struct peer *peer, struct lw_credentials *ret)
{
    if (answer.calls == 2) {
        free_it(peer, ret);
    }
}

static void the_client_may_be_freed_there(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    answer.also = free_it;
    struct peer *a = start("a"), *b;
    UNTIL(a->client == NULL);
    stage_expect_nothing(20);
    give("app", "hunter2");
    answer.also = free_at_the_second; /* at the subscription's call; B is pending */
    b = start("b");
    acquire_hold(b, "B", "x", -1);
    UNTIL(b->client == NULL);
    stage_clear_trace();
    stage_expect_nothing(20);
    assert_int_equal(answer.calls, 2);
    stage.keys_may_stay = true;
}

static void close_it(struct peer *peer, struct lw_credentials *ret)
{
    (void)ret;
    if (answer.calls ==
        1) { /* the subscription may ask as well while the client is drained */
        peer_close(peer);
    }
}

static void the_client_may_be_closed_there(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    answer.also = close_it;
    struct peer *a = start("a");
    acquire_hold(a, "A", "x", -1);
    EXPECT("A ECLOSED; a closed");
    assert_in_range(answer.calls, 1, 2);
}

/* Ends the connection before the callback returns. */
static void lose_the_server(struct peer *peer, struct lw_credentials *ret)
{
    (void)peer;
    (void)ret;
    if (answer.calls != 1) {
        return;
    }
    while (redis_info("connected_clients") < 2) { /* until the server has accepted it */
    }
    redis_ok("CLIENT KILL TYPE normal");
}

static void the_connection_may_end_meanwhile(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    answer.also = lose_the_server;
    struct peer *a = start("a");
    peer_wait_ready(a);
    assert_int_equal(answer.calls, 3);
    assert_int_equal(a->downs, 1);
    works(a);
}

static void stall_at_first(struct peer *peer, struct lw_credentials *ret)
{
    (void)ret;
    stage_note("%s asked", peer->label);
    if (answer.calls == 1) {
        stage_stall(1100);
    }
}

/* Time passes in a callback. A loss that is due by then is delivered before the next call
 * for credentials. */
static void a_loss_comes_before_the_next_question(void **state)
{
    (void)state;
    server_wants("hunter2");
    give("app", "hunter2");
    struct peer *a = start("a");
    peer_wait_ready(a);
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));
    EXPECT("A granted");
    give("app", "hunter2");
    answer.also = stall_at_first;
    redis_ok("CLIENT KILL TYPE pubsub");
    redis_ok("CLIENT KILL TYPE normal");
    EXPECT("a asked; A lost ELOST; a asked");
    peer_wait_ready(a);
    stage_clear_trace();
}

/* ---- copies in memory ---- */

static const struct secret_password *given;
static int seen_when_given;

static void give_hidden(struct peer *peer, struct lw_credentials *ret)
{
    (void)peer;
    secret_give(given, ret->password);
    seen_when_given = secret_copies(&given->secret);
}

static void log_in_and_look(const struct secret_password *password)
{
    redis_ok("ACL SETUSER app reset on #%s +@all ~* &*", password->sha256);
    redis_ok("ACL SETUSER default off");
    give("app", NULL);
    answer.also = give_hidden;
    given = password;
    struct peer *a = start("a");
    UNTIL(a->up);
    assert_int_equal(seen_when_given, 1);
    peer_wait_ready(a);
    assert_int_equal(answer.calls, 2);
    assert_int_equal(seen_when_given, 1);
    assert_int_equal(secret_copies(&given->secret), 0);
    works(a);
    peer_free(a);
    stage.notes_may_stay = true;
}

static void nothing_of_a_password_stays_in_memory(void **state)
{
    (void)state;
    if (!secret_can_look()) {
        skip();
    }
    for (size_t i = 0; i < SECRET_PASSWORDS; i++) {
        log_in_and_look(&secret_passwords[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(each_connection_asks_and_logs_in),
        STAGE_TEST(a_password_alone_is_the_default_users),
        STAGE_TEST(the_longest_password_fits),
        STAGE_TEST(a_rotated_password_is_used_by_the_next_connection),
        STAGE_TEST(redissons_listener_asks_as_well),
        STAGE_TEST(a_failure_backs_off_and_says_so),
        STAGE_TEST(the_subscription_fails_by_itself),
        STAGE_TEST(what_cannot_be_sent_is_a_failure),
        STAGE_TEST(the_client_may_be_freed_there),
        STAGE_TEST(the_client_may_be_closed_there),
        STAGE_TEST(the_connection_may_end_meanwhile),
        STAGE_TEST(a_loss_comes_before_the_next_question),
        STAGE_TEST(nothing_of_a_password_stays_in_memory),
    };

    return STAGE_RUN(tests);
}
