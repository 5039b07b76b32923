/* SPDX-License-Identifier: MIT */
/* One Redis server as a client uses it: a connection for commands and a listener for
 * messages, each kept alive by itself. Owns the requests in flight and their limit,
 * NOSCRIPT, the fence counter at the start of each connection, heartbeats, and the check
 * that both connections reach the same server. Independent of locks.
 *
 * lw__node_new, lw__node_start, `up`, `bound` (if both connections reach one server by
 * then, `bound` is not called), lw__node_send, the command's `on_reply`. */
#ifndef LW_NODE_H
#define LW_NODE_H
#include "redis/classify.h"
#include "redis/command.h"
#include "redis/encode.h"
#include "redis/sentinel.h"
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__buffer;
struct lw__node;
struct lw__redirect;
struct lw__reply;
struct lw_master;
struct lw_stats;

struct lw__node_events {
    void (*up)(void *arg, struct lw__node *node);
    void (*down)(void *arg, struct lw__node *node); /* after each failed attempt, too */
    /* Both connections are bound to one server, at some time after `up`: now waiters may
     * queue, and messages count. */
    void (*bound)(void *arg, struct lw__node *node);
    /* At some time after `up`: locks are granted now, because the guard's time has
     * passed, or it is known when that will be, and which leases may be extended. */
    void (*guard_changed)(void *arg, struct lw__node *node);
    /* The rest is of cluster nodes alone. */
    /* This command, which had no effect, belongs to another node: it has to be sent there
     * by lw__node_send_redirected, or rejected by lw__node_reject_command. */
    void (*redirected)(void *arg, struct lw__node *node, struct lw__command *command,
                       struct lw__redirect *redirect);
    /* CLUSTERDOWN, or a slot that should be here is elsewhere: the slot map is asked for
     * again. */
    void (*slot_unsettled)(void *arg, struct lw__node *node);
    /* The node publishes no messages for this slot any more, which is elsewhere. */
    void (*slot_unsubscribed)(void *arg, struct lw__node *node, unsigned slot);
    /* At each heartbeat, before the node leaves the channels of slots that were not named
     * for long: call lw__node_subscribe for those that are needed without a waiter. May
     * be NULL. */
    void (*keep_slots)(void *arg, struct lw__node *node);
};

struct lw__node_options {
    struct lw__session_config config;
    struct lw__sentinel_options sentinel; /* with a service: in place of host and path */
    const char *uuid;                     /* the client's, part of its channels' names */
    const char *prefix;                   /* of all keys and channels; or "" */
    /* Called for each message on the client's channels. */
    void (*message)(void *arg, const char *text, size_t length);
    /* A key that lw__node_track is about has changed, or it is NULL: any have. Or NULL.
     */
    void (*key_changed)(void *arg, const char *key);
    void *message_arg; /* of both */
    uint32_t max_inflight;
    /* 0: no guard, and no locks where others use one; LW_GUARD_NONE: no guard */
    uint32_t guard_ms;
    struct lw_stats *stats;
    bool inert;       /* never started: it represents servers that other clients use */
    bool clustered;   /* one of several, each of which has some of the slots */
    unsigned slot;    /* one that it has, if clustered */
    unsigned ordinal; /* makes lw__node_connection differ from other nodes' */
};

/* Connects to nothing yet. `options` is copied, what it points at is not. Returns 0, or
 * LW_ENOMEM. */
int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret);
void lw__node_start(struct lw__node *node);
/* Calls no event; commands in flight are forgotten. NULL is fine. */
void lw__node_free(struct lw__node *node);

/* ---- connections ---- */

bool lw__node_is_up(const struct lw__node *node);
/* Returns true if it is up, or only its fence counter is missing for that. */
bool lw__node_is_connected(const struct lw__node *node);
bool lw__node_is_backing_off(const struct lw__node *node);
/* Returns true if the node is down after a failure: its first attempt has ended. */
bool lw__node_has_failed(const struct lw__node *node);
/* Returns true if the command connection is up and silent (lw__link_is_silent). */
bool lw__node_is_silent(const struct lw__node *node);
/* Returns why the node is not up: the last failure, or what its first attempt waits for.
 */
