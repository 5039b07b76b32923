/* SPDX-License-Identifier: MIT */
/*
 * For the tests of those who watch over a master: fake sentinels S1 to S4 and fake
 * servers M1 to M3 in the test's own loop, which say what the test has them say; two
 * sessions, a and b, that are guided; and a trace in words of what became of them.
 * Test-only.
 *
 * Happy path: scene->s[0].master = &scene->m[0]; scene_start(scene, 1); go(scene,
 * &scene->a); await(scene, "a at M1; ").
 */
#ifndef TEST_SENTINEL_SCENE_H
#define TEST_SENTINEL_SCENE_H
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/sentinel.h"
#include "redis/session.h"

#include <event2/event.h>

#define SENTINELS 4
#define MASTERS 3
#define CONNECTIONS 64
#define SERVICE "the-master"

struct fake;

struct connection {
    struct fake *fake; /* NULL: free */
    struct event *event;
    bool subscribed, owes; /* an answer to SENTINEL MASTER */
    bool owes_info;        /* an answer to INFO replication */
    bool authenticated;
};

struct fake {
    struct scene *scene;
    char name[4];
    uint16_t port;
    int keeper;              /* of its port; 0: it has none yet */
    struct event *listening; /* NULL: nobody is there */
    /* A sentinel's: whom it names, or these bytes */
    struct fake *master;
    int epoch;
    const char *flags, *raw, *others;
    const char *id; /* MYID's answer, or an error's bytes; NULL: as others know it */
    const char *known_as;     /* their word for it; NULL: one of its own */
    const char *for_ms;       /* it has been the master; NULL: it does not say */
    bool mute;                /* does not say it yet */
    const char *subscription; /* bytes in place of a confirmation; "": none comes yet */
    int asked, subscribers;   /* questions so far; connections that subscribe now */
    int subscriptions;        /* commands to subscribe so far */
    char password[64];        /* that it was given last */
    bool guarded;             /* it answers nothing before AUTH */
    int connected;            /* connections so far */
    /* A server's */
    const char *role;
    char replication_id[41], former_id[41]; /* INFO replication says so */
    const char *info; /* bytes in place of that; "": none come yet */
};

struct guided {
    struct scene *scene;
    const char *name;
    struct lw__session session;
};

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__log log;
    struct lw__random random;
    struct lw__session_config config;
    struct lw__url_host hosts[SENTINELS];
    char host[16];
    struct lw__sentinel_options options;
    struct lw__sentinels *sentinels;
    uint64_t failovers;
    struct fake s[SENTINELS], m[MASTERS];
    struct connection connections[CONNECTIONS];
    struct guided a, b;
    char trace[65536], told[65536]; /* told: the log, a line each */
    size_t length, told_length;
    size_t read; /* of the trace, by await */
};

int scene_set_up(void **state);
int scene_tear_down(void **state);
/* The client's part, which is told of the first `listed` sentinels. */
void scene_start(struct scene *scene, size_t listed);
void scene_stop(struct scene *scene);
void go(struct scene *scene, struct guided *guided);
/* It says so from now on. */
void names(struct fake *sentinel, struct fake *master, int epoch, const char *flags);
/* What it owes is said now. */
void speak(struct fake *sentinel);
/* The confirmations that it owes as well. */
void confirm(struct fake *sentinel);
/* It answers INFO replication from now on, where that is owed as well. */
void inform(struct fake *server);
/* Returns true while a connection of this server waits for that answer. */
bool owes_info(const struct fake *server);
/* It was a replica of that one, and takes its place. */
void promote(struct fake *to, const struct fake *from);
/* It is gone, its connections as well; it is there again. */
void leave(struct fake *fake);
void come(struct fake *fake);
/* +switch-master on each of its subscriptions. */
void announce(struct fake *sentinel, const char *text);
void announce_switch(struct fake *sentinel, const struct fake *from,
                     const struct fake *to);
/* The words of SENTINEL SENTINELS for one other, to be put behind "*1\r\n". */
const char *other(const struct fake *sentinel, const char *flags);
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
/* So long nothing new comes into the trace. */
void nothing_for(struct scene *scene, int ms);
#endif
