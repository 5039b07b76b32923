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
 * Usual course: start_linked(scene, "N1"); leads(scene, "x", "N3").
 */
#ifndef TEST_CLUSTER_SCENE_H
#define TEST_CLUSTER_SCENE_H
#include "fake_nodes.h"

#include "lockwire.h"
#include "redis/route.h"

#define NODES 4
#define SEEDS 4
#define COMMANDS 32
#define ANSWERS 64
#define THIRDS "0-5460 N1, 5461-10922 N2, 10923-16383 N3"
#define SLOT_A 15495
#define SLOT_B 3300
#define SLOT_C 7365
#define SLOT_X 16287
#define UUID "0189d0f0-1111-4222-8333-444455556666"

/* A node's reply to one key, or one command, in place of the usual one. */
struct answer {
    const char *to, *text; /* RESP without its final CRLF; "": no reply. NULL: used up */
    bool always;
};

struct fake {
    struct fake_node node; /* first */
    const char *map;       /* the slot map, in the form of THIRDS, */
    const char *host;      /* with this in place of each host; NULL: the real ones */
    const char *raw;       /* these bytes in place of the map; "": no reply */
    bool in_pieces;        /* or one range a slot, of N1 and N2 alternately */
    int asked;             /* map requests so far */
    int astray;            /* further connections that see another server in INFO */
    int seeded;            /* how often the fence was seeded */
    char id;               /* the character of its node id; 0: its name's digit */
    bool down;             /* CLUSTER INFO reports a failed cluster */
    unsigned epoch;        /* the current epoch, in CLUSTER INFO */
    bool foreign;          /* CLUSTER MYID reports another id than the maps have */
    const char *role;      /* RESP, the reply to ROLE; NULL: it is a replica */
    int roles_asked;       /* ROLE requests so far */
    bool refuses_cluster;  /* all CLUSTER commands except CLUSTER SLOTS */
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
    struct nodes nodes; /* first */
    struct lw__timer kick;
    struct lw__causes causes;
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
    struct asked asked[COMMANDS];
    const char *follow; /* each `led` in the trace names this key's node; or NULL */
    const char *keeps;  /* keep_slots subscribes to this key's slot; or NULL */
    bool tells_seeds;   /* the trace includes SEED commands */
};

_Static_assert(offsetof(struct fake, node) == 0, "fake_nodes.h: the first member");
_Static_assert(offsetof(struct scene, nodes) == 0, "fake_nodes.h: the first member");

int scene_set_up(void **state);
int scene_tear_down(void **state);
/* Creates the route with these seeds: "N2 N1", or host:port. */
void scene_start(struct scene *scene, const char *seeds);
/* Does so, and checks that the next events are these: there is a link, and a slot map. */
void start_linked(struct scene *scene, const char *seeds);
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
/* Ends only the connections that subscribe. */
void end_subscriptions(struct fake *fake);
/* Sends a command about the key to the key's node. */
struct asked *ask(struct scene *scene, enum kind kind, const char *key);
/* Sends GET with the key, and checks that the next events are these: the node, which was
 * not connected, comes up, gets the command, and replies. */
void leads(struct scene *scene, const char *key, const char *node);
/* Returns the node that the key leads to. */
struct lw__node *at(struct scene *scene, const char *key);
/* Puts the clock forward at once; due timers then run. */
void jump(struct scene *scene, int64_t seconds);
/* Returns the longest time that can have passed between map request `first` and the next
 * one. */
int64_t pause_after(const struct scene *scene, int first);
/* With `skip`, the clock is put forward from now on while the loop is idle. */
void skip_idle_time(bool skip);
/* Lets this time pass. */
void spend(struct scene *scene, int64_t seconds);
#endif
