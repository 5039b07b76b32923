/* SPDX-License-Identifier: MIT */
/* rediss-cluster://: the client uses TLS with every node, and verifies each node's
 * certificate. If a node is refused, its endpoint and the reason are reported. The locks
 * of a cluster are tested in the folder server.
 *
 * Usual course: cluster_set(3, 0, "") over TLS, and client_of() with the trusted
 * authority. */
#include "server/cluster_players.h"
#include "tls/scene.h"

#include <stdio.h>
#include <string.h>

static struct peer *start(const char *label, struct lw_client_options *options)
{
    options->local_turns = 1;
    options->backoff_max_ms = 100;
    return peer_start_at(label, cluster_url(), options);
}

/* Makes the node show this certificate from its next connection on. */
static void shows(int node, const char *certificate)
{
    freeReplyObject(server_command(cluster_server(node), "CONFIG SET tls-cert-file %s",
                                   tls_file(certificate)));
}

static void all_show(const char *certificate)
{
    for (int i = 0; i < cluster_count(); i++) {
        shows(i, certificate);
    }
}

static void serves(struct peer *peer, int node)
{
    struct hold *A = hold_of(peer, "A", name_at(node, 0), &kinds[0], 0);

    assert_held(A);
    end(A);
}

/* Asserts that the reason starts with the first node's endpoint; it may have no room for
 * all of them. */
static void all_are_refused(struct peer *peer, const char *reason)
{
    char wanted[160];

    (void)snprintf(
        wanted, sizeof(wanted),
        "; 127.0.0.1:%d: TLS with 127.0.0.1:%d: the certificate is refused: %s",
        cluster_main_port(0), cluster_main_port(0), reason);
    assert_down(peer, wanted);
    assert_int_equal(peer->ups, 0);
}

static void another_authority(void **state)
{
    (void)state;
    cluster_set(3, 0, "");
    all_are_refused(start("a", client_of(.tls_ca = tls_file("other_ca.pem"))),
                    "self-signed certificate in certificate chain");
    serves(start("b", client_of(.tls_ca = tls_file("ca.pem"))), 2);
}

static void another_name(void **state)
{
    (void)state;
    cluster_set(3, 0, "");
    all_show("name.pem");
    all_are_refused(start("a", client_of(.tls_ca = tls_file("ca.pem"))),
                    "IP address mismatch (127.0.0.1)");
    all_are_refused(start("b", client_of(.tls_ca = tls_file("ca.pem"),
                                         .tls_server_name = "other.example")),
                    "hostname mismatch (other.example)");
}

/* The seed is trusted; a node that the slot map leads to is not. */
static void a_node_of_another_name(void **state)
{
    const char *name, *reason = "IP address mismatch (127.0.0.1)";
    char wanted[80];
    struct peer *a;
    struct hold *A;

    (void)state;
    cluster_set(3, 0, "");
    shows(2, "name.pem");
    name = name_at(2, 0);
    a = start("a", client_of(.tls_ca = tls_file("ca.pem")));
    UNTIL(a->up);
    A = acquire_hold(a, "A", name, 0);
    UNTIL(A->result != PENDING);
    assert_int_equal(A->result, LW_ECONN);
    (void)snprintf(wanted, sizeof(wanted),
                   "the cluster's node 127.0.0.1:%d: ", cluster_main_port(2));
    UNTIL(peer_logged(a, wanted));
    if (strstr(lw_lock_errstr(A->lock), reason) == NULL || !peer_logged(a, reason)) {
        stage_fail("\"%s\" does not say %s", lw_lock_errstr(A->lock), reason);
    }
    free_hold(A);
    stage_clear_trace();
    serves(a, 0);
    shows(2, "server.pem");
    serves(a, 2);
}

static void one_name_for_all(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    cluster_set(3, 0, "");
    all_show("name.pem");
    a = start(
        "a", client_of(.tls_ca = tls_file("ca.pem"), .tls_server_name = "redis.example"));
    UNTIL(a->up);
    A = hold_of(a, "A", name_at(0, 0), &kinds[0], 0);
    cluster_move(slot_of(A), 1);
    renew_hold(A, 0);
    UNTIL(A->renewed == LW_OK && A->renewals == 0);
    end(A);
    serves(a, 1);
    serves(a, 2);
    assert_int_equal(a->downs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(another_authority),
        STAGE_TEST(another_name),
        STAGE_TEST(a_node_of_another_name),
        STAGE_TEST(one_name_for_all),
    };

    return STAGE_RUN(tests);
}
