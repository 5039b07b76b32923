/* SPDX-License-Identifier: MIT */
/* What a client at rediss:// refuses, what refuses it, and which reason is reported:
 * certificates, names, times, servers without TLS or without any reply, unusable files.
 *
 * Usual course: an attempt fails, and the link callback is called with the reason; with
 * the cause gone the next attempt succeeds. */
#include "tls/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

/* ---- the certificate ---- */

static void another_authority(void **state)
{
    int port = tls_listen("server", false);

    (void)state;
    assert_down(tls_start("a", port, client_of(.tls_ca = tls_file("other_ca.pem"))),
                "self-signed certificate in certificate chain");
}

static void another_name(void **state)
{
    int port = tls_listen("name", false);

    (void)state;
    assert_down(tls_start_at("a", "localhost", port, NULL),
                "hostname mismatch (localhost)");
    assert_down(tls_start("b", port, client_of(.tls_server_name = "other.example")),
                "hostname mismatch (other.example)");
    assert_down(tls_start("c", port, client_of(.tls_server_name = "a.redis.example")),
                "hostname mismatch");
}

/* The subject's common name is not the name of a server (RFC 9525). */
static void a_common_name(void **state)
{
    int port = tls_listen("localhost", false);

    (void)state;
    works(tls_start("a", port, NULL));
    assert_down(tls_start_at("b", "localhost", port, NULL),
                "hostname mismatch (localhost)");
}

/* A wildcard stands for one label, and only for a whole one. */
static void wildcards(void **state)
{
    static const char *const others[] = {"lock.example", "a.b.lock.example",
                                         "redis.part.example"};
    int port = tls_listen("wild", false);

    (void)state;
    works(tls_start("a", port, client_of(.tls_server_name = "a.lock.example")));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_down(tls_start(others[i], port, client_of(.tls_server_name = others[i])),
                    "hostname mismatch");
    }
}

static void another_purpose(void **state)
{
    int port = tls_listen("purpose", false);

    (void)state;
    assert_down(tls_start("a", port, NULL), "certificate purpose");
}

static void another_address(void **state)
{
    int port = tls_listen("name", false);

    (void)state;
    assert_down(tls_start("a", port, NULL), "IP address mismatch (127.0.0.1)");
}

static void expired(void **state)
{
    struct peer *a = tls_start("a", tls_listen("expired", false), NULL);

    (void)state;
    assert_down(a, "certificate has expired");
    assert_int_equal(lw_client_error(a->client), LW_EREDIS);
}

/* The clock of this machine may not have been set yet: time may mend it, as it mends an
 * outage. */
static void not_yet_valid(void **state)
{
    struct peer *a = tls_start("a", tls_listen("early", false), NULL);

    (void)state;
    assert_down(a, "certificate is not yet valid");
    assert_int_equal(lw_client_error(a->client), LW_ECONN);
}

static void without_the_clients_certificate(void **state)
{
    int port = tls_listen("server", true);

    (void)state;
    assert_down(tls_start("a", port, NULL), "certificate required");
}

/* ---- the server ---- */

static void a_server_without_tls(void **state)
{
    int port = server_listen(&stage.server);

    (void)state;
    assert_down(tls_start("a", port, client_of(.connect_timeout_ms = 300)),
                "it sent nothing (no TLS? try redis:// or valkey://)");
}

/* A server that replies, but not in TLS. */
static void a_server_of_another_kind(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    relay->says = "-ERR what is this?\r\n";
    assert_down(tls_start("a", relay->port, NULL),
                "the server does not use TLS on this port");
}

/* A server that has too many clients sends that to each client that connects. */
static void a_server_of_another_kind_that_speaks_first(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    relay->greets = "-ERR max number of clients reached\r\n";
    assert_down(tls_start("a", relay->port, NULL),
                "the server does not use TLS on this port");
}

static void a_server_with_tls_behind_redis(void **state)
{
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", tls_listen("server", false));
    assert_down(peer_start_at("a", url, NULL), "try rediss:// or valkeys://");
}

static void a_server_that_answers_with_an_alert(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    char url[64];

    (void)state;
    relay->says = "\x15\x03\x01\x02\x28";
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", relay->port);
    assert_down(peer_start_at("a", url, client_of(.backoff_max_ms = 100)),
                "the server uses TLS (try rediss:// or valkeys://)");
}

static void a_black_hole_in_the_handshake(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    relay->hole = true;
    stage_forget_lag();
    struct peer *a = tls_start("a", relay->port, client_of(.connect_timeout_ms = 300));
    UNTIL(a->downs >= 2);
    assert_non_null(strstr(a->why, "no TLS handshake with 127.0.0.1:"));
    assert_true(a->linked_ms[1] - a->linked_ms[0] >= 290);
    assert_int_equal(a->ups, 0);
    relay->hole = false;
    UNTIL(a->up);
    works(a);
}

static void an_end_half_way(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    struct peer *a =
        tls_start("a", relay->port, client_of(.backoff_min_ms = 1, .backoff_max_ms = 1));
    for (long length = 0; length < 1500; length += 1 + length / 8) {
        int before = a->downs;
        relay->left = length;
        relay_cut(relay);
        UNTIL(a->downs > before);
        assert_true(a->why[0] != '\0');
    }
    relay->left = -1;
    UNTIL(a->up);
    works(a);
}

/* ---- files ---- */

