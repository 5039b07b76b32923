/* SPDX-License-Identifier: MIT */
/*
 * The scene of the cluster tests: fake nodes N1 to N4 in the test's own loop, which reply
 * as the test determines; a route to the cluster that they form; commands about names;
 * and a trace in words of all events.
 *
 * The keys b, c and x are in slots of N1, N2 and N3, as in THIRDS; a is in another slot
 * of N3; N4 has no slots. The test's own clock can be put forward, so that a minute need
 * not be waited for.
 *
 * Usual course: scene_start(scene, "N1"); await(scene, "link; led; "); ask(scene, ONE,
 * "x"); await(scene, "N3 up; N3 < GET x; x: 1; ").
 */
#ifndef TEST_CLUSTER_SCENE_H
#define TEST_CLUSTER_SCENE_H
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/command.h"
#include "redis/route.h"

#include <event2/event.h>

#define NODES 4
#define SEEDS 4
#define CONNECTIONS 64
#define COMMANDS 32
#define ANSWERS 64
#define THIRDS "0-5460 N1, 5461-10922 N2, 10923-16383 N3"
#define SLOT_A 15495
#define SLOT_B 3300
#define SLOT_C 7365
#define SLOT_X 16287
#define UUID "0189d0f0-1111-4222-8333-444455556666"

struct scene;
struct fake;
struct bufferevent;
struct evconnlistener;

struct connection {
    struct fake *fake; /* NULL: unused */
    struct bufferevent *stream;
    bool subscribed;
};

/* A node's reply to one key, or one command, in place of the usual one. */
struct answer {
    const char *to, *text; /* RESP without its final CRLF; "": no reply. NULL: used up */
    bool always;
};

struct fake {
    struct scene *scene;
    char name[4];
    bool six; /* at [::1] */
    uint16_t port;
    int keeper;                       /* keeps its port; 0: no port yet */
    struct evconnlistener *listening; /* NULL: the node is down */
    const char *map;                  /* the slot map, in the form of THIRDS, */
    const char *host;       /* with this in place of each host; NULL: the real ones */
    const char *raw;        /* these bytes in place of the map; "": no reply */
    bool in_pieces;         /* or one range a slot, of N1 and N2 alternately */
    int asked, subscribers; /* map requests so far; connections that subscribe now */
    int astray;             /* further connections that see another server in INFO */
    int seeded;             /* how often the fence was seeded */
    char id;                /* the character of its node id; 0: its name's digit */
    bool down;              /* CLUSTER INFO reports a failed cluster */
    unsigned epoch;         /* the current epoch, in CLUSTER INFO */
    bool refuses_cluster;   /* all CLUSTER commands except CLUSTER SLOTS */
    struct answer answers[ANSWERS];
};

enum kind {
    ONE,    /* GET key */
    SOME,   /* MGET key key: a command about several keys */
    PAIR,   /* SET key, INCR key; two replies */
    SCRIPT, /* a script with one key */
    TRY     /* SET key, and a command that draws a fencing token */
};

struct asked {
    struct lw__command command;
    struct scene *scene;
    const char *key;
    enum kind kind;
    int heard;
};

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__timer kick;
    struct lw__log log;
    struct lw__causes causes;
    struct lw__random random;
    struct lw_stats stats;
    struct {
        int64_t after_us, before_us;
    } refreshes[64]; /* each map request began between these times */
    struct lw__url_host seeds[SEEDS];
    char seed_names[SEEDS][64];
    struct lw__route_options options; /* may be changed before the start */
    struct lw__route *route;
    struct lw__node *nowhere;
    struct fake n[NODES];
    struct connection connections[CONNECTIONS];
    struct asked asked[COMMANDS];
    const char *follow; /* each `led` in the trace names this key's node; or NULL */
    bool tells_seeds;   /* the trace includes SEED commands */
    char trace[65536], told[65536]; /* told: the log, one line per entry */
    size_t length, told_length;
    size_t read; /* the part of the trace that await has read */
};

int scene_set_up(void **state);
int scene_tear_down(void **state);
/* Creates the route with these seeds: "N2 N1", or host:port. */
void scene_start(struct scene *scene, const char *seeds);
void scene_stop(struct scene *scene);
/* Returns the fake's node id; valid until the next call. */
const char *id_of(const struct fake *fake);
/* Makes all fakes report this map from now on. */
void map_is(struct scene *scene, const char *map);
/* Sets the reply, used once, to the next command that begins with `to` or is about that
 * key; N1 in the text stands for the node's address. */
void says(struct fake *fake, const char *to, const char *text);
void says_always(struct fake *fake, const char *to, const char *text);
/* Sends all subscribers of the slot's channel a message, or drops the channel. */
void publish(struct fake *fake, unsigned slot, const char *text);
void drop_channel(struct fake *fake, unsigned slot);
/* Shuts the node down, with its connections; starts it again. */
void leave(struct fake *fake);
void come(struct fake *fake);
int connections_to(const struct fake *fake);
/* Ends only the connections that subscribe. */
void end_subscriptions(struct fake *fake);
/* Sends a command about the key to the key's node. */
struct asked *ask(struct scene *scene, enum kind kind, const char *key);
/* Returns the node that the key leads to. */
struct lw__node *at(struct scene *scene, const char *key);
/* Puts the clock forward at once; due timers then run. */
void jump(struct scene *scene, int64_t seconds);
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
/* Returns the longest time that can have passed between map request `first` and the next
 * one. */
int64_t pause_after(const struct scene *scene, int first);
/* With `skip`, the clock is put forward from now on while the loop is idle. */
void skip_idle_time(bool skip);
/* Lets this time pass. */
void spend(struct scene *scene, int64_t seconds);
/* Checks that nothing is added to the trace for this time. */
void nothing_for(struct scene *scene, int ms);
#endif
