/* SPDX-License-Identifier: MIT */
/*
 * What a quorum refuses: servers that are not independent masters, modes and calls that
 * it does not support, options that do not fit. Each refusal has the reason and the
 * server. Depends on the public header and test/lib.
 */
#include "guard_record.h"
#include "groups.h"
#include "scene.h"

#include <stdio.h>
#include <string.h>

/* Waits until the client's log has this text after the name of the server with this
 * index. */
static void wait_for_log(struct peer *peer, int server, const char *text)
{
    char line[256];

    (void)snprintf(line, sizeof(line), "127.0.0.1:%d: no connection: %s",
                   quorum_proxy[server]->port, text);
    UNTIL(peer_logged(peer, line));
}

static struct peer *start(void)
{
    return quorum_peer("a", client_of(.backoff_max_ms = 100));
}

/* A server is recognized by its run id, whatever its address. */
static void one_server_has_one_vote(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    proxy_lead(quorum_proxy[2], quorum_server[0].path, NULL);
    a = start();
    UNTIL(peer_logged(a, "the same server as 127.0.0.1:"));
    A = acquire_and_wait(a, "A", "x");
    assert_int_equal(quorum_count("x"), 2);
    stage_clear_trace();
    release_hold(A);
    EXPECT("A released OK");
    server_kill(&quorum_server[1]);
    UNTIL(!a->up);
    A = acquire_hold(a, "B", "x", 0);
    EXPECT("B ECONN");
    quorum_says(A, "the same server as 127.0.0.1:");
}

static bool replicates(int server)
{
    redisReply *reply = server_command(&quorum_server[server], "INFO replication");
    bool replicates = strstr(reply->str, "connected_slaves:1") != NULL;

    freeReplyObject(reply);
    return replicates;
}

/* Tries the lock, and returns true if the reason has this text. */
static bool is_said(struct peer *peer, const char *text)
{
    struct hold *hold = acquire_hold(peer, "A", "x", 0);
    bool said;

    EXPECT("A ECONN");
    said = strstr(lw_lock_errstr(hold->lock), text) != NULL;
    free_hold(hold);
    return said;
}

static void replicas_and_their_masters_have_no_vote(void **state)
{
    struct peer *a;
    struct hold *A;
    int port;

    (void)state;
    quorum_start(3);
    port = server_listen(&quorum_server[0]);
    freeReplyObject(server_command(&quorum_server[2], "REPLICAOF 127.0.0.1 %d", port));
    UNTIL(replicates(0));
    a = start();
    wait_for_log(a, 0, "a master with replicas cannot be in a quorum");
    UNTIL(peer_logged(a, "READONLY") || peer_logged(a, "replica"));
    UNTIL(is_said(a, "connected"));
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A ECONN");
    quorum_says(A, "a master with replicas");
    quorum_says(A, "connected");
}

static void a_node_of_a_cluster_has_no_vote(void **state)
{
    struct peer *a;
    char args[64];

    (void)state;
    quorum_start(3);
    if (redis_info("redis_version") < 7) {
        skip(); /* before 7 the bus port is the same for all servers without a TCP port */
    }
    (void)snprintf(args, sizeof(args), "--cluster-enabled yes --cluster-port %d",
                   server_free_port());
    server_stop(&quorum_server[1]);
    server_start(&quorum_server[1], args);
    proxy_lead(quorum_proxy[1], quorum_server[1].path, NULL);
    a = start();
    wait_for_log(a, 1, "a cluster's node cannot be in a quorum");
    (void)quorum_take(a, "A", "x");
}

static void found_none(struct lw_client *client, int status,
                       const struct lw_listing *listing, const char *why, void *arg)
{
    (void)client, (void)status, (void)listing, (void)why, (void)arg;
}

static int found_one(struct lw_client *client, const struct lw_inspection *found,
                     const struct lw_listing *listing, void *arg)
{
    (void)client, (void)found, (void)listing, (void)arg;
    return 0;
}

