/* SPDX-License-Identifier: MIT */
/*
 * A server that says what the test wants, in the stage's own loop, for what a real one
 * will not do on demand. Owns its sockets and a parser of commands. Whatever the test has
 * no answer for is put to the stage's real server, so that the scripts run for real;
 * subscriptions are confirmed and stay silent unless fake_push speaks on them.
 *
 * Happy path: fake = fake_start(answer), peer_start_at("a", fake->url, NULL).
 */
#ifndef TEST_FAKE_REDIS_H
#define TEST_FAKE_REDIS_H
#include "stage.h"

struct fake_connection;
struct fake_redis {
    struct fake_redis *next;
    /* Bytes of RESP; FAKE_REAL: the real server's answer; "": the connection is mute from
     * now on; FAKE_HANG_UP. */
    const char *(*answer)(struct fake_redis *fake, int argc, char **argv);
    struct event *listening;
    char url[128], path[96];
    struct fake_connection *connections;
    int accepted, commands;
    int count; /* for the test's own use */
};

#define FAKE_REAL NULL
extern const char FAKE_HANG_UP[];

struct fake_redis *fake_start(const char *(*answer)(struct fake_redis *fake, int argc,
                                                    char **argv));
/* Writes these bytes on every subscribed connection. */
void fake_push(struct fake_redis *fake, const char *bytes);
/* Ends all connections. */
void fake_hang_up(struct fake_redis *fake);

#endif
