/* SPDX-License-Identifier: MIT */
/* Private to node.c, node_send.c, node_fence.c and node_guard.c. */
#ifndef LW_NODE_PRIVATE_H
#define LW_NODE_PRIVATE_H
#include "base/buffer.h"
#include "lockwire.h"
#include "redis/cluster_parse.h"
#include "redis/format.h"
#include "redis/listener.h"
#include "redis/node.h"

#include <stdbool.h>

/* Commands that wait for room, in a queue for each priority, so that no lease runs out
 * behind many requests for one. Needs no memory: a command's request is its link. */
struct lw__backlog {
    struct lw__send_queue {
        struct lw__request *first, **end;
    } queues[LW__PRIORITIES];
    size_t count; /* in all queues: mostly 0, and read at each command and reply */
};

/* The fence counter of a slot, in a table of sets by the slot's last bits. A fifth slot
 * of a set replaces the one whose trust ends first. */
struct lw__slot_fence {
    int64_t until_us; /* the counter is trusted so long; 0: it is not */
    uint16_t slot;
    bool renewing; /* a command that sets it by the clock is on its way */
};
#define LW__FENCE_SET 4
#define LW__SLOT_FENCES (256 * LW__FENCE_SET)

struct lw__node {
    struct lw__node_options options;
    const struct lw__node_events *events;
    void *arg;
    struct lw__session commands;
    struct lw__listener listener;
    struct lw__timer heartbeat;
    struct lw__sentinels *sentinels; /* or NULL */
    unsigned connection;             /* counts those for commands */
    bool up;
    bool seeded;           /* the fence counter of this connection is set, or cannot be */
    bool deprioritized;    /* it did not serve a slot, and has served no command since */
    char why[LW_WHY_SIZE]; /* it is not up */
    int error;             /* the class of that; 0 if nothing has failed */
    char server[LW__SERVER_SIZE], numbers[LW__NUMBERS_SIZE];
    enum lw__fast_release fast_release;
    bool fast_release_disabled; /* on all connections */

    /* Sent once a connection. */
    struct lw__request kill, abilities, policy, replicas, publish, shard_count;
    bool replicas_logged;

    /* Do messages report changes of keys? */
    struct lw__request tracking;
    unsigned tracked; /* the lw__node_connection for which it was sent; 0: none */
    bool tracking_refused;

    /* Outside a cluster: are both connections at one server? */
    enum {
        LW__UNSUBSCRIBED, /* the connection channel is not confirmed */
        LW__SUBSCRIBED,   /* the other connection's server has not counted it */
        LW__BOUND
    } binding;
    char own_channel[LW__CHANNEL_OF_OURS_SIZE];
    char connection_channel[LW__CHANNEL_OF_OURS_SIZE]; /* of this connection alone */
    struct lw__command count;
    unsigned counted;           /* the listener's connection that it counts */
    unsigned mismatches;        /* counts of 0 in a row */
    unsigned reconnect_both_at; /* so many of them */
    bool count_forbidden;
    /* In a cluster: */
    struct lw__deferred bound; /* calls `bound`, once for several slots */
    bool nameless_logged;

    /* node_send.c */
    struct lw__request_type request_type; /* of commands: leads from them to the node */
    struct lw__backlog backlog;
    struct lw__deferred pump_call;
    struct lw__buffer buffer;     /* for encoding, kept */
    struct lw__redirect redirect; /* a command's, until all of its replies are in */
    char first_error[LW_WHY_SIZE];

    /* node_fence.c */
    struct lw__command seed, extend;
    bool seed_known;            /* the server knows that script */
    char fence[LW__FENCE_SIZE]; /* the counter's key; a slot's: the last asked */
    char channel[LW__CHANNEL_OF_OURS_SIZE]; /* of the same, lw__format_channel_parts */
    struct lw__node_fault fence_fault;      /* `why` is "" if there is none */
    int64_t replicas_logged_us; /* when it was logged that replicas are missing */

    /* node_guard.c */
    enum lw__guard_state {
        LW__GUARD_OFF,     /* the server is never asked */
        LW__GUARD_ASKED,   /* the server is not known yet */
        LW__GUARD_REFUSED, /* guard_fault.why; the question is repeated */
        LW__GUARD_CLOSED,  /* until guard_opens_us at least */
        LW__GUARD_OPEN
    } guard;
    bool guard_goes_on;     /* this connection had a wait as the reply, maybe of 0 */
    bool guard_record_lost; /* and found missing, or replaced, on this connection */
    bool guard_denied_logged;
    /* Guard time in the server's record, as read last; 0: it has none, or is unknown. */
    int64_t server_guard_ms;
    int64_t guard_opens_us;
    int64_t old_master_until_us; /* that one grants locks until then at the latest */
    struct lw__timer guard_timer;
    struct lw__command question;
    struct lw__node_fault guard_fault;
    struct lw__slot_fence slot_fences[]; /* LW__SLOT_FENCES in a cluster, or none */
};

/* node_send.c */
void lw__node_send_init(struct lw__node *node);
/* Sends a command of the node itself now, or as soon as there is room; also before the
 * node is up. */
void lw__node_send_own(struct lw__node *node, struct lw__command *command,
                       const struct lw__command_type *type);
/* A reply has come, or none is awaited any more: sends what waits. */
void lw__node_make_room(void *arg);

/* node_fence.c */
void lw__node_init_fence(struct lw__node *node);
/* Sets the counter, if that is necessary; then the node is up. */
void lw__node_seed_fence(struct lw__node *node);
/* Extends the counter's TTL. */
void lw__node_extend_fence(struct lw__node *node);
/* Forgets which counters were trusted. */
void lw__node_reset_fence(struct lw__node *node);
size_t lw__node_slot_fences_size(const struct lw__node_options *options);
/* The node is up if its counter is set and its guard is known. */
void lw__node_step_up(struct lw__node *node);

/* node_guard.c: all without effect with LW_GUARD_NONE, and in a cluster */
void lw__node_guard_init(struct lw__node *node);
/* Asks the server, on a new connection. */
void lw__node_guard_start(struct lw__node *node);
void lw__node_guard_heartbeat(struct lw__node *node);
/* The connection is lost. */
void lw__node_guard_stop(struct lw__node *node);
/* Returns true if it has a guard time, so that it waits after a loss. */
bool lw__node_uses_guard(const struct lw__node *node);
bool lw__node_guard_is_known(const struct lw__node *node);
#endif