static void inspected(struct lw_client *client, int status,
                      const struct lw_inspection *found, const char *why, void *arg)
{
    (void)client, (void)status, (void)found, (void)why, (void)arg;
}

static void changed(struct lw_watcher *watch, int status, const struct lw_inspection *now,
                    const char *why, void *arg)
{
    (void)watch, (void)status, (void)now, (void)why, (void)arg;
}

static void broken(struct lw_client *client, int status, const char *why, void *arg)
{
    (void)client, (void)status, (void)why, (void)arg;
}

static void yielded(struct lw_client *client, int status, size_t holders, size_t reached,
                    const char *why, void *arg)
{
    (void)client, (void)why;
    if (arg != NULL) {
        *(int *)arg = status == LW_OK && holders == 1 ? (int)reached : -1;
    }
}

static void ask_for_x(struct peer *peer)
{
    for (int reached[1] = {0}; reached[0] != 1;) {
        reached[0] = PENDING;
        assert_int_equal(lw_ask_to_yield(peer->client, "x", yielded, reached), 0);
        UNTIL(reached[0] != PENDING);
    }
}

/* A client that asks does not know the quorum: it asks a server, or each of them. */
static void a_holder_is_asked_at_any_of_its_servers(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", client_of(.backoff_max_ms = 100, .asked_to_yield = on_asked));
    UNTIL(a->up && peer_stats(a).subscription_up == 1);
    A = quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    for (int i = 0; i < 3; i++) {
        struct peer *b = peer_start_at("b", quorum_server[i].url,
                                       client_of(.guard_ms = LW_GUARD_NONE));

        UNTIL(b->up);
        ask_for_x(b);
        UNTIL(A->asked == i + 1);
        peer_free(b);
    }
    stage_clear_trace();
    release_hold(A);
    EXPECT("A released OK");
}

/* The message overtakes the replies with the votes. */
static void a_request_before_the_votes_waits_for_them(void **state)
{
    struct peer *a, *b;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", client_of(.backoff_max_ms = 100, .asked_to_yield = on_asked));
    b = peer_start_at("b", quorum_server[0].url, client_of(.guard_ms = LW_GUARD_NONE));
    UNTIL(a->up && peer_stats(a).subscription_up == 1 && b->up);
    for (int i = 0; i < 3; i++) {
        proxy_delay(quorum_proxy[i], COMMANDS, TO_CLIENT, 300);
    }
    (void)acquire_hold(a, "A", "x", -1);
    UNTIL(quorum_value(0, "x")[0] != '\0');
    ask_for_x(b);
    EXPECT("A granted; A asked");
    stage_expect_nothing(200); /* once */
}

static void a_quorum_has_mutexes_alone(void **state)
{
    static const char *const names[] = {"x", "y"};
    static const char why[] = "not supported by a quorum";
    static const char token[] = "3f2b8a52-96d5-4c1f-a2b0-0d3c5f7e9a11:1:10000-";
    struct peer *a;
    struct hold *hold;
    struct lw_watcher *watch;

    (void)state;
    quorum_start(3);
    a = start();
    acquire_refused(a, "x", asking(.mode = LW_EXCLUSIVE), LW_EINVAL, "by a quorum");
    acquire_refused(a, "x", asking(.mode = LW_SHARED), LW_EINVAL, "by a quorum");
    acquire_refused(a, "x", asking(.mode = LW_REDISSON), LW_EINVAL, "by a quorum");
    acquire_refused(a, "x", asking(.max_waiting = 1), LW_EINVAL, why);
    acquire_refused(a, "x", asking(.at_least_ms = 1), LW_EINVAL, why);
    adopt_refused(a, "x", token, NULL, LW_EINVAL, "a lock of a quorum cannot be adopted");
    hold = quorum_take(a, "A", "x");
    detach_refused(hold, 0, LW_EINVAL, "a lock of a quorum cannot be detached");
    assert_string_equal(lw_lock_token(hold->lock), "");
    free_hold(hold);
    group_refused(a, names, 2, NULL, LW_EINVAL, why);
    assert_int_equal(lw_inspect(a->client, "x", inspected, NULL), LW_EINVAL);
    assert_string_equal(a->error,
                        "not supported by a quorum; ask each server by its own URL");
    assert_int_equal(lw_break(a->client, "x", NULL, broken, NULL), LW_EINVAL);
    assert_int_equal(lw_ask_to_yield(a->client, "x", yielded, NULL), LW_EINVAL);
    assert_int_equal(lw_list(a->client, NULL, found_one, found_none, NULL), LW_EINVAL);
    assert_int_equal(lw_watch(a->client, "x", NULL, changed, NULL, &watch), LW_EINVAL);
}

