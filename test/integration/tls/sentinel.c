/* SPDX-License-Identifier: MIT */
/* rediss-sentinel://: the client uses TLS both with the sentinel and with the server that
 * it names, and verifies the certificate of each.
 *
 * Usual course: a real sentinel with a TLS port monitors the stage's server over TLS. */
#include "sentinel.h"
#include "tls/scene.h"

#include <stdio.h>
#include <string.h>

static struct sentinel sentinel;
static char url[128];

static void sentinel_leaves(bool in_good_order)
{
    (void)in_good_order;
    sentinel_stop(&sentinel);
}

/* Makes the server show this certificate, and starts a sentinel. Returns the server's
 * port. */
static int watch_as(const char *certificate)
{
    int port = tls_listen(certificate, false), tls_port = server_free_port();
    char more[1500];

    stage_at_exit(sentinel_leaves);
    (void)snprintf(more, sizeof(more),
                   "tls-port %d\ntls-cert-file %s\ntls-key-file %s\n"
                   "tls-ca-cert-file %s\ntls-auth-clients no\ntls-replication yes\n",
                   tls_port, tls_file("server.pem"), tls_file("server.key"),
                   tls_file("ca.pem"));
    sentinel_start(&sentinel, port, more);
    (void)snprintf(url, sizeof(url), "rediss-sentinel://127.0.0.1:%d/%s", tls_port,
                   SENTINEL_SERVICE);
    return port;
}

static void watch(void)
{
    (void)watch_as("server");
}

static void both_are_spoken_to_by_tls(void **state)
{
    (void)state;
    watch();

    struct peer *a = peer_start_at(
        "a", url, client_of(.tls_ca = tls_file("ca.pem"), .local_turns = 1));

    works(a);
}

static void a_sentinel_that_is_not_trusted_leads_nowhere(void **state)
{
    (void)state;
    watch();

    struct peer *a = peer_start_at("a", url,
                                   client_of(.tls_ca = tls_file("other_ca.pem"),
                                             .local_turns = 1, .backoff_max_ms = 100));

    assert_down(a, "no sentinel reported a usable master; 127.0.0.1:");
    assert_true(peer_logged(a, "certificate"));
}

/* The certificate "localhost" is valid only for 127.0.0.1, which the sentinel
 * announces. */
static void the_announced_name_is_verified_not_the_mapped_one(void **state)
{
    int port;
    char map[80];

    (void)state;
    port = watch_as("localhost");
    (void)snprintf(map, sizeof(map), "127.0.0.1:%d=localhost:%d", port, port);

    struct peer *a = peer_start_at(
        "a", url,
        client_of(.tls_ca = tls_file("ca.pem"), .local_turns = 1, .address_map = map));
    struct peer *b = peer_start_at(
        "b", url,
        client_of(.tls_ca = tls_file("ca.pem"), .local_turns = 1, .backoff_max_ms = 100,
                  .address_map = map, .tls_server_name = "localhost"));

    works(a);
    assert_down(b, "hostname mismatch (localhost)");
    assert_true(peer_logged(b, " (mapped from 127.0.0.1:"));
    struct peer *c =
        peer_start_at("c", url,
                      client_of(.tls_ca = tls_file("ca.pem"), .local_turns = 1,
                                .backoff_max_ms = 100, .tls_server_name = "localhost"));
    assert_down(c, "hostname mismatch (localhost)");
    assert_true(peer_logged(c, " (announced by sentinel 127.0.0.1:"));
    assert_true(
        peer_logged(c, ", tls_server_name or --sni the name in the certificate)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(both_are_spoken_to_by_tls),
        STAGE_TEST(the_announced_name_is_verified_not_the_mapped_one),
        STAGE_TEST(a_sentinel_that_is_not_trusted_leads_nowhere),
    };

    return STAGE_RUN(tests);
}
