/* SPDX-License-Identifier: MIT */
/*
 * What the tests of TLS share: the stage's server with a certificate, clients of it, and
 * a relay between them. Owns the relay's sockets; certificates are made by the build
 * (test/lib/certificates.sh). Must not know what is tested.
 *
 * Happy path: port = tls_listen("server", false), a = tls_start("a", port, NULL), the
 * trace; relay_start(port) in between.
 */
#ifndef TEST_TLS_SCENE_H
#define TEST_TLS_SCENE_H
#include "players.h"

/* The path of a certificate, a key or a folder; until the fourth next call. */
const char *tls_file(const char *name);
/* From now on the stage's server shows this certificate ("server"), and with `ask` wants
 * one of the client, on a port of 127.0.0.1, which is returned. Skips the test where the
 * server has no TLS. */
int tls_listen(const char *certificate, bool ask);
/* The same in two steps, for any server. */
void tls_show(struct server *server, const char *certificate, bool ask);
int tls_begin_to_listen(struct server *server);
/* A client at rediss://HOST:PORT that trusts ca.pem unless `options` say otherwise. */
struct peer *tls_start_at(const char *label, const char *host, int port,
                          const struct lw_client_options *options);
struct peer *tls_start(const char *label, int port,
                       const struct lw_client_options *options); /* at 127.0.0.1 */
/* Its next attempts fail, and the reason has this text. */
void assert_down(struct peer *peer, const char *text);
/* SHUT_WR on all sockets of this process that are connected to the port: whoever writes
 * there gets SIGPIPE. How many there were. */
int shut_writing(int port);
/* The same sockets take but little at once. */
void make_narrow(int port);

struct lane;
struct relay {
    struct relay *next;
    struct event *listening;
    int port, target;
    size_t chunk;       /* bytes that pass at once; 0: as they come */
    long left;          /* bytes to the client, then the end; -1: no end */
    bool hole;          /* nothing passes */
    const char *says;   /* this in place of the server, whatever was asked; NULL */
    const char *greets; /* this before anything was asked; NULL */
    void (*on_accept)(struct relay *relay);
    int accepted;
    int records; /* of the clients', that have passed */
    long given;  /* how many times something went to the client */
    struct lane *lanes;
};
struct relay *relay_start(int target);
/* What the server says stays here; with false all of it goes to the client at once. */
void relay_hold(struct relay *relay, bool on);
void relay_cut(struct relay *relay); /* all connections, with a reset */
#endif