const char *lw__node_reason(const struct lw__node *node);
/* Returns the class of lw__node_reason, an lw_error (see struct lw__failure); LW_ECONN if
 * nothing has failed. */
int lw__node_error(const struct lw__node *node);
/* Sets both for a node that is never started. */
void lw__node_set_reason(struct lw__node *node, int error, const char *why);
/* Sets whether an inert node is up. Calls no event. Nothing can be sent to the node. */
void lw__node_set_up(struct lw__node *node, bool up);
/* Ends the command connection, which an error has made unusable (LW__ERR_LINK). */
void lw__node_fail_link(struct lw__node *node, const char *why);
/* As lw__sentinel_master; LW_EINVAL if there are no sentinels. */
int lw__node_master(const struct lw__node *node, struct lw_master *ret);
/* Returns the configuration for further sessions with the same server. */
const struct lw__session_config *lw__node_config(const struct lw__node *node);
/* Returns where the command connection leads, as text. */
void lw__node_endpoint(const struct lw__node *node, char ret[LW__TEXT_MAX]);
/* Returns the server's short id, "" if unknown. */
const char *lw__node_server(const struct lw__node *node);
/* Returns the id that the cluster's node reported, "" if unknown. */
const char *lw__node_id(const struct lw__node *node);
/* Returns true if the server is known to run in cluster mode. */
bool lw__node_is_clustered(const struct lw__node *node);
/* Returns how many replicas were connected to the server when it was asked, or -1 if that
 * is unknown, as it is in a cluster. */
int64_t lw__node_replicas(const struct lw__node *node);
/* Returns the server's clock at the start of this connection, and when it was asked for;
 * 0 if it is unknown. */
int64_t lw__node_clock(const struct lw__node *node, int64_t *asked_us);
/* Returns a number that changes with either connection: the difference between the
 * server's clock and this one is valid for one pair of connections. */
unsigned lw__node_connection(const struct lw__node *node);
/* Returns a number that changes with the command connection: a server's report of itself
 * is valid for one. */
unsigned lw__node_command_link(const struct lw__node *node);

/* ---- messages ---- */

/* Subscribes to the channel of this slot, in a cluster; elsewhere the node does that by
 * itself. */
void lw__node_subscribe(struct lw__node *node, unsigned slot);
/* Returns true if messages about names in this slot come from the server of the command
 * connection. */
bool lw__node_is_bound(const struct lw__node *node, unsigned slot);
/* Inside the `bound` event: returns true if this slot has just become bound. */
bool lw__node_is_newly_bound(const struct lw__node *node, unsigned slot);
/* Returns true if messages from this server arrive, as far as they are wanted. */
bool lw__node_is_subscribed(const struct lw__node *node);

/* Has the server report when a key changes that the next command reads (CLIENT TRACKING),
 * once, by `key_changed`. Appends the command for that to `out`, behind which the caller
 * encodes the one that reads, as the second one. Returns false, and appends nothing, if
 * the server cannot report it: this slot is not bound, or that was refused. In a cluster
 * it also subscribes to the slot's channel, so that it becomes bound. */
bool lw__node_track(struct lw__node *node, unsigned slot, struct lw__buffer *out);

/* ---- a cluster's node ---- */

/* Sets one of the slots that it has: its heartbeats use that, and show if it is
 * elsewhere. */
void lw__node_set_slot(struct lw__node *node, unsigned slot);
/* Prefers other nodes as sources of the slot map, until this one serves a command. */
void lw__node_deprioritize(struct lw__node *node);
bool lw__node_is_deprioritized(const struct lw__node *node);

/* ---- fencing tokens ---- */

/* Why the server cannot serve a request: numbers from the fence counter cannot be
 * trusted, or the guard is closed. */
struct lw__node_fault {
    enum lw__error_class class;
    int status; /* the lw_error for the caller */
    char why[LW_WHY_SIZE];
};
/* Returns the fault, after another attempt to remove it has been started; or NULL if
 * there is none on this connection, or if it is a cluster's. */
