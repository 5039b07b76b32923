/* SPDX-License-Identifier: MIT */
/*
 * Locks in a real cluster whose nodes announce other endpoints than the usual address: a
 * hostname, none at all, "?", or an IPv6 address. Each kind of lock is held, renewed,
 * waited for, handed over and released at each master, and follows a slot that moves.
 * What such nodes reply is in cluster_nodes.c.
 *
 * Usual course: cluster_set with arguments, lives(); then a node dies, and the log calls
 * it by the endpoint that it announced.
 */
#include "cluster_players.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void skip_for(const char *why)
{
    (void)fprintf(stderr, "skipped: %s\n", why);
    skip();
}

static void skip_without_names(void)
{
    redisReply *reply =
        server_command(&stage.server, "CONFIG GET cluster-preferred-endpoint-type");
    bool none = reply->elements == 0;

    freeReplyObject(reply);
    if (none) {
        skip_for("nodes have names since Redis 7.0");
    }
}

static const char *address_map; /* of all clients, or NULL */

static struct peer *client_at(const char *label, const char *host)
{
    char url[80];
    struct peer *peer;

    (void)snprintf(url, sizeof(url), "redis-cluster://%s:%d", host, cluster_port(0));
    peer = peer_start_at(label, url,
                         client_of(.local_turns = 1, .backoff_max_ms = 200,
                                   .request_timeout_ms = 2000, .connect_timeout_ms = 2000,
                                   .address_map = address_map));
    UNTIL(peer->up);
    return peer;
}

/* True if redirects contain no host. A renewal may then fail until the client has
 * requested the slot map. */
static bool no_place_is_told;

static void renewed(struct hold *hold)
{
    uint64_t before = peer_stats(hold->peer).refreshes;

    renew_hold(hold, 0);
    UNTIL(hold->renewals == 0);
    while (no_place_is_told && hold->renewed == LW_ECONN) {
        UNTIL(peer_stats(hold->peer).refreshes > before);
        renew_hold(hold, 0);
        UNTIL(hold->renewals == 0);
    }
    if (hold->renewed != LW_OK) {
        stage_fail("%s: %s", status_name(hold->renewed), lw_lock_errstr(hold->lock));
    }
    assert_held(hold);
    stage_clear_trace();
}

/* Takes a lock through its life at each master. */
static void live(struct peer *one, struct peer *other, const struct kind *kind)
{
    for (int node = 0; node < 3; node++) {
        struct hold *A = hold_of(one, "A", name_at(node, 0), kind, 0), *B;

        B = queue_behind(other, "B", A, kind);
        renewed(A);
        hand_over(A, B);
        end(B);
        free_hold(A);
    }
}

static void follow(struct peer *one, struct peer *other, const struct kind *kind)
{
    uint64_t before = peer_stats(one).redirects;
    struct hold *A = hold_of(one, "A", name_at(0, 0), kind, 0), *B;
    int slot = slot_of(A);

    B = queue_behind(other, "B", A, kind);
    cluster_move(slot, 1);
    renewed(A);
    assert_true(no_place_is_told || peer_stats(one).redirects > before);
    pass_on(A, B);
    free_hold(A);
    end(B);
    cluster_move(slot, 0);
}

static void lives(const char *seed)
{
    struct peer *one = client_at("a", seed), *other = client_at("b", seed);

    for (int i = 0; i < KINDS; i++) {
        live(one, other, &kinds[i]);
        follow(one, other, &kinds[i]);
    }
    assert_int_equal(peer_stats(one).lost_taken + peer_stats(one).lost_deadline, 0);
    assert_int_equal(peer_stats(other).lost_taken + peer_stats(other).lost_deadline, 0);
}

/* Checks that the log calls a node that died by `host`. */
static void a_node_is_called(const char *host)
{
    char wanted[120];
    const char *seed = address_map != NULL         ? "127.0.0.1"
                       : strchr(host, ':') == NULL ? host
                                                   : "[::1]";
    struct peer *peer = client_at("c", seed);

    end(hold_of(peer, "C", name_at(2, 0), &kinds[0], 0));
    server_kill(cluster_server(2));
    (void)snprintf(wanted, sizeof(wanted), "the cluster's node %s:%d: ", host,
                   cluster_port(2));
    UNTIL(peer_logged(peer, wanted));
}

