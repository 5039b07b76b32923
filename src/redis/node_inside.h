/* SPDX-License-Identifier: MIT */
/* Between node.c and its parts alone: a node from inside, each part's fields by
 * themselves. */
#ifndef LW_NODE_INSIDE_H
#define LW_NODE_INSIDE_H
#include "base/buffer.h"
#include "redis/cluster_parse.h"
#include "redis/command.h"
#include "redis/format.h"
#include "redis/node.h"
#include "redis/shards.h"
#include "redis/subscription.h"

#include <stdbool.h>

/* Commands that wait for room, in ranks by their order, so that a lease does not run out
 * behind the many who ask for one; first come first served in each. Needs no memory: a
 * command's request is its link in the rank. */
struct lw__backlog {
    struct lw__send_queue {
        struct lw__request *first, **end;
    } ranks[LW__PRIORITIES];
    size_t count; /* in all ranks: mostly 0, and asked for at each command and reply */
};

/* Of a cluster's node, by the slot's last bits: two in one place drive each other out. */
struct lw__slot_fence {
    int64_t until_us; /* 0: it is not */
    uint16_t slot;
    bool again; /* somebody seeds it anew, before it has to be */
};
#define LW__SLOT_FENCES 1024

struct lw__node {
    struct lw__node_options options;
    const struct lw__node_events *events;
    void *arg;
    struct lw__session commands;
    struct lw__subscription subscription; /* of one server */
    struct lw__shards shards;             /* of a cluster's node */
    struct lw__timer heartbeat;
    struct lw__sentinels *sentinels; /* NULL: none */
    /* sent once a connection, answers informative */
    struct lw__request kill, abilities;
    struct lw__request replication; /* INFO replication, at heartbeats */
    enum lw__fast_release drop;
    bool drop_distrusted;                                    /* of every connection */
    char server[LW__SERVER_SIZE], numbers[LW__NUMBERS_SIZE]; /* the command link's */
    unsigned connection;
    bool up;
    bool doubted;          /* it did not serve a slot lately, and no other since */
    char why[LW__WHY_MAX]; /* it is not */
    int error;             /* the class of that; 0 while there was no failure */
    char first_error[LW__WHY_MAX];

    /* node_send.c's */
    struct lw__request_type request_type; /* of commands: tells them whose they are */
    struct lw__backlog backlog;
    struct lw__deferred pump_call;
    struct lw__buffer buffer;     /* for encoding, kept */
    struct lw__redirect redirect; /* a command's, until all of its replies are in */

    /* node_fence.c's */
    struct lw__command seed, keep;
    bool seed_known; /* to the server, that script */
    char fence[LW__FENCE_SIZE];
    struct lw__fence_fault
        unseeded;               /* `why` is "" while the fence counter can be trusted */
    int64_t replicas_logged_us; /* when it was last logged that replicas are missing */

    /* node_settings.c's */
    struct lw__request policy, replicas, publish;
    bool replicas_told;

    /* node_count.c's */
    struct lw__command count;
    unsigned counted_nonce; /* whom the count is about */
    bool count_forbidden, count_forbidden_told;
    bool nameless_told; /* that nobody can say whether both links are at one server */

    struct lw__slot_fence seeded[]; /* node_fence.c's: LW__SLOT_FENCES, or none */
};

/* node_send.c */
void lw__node_send_init(struct lw__node *node);
/* Sent now, or as soon as there is room; before `up` too. */
void lw__node_submit(struct lw__node *node, struct lw__command *command,
                     const struct lw__command_type *type);
void lw__node_make_room(void *arg); /* an answer has come, or none is awaited any more */

/* node_fence.c: seeds the counter, upon which the node is up; has it live on. */
void lw__node_seed_fence(struct lw__node *node);
void lw__node_extend_fence(struct lw__node *node);
/* Nothing is known of its counters any more. */
void lw__node_reset_fence(struct lw__node *node);
size_t lw__node_slot_fences_size(const struct lw__node_options *options);

/* node_settings.c: how the server is set up, where that endangers locks. */
void lw__node_settings_ask(struct lw__node *node);

/* node_count.c: does the server of the command link have the connection that listens? */
void lw__node_count(struct lw__node *node);

/* node_redirect.c: whether a reply is of no meaning to its command, which another node is
 * to be sent: `redirected` follows. Of a cluster's nodes alone. */
bool lw__node_is_redirected(struct lw__node *node, struct lw__command *command,
                            const struct lw__reply *reply);
#endif
