/* SPDX-License-Identifier: MIT */
/*
 * Fake nodes in the test's own loop, for the scenes of the cluster's and the sentinels'
 * tests: their connections, a trace in words of all events, and the loop's turns, in
 * which the clock is put forward. A scene determines what its nodes reply. A command is
 * assumed to arrive whole, as it does on loopback.
 *
 * Usual course: nodes_set_up; add_fake for each node; await; nodes_tear_down.
 */
#ifndef TEST_FAKE_NODES_H
#define TEST_FAKE_NODES_H
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"

#include <event2/event.h>

#define FAKES 8
#define CONNECTIONS 64

struct scene;
struct fake;
struct bufferevent;
struct evconnlistener;

struct connection {
    struct fake *fake; /* NULL: unused */
    struct bufferevent *stream;
    bool subscribed;
    /* For the sentinels' scene: */
    bool owes; /* a reply to SENTINEL MASTER */
    bool authenticated;
};

/* The first member, `node`, of each scene's struct fake. */
struct fake_node {
    struct scene *scene;
    char name[4];
    bool six; /* at [::1] */
    uint16_t port;
    int keeper;                       /* keeps its port; 0: no port yet */
    struct evconnlistener *listening; /* NULL: the node is down */
    int connected;                    /* connections so far */
    int subscribers;                  /* connections that subscribe now */
};

/* The first member, `nodes`, of each struct scene. */
struct nodes {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__log log;
    struct lw__random random;
    struct fake *fakes[FAKES]; /* NULL: unused */
    struct connection connections[CONNECTIONS];
    char trace[65536], told[65536]; /* told: the log, one line per entry */
    size_t length, told_length;
    size_t read; /* the part of the trace that await has read */
};

/* ---- for the tests ---- */

/* Shuts the node down, with its connections; starts it again. */
void leave(struct fake *fake);
void come(struct fake *fake);
int connections_to(const struct fake *fake);
bool was_told(const struct scene *scene, const char *text);
/* Returns how often the text is in the log. */
unsigned count_told(const struct scene *scene, const char *text);
/* Returns true if the unread part of the trace contains the text. */
bool came(const struct scene *scene, const char *text);
/* Marks the whole trace as read. */
void pass(struct scene *scene);
/* Runs the loop until the unread part of the trace begins with the text; fails if it
 * differs, or after a time limit. */
void await(struct scene *scene, const char *text);
/* Runs the loop until the condition holds. */
#define UNTIL(scene, condition)                                                          \
    do {                                                                                 \
        for (int turns_ = 0; !(condition);) {                                            \
            scene_turn(scene, ++turns_, #condition);                                     \
        }                                                                                \
    } while (0)
void scene_turn(struct scene *scene, int turns, const char *awaited);
/* Checks that nothing is added to the trace for this time. */
void nothing_for(struct scene *scene, int ms);

/* ---- for the scenes ---- */

/* Each scene defines these two. obey() replies to a command: its words in order, then
 * NULL; of more than eight words, words[7] is the last. turn() runs the loop once, see
 * skip_clock_turn. */
void obey(struct connection *connection, char *const words[8]);
void turn(struct scene *scene, int64_t until_us);

/* Prepares a scene that is all zeros: its loop, with room for that many timers, and its
 * log. */
void nodes_set_up(struct scene *scene, unsigned timers);
/* Ends everything, checks that no event is left, and frees the scene. */
void nodes_tear_down(struct scene *scene);
/* Adds a node and starts it. Its name is the letter and the number. */
void add_fake(struct scene *scene, struct fake *fake, char letter, int number);
/* Returns "127.0.0.1:40123"; valid until the next call. */
const char *address_of(const struct fake *fake);
/* Replaces "127.0.0.1:40123" by "N1", since ports differ from run to run. */
void with_names(const struct scene *scene, const char *text, char *ret, size_t size);
/* Adds an entry to the trace, with names in place of addresses. */
void note(struct scene *scene, const char *form, ...)
    __attribute__((format(printf, 2, 3)));
void say(struct connection *connection, const char *bytes);
/* Sends a bulk string. */
void say_text(struct connection *connection, const char *text);
/* Sends a channel's event; without a text, the number 1 in its place. */
void say_channel(struct connection *connection, const char *kind, const char *channel,
                 const char *text);
/* Does so on each connection that subscribes. */
void say_to_subscribers(struct fake *fake, const char *kind, const char *channel,
                        const char *text);
/* Counts the connection among those that subscribe. */
void add_subscriber(struct connection *connection);
void end_connection(struct connection *connection);
#endif