/* ---- names ---- */

static size_t names_told(int node, const char *name)
{
    redisReply *slots = server_command(cluster_server(node), "CLUSTER SLOTS");
    size_t count = 0;

    for (size_t i = 0; i < slots->elements; i++) {
        const redisReply *host = slots->element[i]->element[2]->element[0];
        count += host->type == REDIS_REPLY_STRING && strcmp(host->str, name) == 0;
    }
    freeReplyObject(slots);
    return count;
}

static void by_the_names_that_they_announce(void **state)
{
    (void)state;
    skip_without_names();
    cluster_set(3, 0,
                "--cluster-announce-hostname localhost "
                "--cluster-preferred-endpoint-type hostname");
    for (int i = 0; i < 3; i++) {
        UNTIL(names_told(i, "localhost") == 3);
    }
    lives("127.0.0.1");
    a_node_is_called("localhost");
}

/* The names do not resolve: every connection except those to the seed uses the map. */
static void by_names_that_are_mapped(void **state)
{
    char map[200] = "", name[32];
    size_t length = 0;

    (void)state;
    skip_without_names();
    cluster_set(3, 0, "--cluster-preferred-endpoint-type hostname");
    for (int i = 0; i < 3; i++) {
        freeReplyObject(server_command(cluster_server(i),
                                       "CONFIG SET cluster-announce-hostname "
                                       "node-%d.invalid",
                                       i));
        length += (size_t)snprintf(map + length, sizeof(map) - length,
                                   "%snode-%d.invalid:%d=localhost:%d", i > 0 ? "," : "",
                                   i, cluster_port(i), cluster_port(i));
    }
    for (int i = 0; i < 9; i++) {
        (void)snprintf(name, sizeof(name), "node-%d.invalid", i / 3);
        UNTIL(names_told(i % 3, name) == 1);
    }
    address_map = map;
    lives("127.0.0.1");
    a_node_is_called("node-2.invalid");
    address_map = NULL;
}

/* Nodes announce no host. The client uses the host of the node that it asked. */
static void by_nothing_at_all(void **state)
{
    (void)state;
    skip_without_names();
    cluster_set(3, 0, "--cluster-preferred-endpoint-type unknown-endpoint");
    assert_int_equal(names_told(0, ""), 0);
    lives("localhost");
    a_node_is_called("localhost");
}

/* Nodes prefer hostnames, but have none. The slot map also has addresses; a redirect has
 * none. */
static void by_a_question_mark(void **state)
{
    (void)state;
    skip_without_names();
    cluster_set(3, 0, "--cluster-preferred-endpoint-type hostname");
    assert_int_equal(names_told(0, "?"), 3);
    no_place_is_told = true;
    lives("localhost");
    no_place_is_told = false;
    a_node_is_called("127.0.0.1");
}

/* A client without a subscription in the slot learns of the move only by the redirect. */
static void who_only_holds_follows_a_question_mark(void **state)
{
    struct peer *one;
    struct hold *A;

    (void)state;
    skip_without_names();
    cluster_set(3, 0, "--cluster-preferred-endpoint-type hostname");
    for (int i = 0; i < 3; i++) {
        freeReplyObject(
            server_command(cluster_server(i), "ACL SETUSER default -ssubscribe"));
    }
    one = client_at("a", "localhost");
    A = hold_of(one, "A", name_at(0, 0), &kinds[0], 3000);
    cluster_move(slot_of(A), 1);
    UNTIL(peer_stats(one).renewed > 0 || A->lost != PENDING);
    assert_int_equal(A->lost, PENDING);
    assert_held(A);
    end(A);
}

/* ---- IPv6 ---- */

static bool has_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;

    close(fd);
    return has;
}

static void by_ipv6(void **state)
{
    (void)state;
    if (!has_ipv6()) {
        skip_for("this machine has no ::1");
    }
    cluster_set_at("::1", 3, "");
    lives("[::1]");
    a_node_is_called("::1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(by_the_names_that_they_announce),
        STAGE_TEST(by_names_that_are_mapped),
        STAGE_TEST(by_nothing_at_all),
        STAGE_TEST(by_a_question_mark),
        STAGE_TEST(who_only_holds_follows_a_question_mark),
        STAGE_TEST(by_ipv6),
    };

    return STAGE_RUN(tests);
}
