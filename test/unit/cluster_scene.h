/* SPDX-License-Identifier: MIT */
/*
 * For the tests of names that lead to nodes: fake nodes N1 to N4 in the test's own loop,
 * which say what the test has them say; a route to the cluster that they make; commands
 * about names; and a trace in words of what all of them met. Test-only.
 *
 * The keys b, c and x are in slots of N1, N2 and N3, as THIRDS has it, a as well in one
 * of N3; N4 has none. A clock of the test's own can be put forward, so that a minute does
 * not take one.
 *
 * Happy path: scene_start(scene, "N1"); await(scene, "link; led; "); ask(scene, ONE,
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
    struct fake *fake; /* NULL: free */
    struct bufferevent *stream;
    bool subscribed;
};

/* What a node says of one key, or command, in place of what it would. */
struct answer {
    const char *to, *text; /* of RESP, without its end; "": nothing. NULL: used up */
    bool always;
};

struct fake {
    struct scene *scene;
    char name[4];
    bool six; /* at [::1] */
    uint16_t port;
    int keeper;                       /* of its port; 0: it has none yet */
    struct evconnlistener *listening; /* NULL: nobody is there */
    const char *map;                  /* as THIRDS, */
    const char *host;                 /* with this in place of hosts, NULL: as they are */
    const char *raw;                  /* or these bytes; "": nothing */
    bool in_pieces;                   /* or each slot by itself, N1's and N2's in turn */
    int asked, subscribers; /* questions so far; connections that subscribe now */
    int astray;             /* as many connections are told that it is another server */
    int seeded;             /* the fence, so often */
    char id;                /* its node id, 40 times; 0: its name's digit */
    bool down;              /* CLUSTER INFO says so */
    unsigned epoch;         /* and this */
    bool refuses_cluster;   /* but for CLUSTER SLOTS */
    struct answer answers[ANSWERS];
};

enum kind {
    ONE,    /* GET key */
    SOME,   /* MGET key key, which is about several */
    PAIR,   /* SET key, INCR key; two answers */
    SCRIPT, /* of one key */
    TRY     /* SET key, and what draws a number */
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
    } refreshes[64]; /* when each question was begun: between these */
    struct lw__url_host seeds[SEEDS];
    char seed_names[SEEDS][64];
    struct lw__route_options options; /* to be changed before the start */
    struct lw__route *route;
    struct lw__node *nowhere;
    struct fake n[NODES];
    struct connection connections[CONNECTIONS];
    struct asked asked[COMMANDS];
    const char *follow;             /* this key's node at each `led`; or NULL */
    bool tells_seeds;               /* the trace does */
    char trace[65536], told[65536]; /* told: the log, a line each */
    size_t length, told_length;
    size_t read; /* of the trace, by await */
};

int scene_set_up(void **state);
int scene_tear_down(void **state);
/* The route, which is told of these: "N2 N1", or host:port. */
void scene_start(struct scene *scene, const char *seeds);
void scene_stop(struct scene *scene);
/* Its node id, until the next call. */
const char *id_of(const struct fake *fake);
/* All of them tell this map from now on. */
void map_is(struct scene *scene, const char *map);
/* It says this, once, to the next command that begins with it, or is about that key; N1
 * in the text stands for its address. */
void says(struct fake *fake, const char *to, const char *text);
void says_always(struct fake *fake, const char *to, const char *text);
/* To all who subscribe to it: a message in this slot, or its channel is dropped. */
void publish(struct fake *fake, unsigned slot, const char *text);
void drop_channel(struct fake *fake, unsigned slot);
/* It is gone, its connections as well; it is there again. */
void leave(struct fake *fake);
void come(struct fake *fake);
int connections_to(const struct fake *fake);
/* Only those that subscribe end. */
void end_subscriptions(struct fake *fake);
/* Sends it where that leads. */
struct asked *ask(struct scene *scene, enum kind kind, const char *key);
/* The node to which that leads. */
struct lw__node *at(struct scene *scene, const char *key);
/* The clock goes forward at once, and what is due is done. */
void jump(struct scene *scene, int64_t seconds);
bool was_told(const struct scene *scene, const char *text);
/* How often the text is in the log. */
unsigned count_told(const struct scene *scene, const char *text);
/* Whether what is new in the trace has it. */
bool came(const struct scene *scene, const char *text);
/* All that is new is read. */
void pass(struct scene *scene);
/* Turns the loop until what is new in the trace begins with this, or a limit passes. */
void await(struct scene *scene, const char *text);
/* Until the condition holds. */
#define UNTIL(scene, condition)                                                          \
    do {                                                                                 \
        for (int turns_ = 0; !(condition);) {                                            \
            scene_turn(scene, ++turns_, #condition);                                     \
        }                                                                                \
    } while (0)
void scene_turn(struct scene *scene, int turns, const char *awaited);
/* How long after the question `first` the one behind it was begun, at the most. */
int64_t pause_after(const struct scene *scene, int first);
/* Whether the clock is put forward while nothing happens, from now on. */
void skip_idle_time(bool skip);
/* So much time passes. */
void spend(struct scene *scene, int64_t seconds);
/* So long nothing new comes into the trace. */
void nothing_for(struct scene *scene, int ms);
#endif
