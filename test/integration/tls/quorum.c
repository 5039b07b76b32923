/* SPDX-License-Identifier: MIT */
/* rediss-quorum://: three servers, each with a certificate. A server whose certificate is
 * refused, or that refuses the client's, counts as down with its reason. A majority of
 * such servers is reported as LW_EREDIS, like a single one without a quorum.
 *
 * Usual course: a lock is held at all three, handed over, renewed and released. */
#include "guard_record.h"
#include "tls/scene.h"

#include <stdio.h>
#include <string.h>

#define SERVERS 3
#define GUARD_MS 45000 /* the default of a quorum's clients */

static struct server servers[SERVERS];
static int ports[SERVERS];
static char url[128];

static void stop_all(bool in_good_order)
{
    (void)in_good_order;
    for (int i = 0; i < SERVERS; i++) {
        if (servers[i].running) {
            server_stop(&servers[i]);
        }
    }
}

/* Starts the servers with these certificates; they grant locks at once. */
static void start(const char *first, const char *second, const char *third, bool ask)
{
    const char *const certificates[] = {first, second, third};
    int length = snprintf(url, sizeof(url), "rediss-quorum://");

    stage_at_exit(stop_all);
    stage.keys_may_stay = stage.notes_may_stay = true;
    for (int i = 0; i < SERVERS; i++) {
        server_start(&servers[i], NULL);
        tls_show(&servers[i], certificates[i], ask);
        ports[i] = tls_begin_to_listen(&servers[i]);
        guard_record_open_in(&servers[i], GUARD_MS, 0);
        length += snprintf(url + length, sizeof(url) - (size_t)length, "%s127.0.0.1:%d",
                           i > 0 ? "," : "", ports[i]);
    }
}

static struct peer *client(const char *label, const char *cert, const char *key)
{
    return peer_start_at(label, url,
                         client_of(.local_turns = 1, .backoff_max_ms = 100,
                                   .tls_ca = tls_file("ca.pem"), .tls_cert = cert,
                                   .tls_key = key));
}

static int count(const char *key)
{
    int held = 0;

    for (int i = 0; i < SERVERS; i++) {
        redisReply *reply = server_command(&servers[i], "EXISTS %s", key);

        held += reply->integer == 1;
        freeReplyObject(reply);
    }
    return held;
}

static bool is_queued(const char *name)
{
    int queued = 0;

    for (int i = 0; i < SERVERS; i++) {
        redisReply *reply = server_command(&servers[i], "ZCARD %s", queue_of(name));

        queued += reply->integer == 1;
        freeReplyObject(reply);
    }
    return queued == SERVERS;
}

/* Returns true if the log has this reason for the server. */
static bool is_refused(const struct peer *peer, int server, const char *reason)
{
    char line[256];
    const char *at;

    (void)snprintf(line, sizeof(line), "127.0.0.1:%d: no connection: ", ports[server]);
    for (at = peer->log; (at = strstr(at, line)) != NULL; at++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, reason);

        if (found != NULL && (end == NULL || found < end)) {
            return true;
        }
    }
    return false;
}

static void live(const char *cert, const char *key)
{
    struct peer *a = client("a", cert, key), *b = client("b", cert, key);
    struct hold *A, *B;

    UNTIL(peer_stats(a).subscription_up && peer_stats(b).subscription_up);
    A = acquire_and_wait(a, "A", "x");
    UNTIL(count("x") == SERVERS);
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(is_queued("x"));
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(count("x") == 0);
}

static void a_lock_at_servers_with_certificates(void **state)
{
    (void)state;
    start("server", "server", "localhost", false);
    live(NULL, NULL);
}

static void servers_that_want_the_client_s_certificate(void **state)
{
    (void)state;
    start("server", "server", "server", true);
    live(tls_file("client.pem"), tls_file("client.key"));
}

static void one_certificate_that_is_refused_is_not_noticed(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    start("server", "expired", "server", false);
    a = client("a", NULL, NULL);
    UNTIL(is_refused(a, 1, "certificate has expired"));
    UNTIL(a->up);
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    assert_int_equal(count("x"), 2);
    assert_int_equal(a->downs, 0);
    tls_show(&servers[1], "server", false);
    UNTIL(count("x") == SERVERS); /* the held lock is requested there as well */
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(count("x") == 0);
}

static void a_majority_of_refused_certificates_is_told_apart(void **state)
{
    struct peer *a;
    struct hold *A;
    char connected[64];

    (void)state;
    start("expired", "server", "name", false);
    a = client("a", NULL, NULL);
    UNTIL(is_refused(a, 0, "certificate has expired") &&
          is_refused(a, 2, "IP address mismatch (127.0.0.1)"));
    UNTIL(lw_client_error(a->client) == LW_EREDIS);
    (void)snprintf(connected, sizeof(connected), "127.0.0.1:%d: connected", ports[1]);
    UNTIL(strstr(a->why, connected) != NULL);
    assert_non_null(strstr(a->why, "certificate has expired"));
    assert_non_null(strstr(a->why, "IP address mismatch (127.0.0.1)"));
    A = acquire_hold(a, "A", "x", 0);
    UNTIL(A->result != PENDING);
    stage_clear_trace();
    assert_int_equal(A->result, LW_ECONN);
    assert_int_equal(lw_lock_error(A->lock), LW_EREDIS);
    assert_non_null(strstr(lw_lock_errstr(A->lock), "certificate has expired"));
    assert_int_equal(count("x"), 0);
    tls_show(&servers[2], "server", false);
    UNTIL(a->up);
    A = acquire_and_wait(a, "B", "x");
    EXPECT("B granted");
    release_hold(A);
    EXPECT("B released OK");
}

/* One refused certificate and one dead server are an outage, not a refusal. */
static void one_refused_and_one_dead_are_no_connection(void **state)
{
    struct peer *a;

    (void)state;
    start("server", "expired", "server", false);
    server_kill(&servers[0]);
    a = client("a", NULL, NULL);
    UNTIL(is_refused(a, 1, "certificate has expired") &&
          is_refused(a, 0, "Connection refused"));
    UNTIL(strstr(a->why, "certificate has expired") != NULL);
    assert_false(a->up);
    assert_int_equal(lw_client_error(a->client), LW_ECONN);
}

static void servers_that_refuse_the_client(void **state)
{
    struct peer *a;

    (void)state;
    start("server", "server", "server", true);
    a = client("a", NULL, NULL);
    UNTIL(lw_client_error(a->client) == LW_EREDIS);
    UNTIL(strstr(a->why, "certificate required") != NULL);
    assert_false(a->up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_lock_at_servers_with_certificates),
        STAGE_TEST(servers_that_want_the_client_s_certificate),
        STAGE_TEST(one_certificate_that_is_refused_is_not_noticed),
        STAGE_TEST(a_majority_of_refused_certificates_is_told_apart),
        STAGE_TEST(one_refused_and_one_dead_are_no_connection),
        STAGE_TEST(servers_that_refuse_the_client),
    };

    return STAGE_RUN(tests);
}
