/* SPDX-License-Identifier: MIT */
/*
 * A server that has TLS of the test's own, in front of the stage's real one: what clients
 * say is passed on in plain text, what it answers goes back in records as they are wanted
 * here. Owns the connections; must not know Redis, or what is tested.
 *
 * Happy path: front = front_start(NULL), a = tls_start("a", front->port, NULL), the
 * fault.
 */
#ifndef TEST_TLS_FRONT_H
#define TEST_TLS_FRONT_H
#include "tls/scene.h"

#include <openssl/ssl.h>

enum front_end { CLOSED, CLOSED_WITH_NOTIFY, RESET };

struct guest;
struct front {
    struct front *next;
    struct event *listening;
    void (*prepare)(SSL *ssl); /* before hands are shaken; NULL */
    int port, accepted;
    int updated;         /* key updates that clients have sent */
    int greeted;         /* and hellos */
    size_t record;       /* bytes of plain text in each; 0: as they come */
    long half;           /* bytes of the next answer, then the end; -1: all of it */
    long left;           /* bytes on the wire, then the end; -1: no end */
    enum front_end ends; /* how */
    long mute;           /* bytes on the wire, then silence; -1: none */
    bool hole;           /* nothing is read any more */
    const char *endless; /* after hands are shaken this for ever, and no answer; NULL */
    const char *says;    /* as the first thing, as it is; NULL */
    size_t says_length;
    struct guest *guests;
};
struct front *front_start(void (*prepare)(SSL *ssl));
/* On each connection, and asks for the client's. */
void front_update_keys(struct front *front);
/* On each connection: the handshake once more, as TLS 1.2 had it. */
void front_renegotiate(struct front *front);
/* Whether it reads what clients write. */
void front_read(struct front *front, bool on);
/* On each connection, in TLS or as it is. */
void front_say(struct front *front, const char *bytes, size_t length);
void front_say_raw(struct front *front, const char *bytes, size_t length);
void front_cut(struct front *front); /* all connections, with a reset */
#endif
