/* SPDX-License-Identifier: MIT */
/*
 * A server in the stage's own loop that replies as the test wants, for what a real server
 * does not do on demand. Owns its sockets and a parser of commands. Commands that the
 * test does not answer are sent to the stage's real server, so that scripts really run.
 * Subscriptions are confirmed, and get only the messages of fake_push.
 *
 * Usual course: fake = fake_start(answer), peer_start_at("a", fake->url, NULL).
 */
#ifndef TEST_FAKE_REDIS_H
#define TEST_FAKE_REDIS_H
#include "stage.h"

struct fake_connection;
struct fake_redis {
    struct fake_redis *next;
    /* Returns bytes of RESP; FAKE_REAL: the real server's reply; "": the connection
     * stays silent from now on; FAKE_HANG_UP: it is closed. */
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
/* Writes these bytes to every subscribed connection. */
void fake_push(struct fake_redis *fake, const char *bytes);
/* Ends all connections. */
void fake_hang_up(struct fake_redis *fake);

#endif
