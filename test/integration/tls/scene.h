/* SPDX-License-Identifier: MIT */
/* Helpers of the TLS tests: the stage's server with a certificate, its clients, and a
 * relay between them. The certificates are made by the build (test/lib/certificates.sh).
 * Independent of the tests.
 *
 * Usual course: port = tls_listen("server", false), a = tls_start("a", port, NULL), the
 * trace; relay_start(port) in between. */
#ifndef TEST_TLS_SCENE_H
#define TEST_TLS_SCENE_H
#include "players.h"

/* Returns the path of a certificate, a key or a folder, valid until the fourth next
 * call. */
const char *tls_file(const char *name);
/* Makes the stage's server show this certificate ("server"), and with `ask`
 * require one of the client, on a port of 127.0.0.1, which is returned. Skips the test if
 * the server has no TLS. */
int tls_listen(const char *certificate, bool ask);
/* The same in two steps, for any server. */
void tls_show(struct server *server, const char *certificate, bool ask);
int tls_begin_to_listen(struct server *server);
/* Starts a client at rediss://HOST:PORT that trusts ca.pem unless `options` say
 * otherwise. */
struct peer *tls_start_at(const char *label, const char *host, int port,
                          const struct lw_client_options *options);
struct peer *tls_start(const char *label, int port,
                       const struct lw_client_options *options); /* at 127.0.0.1 */
/* Asserts that the next attempts fail, and that the reason contains this text. */
void assert_down(struct peer *peer, const char *text);
/* Calls shutdown(SHUT_WR) on all sockets of this process that are connected to the port:
 * a write there raises SIGPIPE. Returns the number of these sockets. */
int shut_writing(int port);
/* Gives the same sockets the smallest send buffer. */
void make_narrow(int port);

struct lane;
struct relay {
    struct relay *next;
    struct event *listening;
    int port, target;
    size_t chunk;       /* bytes that pass at once; 0: as they come */
    long left;          /* bytes to the client, then the end; -1: no end */
    bool hole;          /* nothing passes */
    const char *says;   /* sent in place of the server's replies; or NULL */
    const char *greets; /* sent before any request; or NULL */
    void (*on_accept)(struct relay *relay);
    int accepted;
    int records; /* records of the clients that have passed */
    long given;  /* how many times bytes were passed to clients */
    struct lane *lanes;
};
struct relay *relay_start(int target);
/* Holds back what the server sends; with false all of it goes to the clients at once. */
void relay_hold(struct relay *relay, bool on);
void relay_cut(struct relay *relay); /* closes all connections with a reset */
#endif