const struct lw__node_fault *lw__node_fence_fault(struct lw__node *node);
/* Returns the arguments of a script about a name in this slot, until the next call. */
struct lw__script_env lw__node_script_env(struct lw__node *node, unsigned slot);
/* Encodes what draws a number in this slot: the command, or a second one behind it. */
void lw__node_encode_fence(struct lw__command *command, unsigned slot,
                           struct lw__buffer *out);
/* Reads the reply to that: the number, or 0 if it cannot be used. Returns false if it is
 * no valid reply. */
bool lw__node_read_fence(const struct lw__command *command, unsigned slot,
                         const struct lw__reply *reply, uint64_t *ret);
/* The slot is elsewhere: when it comes back its counter may be an older one. */
void lw__node_reset_slot_fence(struct lw__node *node, unsigned slot);
/* A script drew `number`, which is 1 or more and below LW__FENCE_MIN: the counter was
 * lost, and the server's clock is too far in the past to start another one. Returns the
 * reason. */
const char *lw__node_reject_clock(struct lw__node *node, int64_t number);

/* ---- the guard ---- */

/* Returns why this client must not grant itself locks at this server, or NULL if it may:
 * the server may have lost writes that granted some, or other clients use another guard
 * time. If the server refused the question, it has been asked again. */
const struct lw__node_fault *lw__node_guard_fault(struct lw__node *node);
/* Returns for how long that remains so, in us; 0 if locks are granted, 1 if it is
 * unknown. */
int64_t lw__node_guard_left_us(const struct lw__node *node);
/* Returns the guard time in the server's record, as read last, in ms; 0: it has none, or
 * is unknown. */
int64_t lw__node_server_guard_ms(const struct lw__node *node);
/* Returns what its connections lack, also those to sentinels: bits of enum
 * lw_degraded. */
unsigned lw__node_degraded(const struct lw__node *node);
/* For how long an old master may still grant locks: until it notices that it has no
 * replicas. */
#define LW__GUARD_OLD_MASTER_MS 12000
/* Returns true if a lease that ends at `deadline_us` may be extended here. It may not if
 * an old master still runs when the lease ends there, and grants the lock to another
 * client. */
bool lw__node_guard_may_extend(const struct lw__node *node, int64_t deadline_us);

/* ---- fast releases ---- */

/* Returns how the server compares and deletes a value, as far as that is known. */
enum lw__fast_release lw__node_fast_release(const struct lw__node *node);
/* The server refused its command for that: use the script on this connection. */
void lw__node_fast_release_refused(struct lw__node *node);
/* The server's command replied in an unknown format: use the script on all later
 * connections. */
void lw__node_disable_fast_release(struct lw__node *node);

/* ---- commands ---- */

/* Sends the command now, or as soon as fewer than max_inflight are outstanding and none
 * of an earlier priority waits. `one_key`: it has a single key, so that ASK can be
 * followed. Returns false, without any effect, if the node is down. */
bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type, enum lw__priority priority,
                   bool one_key);
/* Does the same with LW__PRIORITY_NEW; if a cluster's node is about to come up the
 * command waits for that. */
bool lw__node_send_early(struct lw__node *node, struct lw__command *command,
                         const struct lw__command_type *type, bool one_key);
/* Forgets a command that was sent or waits; its reply is ignored. */
void lw__node_forget(struct lw__command *command);
/* Returns the node to which the command was sent last. */
struct lw__node *lw__node_of_command(const struct lw__command *command);
/* Sends a command that another node redirected, also before the node is up. `asking`: the
 * node does not have the slot yet. */
void lw__node_send_redirected(struct lw__node *node, struct lw__command *command,
                              bool asking);
/* Fails a redirected command that no node can execute. */
void lw__node_reject_command(struct lw__command *command, const char *why);
/* Returns true if no command waits or is outstanding. */
bool lw__node_is_idle(const struct lw__node *node);
/* Returns true if the command waits and has not been written. */
bool lw__node_is_unsent(const struct lw__command *command);
/* Fails all commands that wait for room, or for the node to be up. */
void lw__node_fail_waiting(struct lw__node *node, const char *why);
/* Returns room for the error of a command's first reply, of size LW_WHY_SIZE, until the
 * second reply is read, which follows it on the wire. */
char *lw__node_first_error(struct lw__node *node);
#endif
