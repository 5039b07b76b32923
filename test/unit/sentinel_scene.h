/* SPDX-License-Identifier: MIT */
/*
 * For the tests of sentinels: fake sentinels S1 to S4 and fake servers M1 to M3 in the
 * test's own loop, which reply as the test wants; two sessions, a and b, that get their
 * endpoint from the sentinels; and a trace of their events in words.
 *
 * Usual course: scene->s[0].master = &scene->m[0]; scene_start(scene, 1); go(scene,
 * &scene->a); await(scene, "a at M1; ").
 */
#ifndef TEST_SENTINEL_SCENE_H
#define TEST_SENTINEL_SCENE_H
#include "fake_nodes.h"

#include "redis/sentinel.h"
#include "redis/session.h"

#define SENTINELS 4
#define MASTERS 3
#define SERVICE "the-master"

struct fake {
    struct fake_node node; /* first */
    /* A sentinel's: the master that it reports, or the bytes of its reply */
    struct fake *master;
    int epoch;
    const char *flags, *raw, *others;
    const char *id; /* the reply to MYID, or an error's bytes; NULL: as others know it */
    const char *known_as;     /* the id that others report; NULL: one of its own */
    const char *for_ms;       /* role-reported-time; NULL: left out */
    bool mute;                /* does not reply yet */
    const char *subscription; /* bytes in place of a confirmation; "": none comes yet */
    int asked;                /* queries so far */
    int asked_for_replicas;   /* the same of SENTINEL REPLICAS */
    int subscriptions;        /* SUBSCRIBE commands so far */
    char password[64];        /* the last one that it received */
    bool guarded;             /* it refuses everything before AUTH */
    const char *master_id;    /* the master's run id; NULL: as the master's INFO has it */
    const char *replicas;     /* the reply to SENTINEL REPLICAS; NULL: none */
    int info_ms;              /* how old the master's run id is */
    /* A server's */
    const char *role;
    const char *run_id; /* NULL: one of its own */
    int uptime_s;
};

struct guided {
    struct scene *scene;
    const char *name;
    struct lw__session session;
};

struct scene {
    struct nodes nodes; /* first */
    struct lw__session_config config;
    struct lw__url_host hosts[SENTINELS];
    char host[16];
    struct lw__sentinel_options options;
    struct lw__sentinels *sentinels;
    uint64_t failovers;
    struct fake s[SENTINELS], m[MASTERS];
    struct guided a, b;
};

_Static_assert(offsetof(struct fake, node) == 0, "fake_nodes.h: the first member");
_Static_assert(offsetof(struct scene, nodes) == 0, "fake_nodes.h: the first member");

int scene_set_up(void **state);
int scene_tear_down(void **state);
/* Starts the client's part, with the first `listed` sentinels in its URL. */
void scene_start(struct scene *scene, size_t listed);
void scene_stop(struct scene *scene);
void go(struct scene *scene, struct guided *guided);
/* From now on the sentinel reports this. */
void names(struct fake *sentinel, struct fake *master, int epoch, const char *flags);
/* Sends the replies that the sentinel owes. */
void speak(struct fake *sentinel);
/* Sends the confirmations that the sentinel owes, and from now on all others. */
void confirm(struct fake *sentinel);
/* Publishes +switch-master to each of its subscribers. */
void announce(struct fake *sentinel, const char *text);
void announce_switch(struct fake *sentinel, const struct fake *from,
                     const struct fake *to);
/* Returns the fields of SENTINEL SENTINELS for one other, to be put behind "*1\r\n". */
const char *other(const struct fake *sentinel, const char *flags);
/* Returns a reply to SENTINEL REPLICAS with one entry, which has the run id of a while
 * ago. */
const char *replica(const struct fake *server, const char *run_id, const char *info_ms);
#endif