/* The guard is on, with 45 s by default. */
static void leases_fit_the_guard(void **state)
{
    struct peer *a, *b;

    (void)state;
    quorum_start(3);
    a = start();
    acquire_refused(a, "x", asking(.lease_ms = 33001), LW_EINVAL,
                    "lease_ms 33001 is above 33000, the most that guard_ms 45000 allows");
    b = quorum_peer("b", client_of(.guard_ms = 60000));
    acquire_refused(b, "x", asking(.lease_ms = 48001), LW_EINVAL,
                    "guard_ms 60000 allows");
}

/* The procedure of lockwire-quorum(7): the old server is stopped for good, and the
 * clients get the new list one after another. The clients with the old list have two of
 * its three servers left, of which each majority of the new list has one. */
static void clients_with_the_old_and_the_new_list_exclude_each_other(void **state)
{
    struct peer *a, *b;
    struct hold *A, *C;

    (void)state;
    quorum_start(4);
    quorum_list(3);
    a = quorum_peer("a", client_of(.backoff_max_ms = 100));
    UNTIL(a->up);
    A = quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    server_kill(&quorum_server[2]);
    (void)snprintf(quorum_url, sizeof(quorum_url),
                   "redis-quorum://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   quorum_proxy[0]->port, quorum_proxy[1]->port, quorum_proxy[3]->port);
    b = quorum_peer("b", client_of(.backoff_max_ms = 100));
    UNTIL(b->up);
    (void)acquire_hold(b, "B", "x", 0);
    EXPECT("B EBUSY");
    C = acquire_hold(b, "C", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    assert_true(C->fence > A->fence);
    (void)acquire_hold(a, "D", "x", 0);
    EXPECT("D EBUSY");
    release_hold(C);
    EXPECT("C released OK");
}

static void a_bad_list_is_explained(void **state)
{
    struct lw_client *client;
    char why[160] = "";
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    (void)state;
    options.errbuf = why;
    options.errbuf_size = sizeof(why);
    assert_int_equal(lw_client_new(stage.base, "redis-quorum://h1,h2", &options, &client),
                     LW_EINVAL);
    assert_string_equal(why, "a quorum has 3, 5 or 7 servers; 2 are listed");
    options.sentinel_password = "x";
    assert_int_equal(
        lw_client_new(stage.base, "redis-quorum://h1,h2,h3", &options, &client),
        LW_EINVAL);
    options.sentinel_password = NULL;
    options.priority = 7;
    assert_int_equal(
        lw_client_new(stage.base, "redis-quorum://h1,h2,h3", &options, &client),
        LW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(one_server_has_one_vote),
        STAGE_TEST(replicas_and_their_masters_have_no_vote),
        STAGE_TEST(a_node_of_a_cluster_has_no_vote),
        STAGE_TEST(a_quorum_has_mutexes_alone),
        STAGE_TEST(a_holder_is_asked_at_any_of_its_servers),
        STAGE_TEST(a_request_before_the_votes_waits_for_them),
        STAGE_TEST(leases_fit_the_guard),
        STAGE_TEST(clients_with_the_old_and_the_new_list_exclude_each_other),
        STAGE_TEST(a_bad_list_is_explained),
    };

    return STAGE_RUN(tests);
}
