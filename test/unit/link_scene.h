/* SPDX-License-Identifier: MIT */
/*
 * The scene of the link's tests: a fake server in the same loop, which sends what the
 * test determines, and a trace in words of all calls that the link makes. Test-only.
 *
 * Usual course: scene_open, scene_send, serve, await "up", await "1:+OK",
 * scene_tear_down.
 */
#ifndef TEST_LINK_SCENE_H
#define TEST_LINK_SCENE_H
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/escape.h"
#include "loop/loop.h"
#include "redis/link.h"
#include "redis/reply.h"

#include <event2/event.h>

#define REPLY_MAX 100000

struct scene;

struct ask {
    struct lw__request request; /* first */
    struct scene *scene;
    int number;
};

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__link *link;
    char folder[64], path[96];
    int descriptors; /* open when the test began */
    /* The server */
    int listening, peer;
    struct event *accepting, *reading;
    size_t received;
    bool ended; /* the link has closed its end */
    /* The link's calls, each followed by a blank */
    char trace[65536];
    size_t length;
    int unclaimed;       /* replies to requests that were forgotten */
    unsigned short port; /* if not 0: TCP */
    uint32_t connect_timeout_ms, request_timeout_ms, busy_poll_us;
    struct lw__timer timer; /* for the tests */
    /* Called after each entry in the trace, to act from within a callback. */
    void (*meanwhile)(struct scene *scene, struct ask *ask);
};

int scene_set_up(void **state);
int scene_tear_down(void **state);
void scene_listen_tcp(struct scene *scene);
void scene_open(struct scene *scene); /* also waits until both sides are connected */
void scene_start(struct scene *scene);
int scene_try_start(struct scene *scene); /* returns the result of lw__link_open */
/* The command by which scene_open_subscribed subscribes to the channel "ch"; the server's
 * confirmation; a message. */
#define SUBSCRIBE "*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\nch\r\n"
#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$2\r\nhi\r\n"
void scene_open_subscribed(struct scene *scene);
/* Sends a request for `replies` replies, as that many PINGs. */
void scene_send(struct scene *scene, struct ask *ask, int number, unsigned replies);
/* Does the same; returns the result of lw__link_send. */
int scene_try_send(struct scene *scene, struct ask *ask, int number, unsigned replies);
void serve(struct scene *scene, const char *bytes);
void serve_bytes(struct scene *scene, const char *bytes, size_t length);
void serve_end(struct scene *scene); /* closes the connection */
/* Runs the loop until the trace contains `text`, or the condition holds. */
void await(struct scene *scene, const char *text);
void await_bytes(struct scene *scene, size_t received);
void await_end(struct scene *scene);
void settle(struct scene *scene); /* runs a few turns; nothing more should happen */
#endif
