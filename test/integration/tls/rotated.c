/* SPDX-License-Identifier: MIT */
/* Certificates that are renewed, or that expire, while clients hold locks over TLS:
 * connections that are up stay up, the next ones use the present files, and no lock is
 * lost. Other refusals are tested in refused.c.
 *
 * Usual course: load by several clients, new files, all connections are cut, and the load
 * goes on. */
#include "tls/load.h"
#include "tls/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLIENTS 3

static char dir[32];
static struct peer *clients[CLIENTS];
static struct hold *held; /* by the first client, all the time */

/* ---- files ---- */

static const char *own_file(const char *name)
{
    static char paths[4][64];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

/* Installs the file by rename, as is usual for a file in use. */
static void install(const char *certificate, const char *name)
{
    char command[700];

    (void)snprintf(command, sizeof(command), "cp '%s' '%s/new' && mv '%s/new' '%s'",
                   tls_file(certificate), dir, dir, own_file(name));
    assert_int_equal(system(command), 0);
}

static void install_client(const char *name)
{
    char file[64];

    (void)snprintf(file, sizeof(file), "%s.key", name);
    install(file, "key");
    (void)snprintf(file, sizeof(file), "%s.pem", name);
    install(file, "cert");
}

static void serve(const char *certificate, const char *authority)
{
    redis_ok("CONFIG SET tls-cert-file %s", tls_file(certificate));
    redis_ok("CONFIG SET tls-ca-cert-file %s", tls_file(authority));
}

static void remove_files(void)
{
    unlink(own_file("ca"));
    unlink(own_file("cert"));
    unlink(own_file("key"));
    rmdir(dir);
}

/* ---- clients ---- */

/* Starts the clients and the load. Time-outs are so long that no claim window and no
 * request expires while connections are refused. */
static void begin(void)
{
    int port = tls_listen("server", true);

    (void)snprintf(dir, sizeof(dir), "/tmp/lockwire-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    install("ca.pem", "ca");
    install_client("client");
    for (int i = 0; i < CLIENTS; i++) {
        char label[2] = {(char)('a' + i), '\0'};
        clients[i] = tls_start(
            label, port,
            client_of(.tls_ca = own_file("ca"), .tls_cert = own_file("cert"),
                      .tls_key = own_file("key"), .request_timeout_ms = STAGE_WAIT_MS,
                      .claim_ms = STAGE_WAIT_MS));
    }
    for (int i = 0; i < CLIENTS; i++) {
        peer_wait_ready(clients[i]);
    }
    held = acquire_and_wait(clients[0], "A", "x");
    for (int i = 0; i < CLIENTS; i++) {
        load_begin(clients[i]);
    }
    load_pass(50);
}

static void finish(void)
{
    load_pass(50);
    load_end();
    assert_held_by_redis(held);
    assert_int_equal(held->lost, PENDING);
    renew_hold(held, 0);
    UNTIL(held->renewals == 0);
    assert_int_equal(held->renewed, LW_OK);
    stage_clear_trace();
    remove_files();
}

static int downs(void)
{
    int count = 0;

    for (int i = 0; i < CLIENTS; i++) {
        count += clients[i]->downs;
    }
    return count;
}

static bool all_are(bool up)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i]->up != up) {
            return false;
        }
    }
    return true;
}

static void cut(void)
{
    redis_ok("CLIENT KILL TYPE pubsub");
    redis_ok("CLIENT KILL TYPE normal SKIPME yes");
    for (int i = 0; i < CLIENTS; i++) {
        UNTIL(clients[i]->downs > 0);
    }
}

static void all_refused(const char *why)
{
    UNTIL(all_are(false));
    for (int i = 0; i < CLIENTS; i++) {
        assert_down(clients[i], why);
    }
}

/* ---- tests ---- */

static void all_certificates_are_renewed(void **state)
{
    (void)state;
    begin();
    serve("renewed.pem", "other_ca.pem");
    load_pass(50);
    install("other_ca.pem", "ca");
    install_client("renewed_client");
    load_pass(50);
    assert_int_equal(downs(), 0);
    cut();
    UNTIL(all_are(true));
    finish();
}

static void the_servers_is_renewed_first(void **state)
{
    (void)state;
    begin();
    serve("renewed.pem", "ca.pem");
    load_pass(50);
    assert_int_equal(downs(), 0);
    cut();
    all_refused("the certificate is refused: unable to get local issuer certificate");
    install("other_ca.pem", "ca");
    UNTIL(all_are(true));
    finish();
}

/* Between the two installations the key and the certificate do not match. */
static void the_clients_is_renewed_last(void **state)
{
    (void)state;
    begin();
    serve("server.pem", "other_ca.pem");
    load_pass(50);
    assert_int_equal(downs(), 0);
    cut();
    all_refused("unknown ca");
    install("renewed_client.key", "key");
    all_refused("key values mismatch");
    install("renewed_client.pem", "cert");
    UNTIL(all_are(true));
    finish();
}

/* A connection that is up stays up; the next one fails until the server has a valid
 * certificate. */
static void the_servers_expires(void **state)
{
    (void)state;
    begin();
    serve("expired.pem", "ca.pem");
    load_pass(50);
    assert_int_equal(downs(), 0);
    cut();
    all_refused("the certificate is refused: certificate has expired (127.0.0.1)");
    serve("server.pem", "ca.pem");
    UNTIL(all_are(true));
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(all_certificates_are_renewed),
        STAGE_TEST(the_servers_is_renewed_first),
        STAGE_TEST(the_clients_is_renewed_last),
        STAGE_TEST(the_servers_expires),
    };
    return STAGE_RUN(tests);
}
