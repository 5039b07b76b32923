/* SPDX-License-Identifier: MIT */
/* A TLS server of the test's own in front of the stage's real server. It passes on in
 * plain text what clients send, and returns the replies in records as a test requires
 * them. Independent of Redis, and of the tests.
 *
 * Usual course: front = front_start(NULL), a = tls_start("a", front->port, NULL), the
 * fault. */
#ifndef TEST_TLS_FRONT_H
#define TEST_TLS_FRONT_H
#include "tls/scene.h"

#include <openssl/ssl.h>

enum front_end { CLOSED, CLOSED_WITH_NOTIFY, RESET };

struct guest;
struct front {
    struct front *next;
    struct event *listening;
    void (*prepare)(SSL *ssl); /* before the handshake; or NULL */
    int port, accepted;
    int updated;         /* key updates that clients have sent */
    int greeted;         /* hellos that clients have sent */
    size_t record;       /* bytes of plain text in each record; 0: as they come */
    long half;           /* bytes of the next reply, then the end; -1: all of it */
    long left;           /* bytes on the wire, then the end; -1: no end */
    enum front_end ends; /* how connections end */
    long mute;           /* bytes on each connection, then silence; -1: none */
    bool hole;           /* what clients send is discarded */
    const char *endless; /* sent endlessly after the handshake, no replies; or NULL */
    const char *says;    /* sent first, and not in TLS; or NULL */
    size_t says_length;
    struct guest *guests;
};
struct front *front_start(void (*prepare)(SSL *ssl));
/* Updates the keys of each connection, and requests an update of the client's. */
void front_update_keys(struct front *front);
/* Repeats the handshake on each connection, as TLS 1.2 allows. */
void front_renegotiate(struct front *front);
/* Starts or stops reading what clients send. */
void front_read(struct front *front, bool on);
/* Sends the bytes on each connection, in TLS or as they are. */
void front_say(struct front *front, const char *bytes, size_t length);
void front_say_raw(struct front *front, const char *bytes, size_t length);
void front_cut(struct front *front); /* closes all connections with a reset */
#endif