static void copy(const char *from, const char *to)
{
    char command[700];

    (void)snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static void certificates_are_renewed_under_a_client(void **state)
{
    char dir[] = "/tmp/lockwire-test-XXXXXX", trusted[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(trusted, sizeof(trusted), "%s/ca", dir);
    copy(tls_file("ca.pem"), trusted);
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, client_of(.tls_ca = trusted));
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    relay->target = tls_listen("renewed", false);
    relay_cut(relay);
    UNTIL(!a->up);
    assert_down(a, "the certificate is refused");
    unlink(trusted);
    assert_down(a, "No such file");
    copy(tls_file("server.key"), trusted);
    assert_down(a, trusted);
    copy(tls_file("other_ca.pem"), trusted);
    UNTIL(a->up);
    assert_held_by_redis(A);
    assert_int_equal(A->lost, PENDING);
    stage_clear_trace();
    unlink(trusted);
    rmdir(dir);
}

static int times_opened(int watch)
{
    struct inotify_event event; /* without a name, which events of a file do not have */
    int count = 0;

    while (read(watch, &event, sizeof(event)) == (ssize_t)sizeof(event)) {
        count += (event.mask & IN_OPEN) != 0;
    }
    return count;
}

/* A system has many authorities, and reading them delays the event loop. */
static void authorities_are_read_anew_only_if_they_changed(void **state)
{
    char trusted[] = "/tmp/lockwire-test-XXXXXX";
    int written = mkstemp(trusted), watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    time_t settled;

    (void)state;
    close(written);
    copy(tls_file("ca.pem"), trusted);
    settled = time(NULL) + 3;
    UNTIL(time(NULL) >= settled);
    assert_true(inotify_add_watch(watch, trusted, IN_OPEN | IN_CLOSE) >= 0);
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, client_of(.tls_ca = trusted));
    peer_wait_ready(a);
    assert_int_equal(times_opened(watch), 1);
    copy(tls_file("other_ca.pem"), trusted);
    (void)times_opened(watch);
    relay_cut(relay);
    assert_down(a, "the certificate is refused");
    assert_true(times_opened(watch) >= 1);
    close(watch);
    unlink(trusted);
}

struct refusal {
    const char *url, *ca, *cert, *key, *name, *told;
};

static void refused(const struct refusal *refusal)
{
    struct lw_client *client = NULL;
    char why[512] = "";
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    options.tls_ca = refusal->ca != NULL ? tls_file(refusal->ca) : NULL;
    options.tls_cert = refusal->cert != NULL ? tls_file(refusal->cert) : NULL;
    options.tls_key = refusal->key != NULL ? tls_file(refusal->key) : NULL;
    options.tls_server_name = refusal->name;
    options.errbuf = why;
    options.errbuf_size = sizeof(why);
    assert_int_equal(lw_client_new(stage.base, refusal->url, &options, &client),
                     LW_EINVAL);
    assert_null(client);
    if (strstr(why, refusal->told) == NULL) {
        stage_fail("told \"%s\", not %s", why, refusal->told);
    }
}

static void what_cannot_work_is_refused_at_once(void **state)
{
    static const struct refusal refusals[] = {
        {"redis://h", "ca.pem", NULL, NULL, NULL, "tls_ca needs a URL"},
        {"unix:///h", "ca.pem", NULL, NULL, NULL, "tls_ca needs a URL"},
        {"redis://h", NULL, "client.pem", "client.key", NULL, "tls_cert needs a URL"},
        {"redis://h", NULL, NULL, NULL, "h", "tls_server_name needs a URL"},
        {"rediss://h", NULL, "client.pem", NULL, NULL, "without tls_key"},
        {"rediss://h", NULL, NULL, "client.key", NULL, "without tls_cert"},
        {"rediss://h", "nowhere", NULL, NULL, NULL, "nowhere: No such file"},
        {"rediss://h", "server.key", NULL, NULL, NULL, "server.key: "},
        {"rediss://h", "ca.pem", "folder", "client.key", NULL,
         "folder: not a regular file"},
        {"rediss://h", "ca.pem", "client.key", "client.key", NULL, "tls_cert "},
        {"rediss://h", "ca.pem", "client.pem", "client.pem", NULL, "tls_key "},
        {"rediss://h", "ca.pem", "client.pem", "foreign.key", NULL,
         "foreign.key: key values mismatch"},
        {"rediss://h", "ca.pem", "client.pem", "secret.key", NULL,
         "secret.key: protected by a passphrase, which is not supported"},
        {"rediss://h", "ca.pem", NULL, NULL, "",
         "tls_server_name : not a valid server name"},
        {"rediss://h", "ca.pem", NULL, NULL, ".h",
         "tls_server_name .h: not a valid server name"},
        {"rediss://.h", "ca.pem", NULL, NULL, NULL,
         "the URL's host .h: not a valid server name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        refused(&refusals[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(another_authority),
        STAGE_TEST(another_name),
        STAGE_TEST(a_common_name),
        STAGE_TEST(wildcards),
        STAGE_TEST(another_purpose),
        STAGE_TEST(another_address),
        STAGE_TEST(expired),
        STAGE_TEST(not_yet_valid),
        STAGE_TEST(without_the_clients_certificate),
        STAGE_TEST(a_server_without_tls),
        STAGE_TEST(a_server_of_another_kind),
        STAGE_TEST(a_server_of_another_kind_that_speaks_first),
        STAGE_TEST(a_server_with_tls_behind_redis),
        STAGE_TEST(a_server_that_answers_with_an_alert),
        STAGE_TEST(a_black_hole_in_the_handshake),
        STAGE_TEST(an_end_half_way),
        STAGE_TEST(certificates_are_renewed_under_a_client),
        STAGE_TEST(authorities_are_read_anew_only_if_they_changed),
        STAGE_TEST(what_cannot_work_is_refused_at_once),
    };
    return STAGE_RUN(tests);
}
