/* SPDX-License-Identifier: MIT */
/* One Redis server as a client sees it: a command link and a subscription link, each kept
 * alive by a session. Owns the requests in flight, their number's limit, NOSCRIPT, the
 * fence counter's first number of each connection, whether the two links are bound to one
 * server, and heartbeats. Knows nothing of locks. Happy path: lw__node_new,
 * lw__node_start, `up`, `bound` (at once where it is bound by then, else told),
 * lw__node_send, the command's `answer`. */
#ifndef LW_NODE_H
#define LW_NODE_H
#include "redis/classify.h"
#include "redis/encode.h"
#include "redis/sentinel.h"
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__buffer;
struct lw__command;
struct lw__command_type;
struct lw__node;
struct lw__redirect;
struct lw__reply;
struct lw_master;
struct lw_stats;

struct lw__node_events {
    void (*up)(void *arg, struct lw__node *node);
    void (*down)(void *arg, struct lw__node *node); /* each failed attempt, too */
    /* Since `up`: now waiters may queue, and messages count. */
    void (*bound)(void *arg, struct lw__node *node);
    void (*message)(void *arg, const char *text, size_t length);
    /* Where `clustered`: this command, of which nothing was done, belongs to another
     * node. It is to be sent there, or failed. */
    void (*redirected)(void *arg, struct lw__node *node, struct lw__command *command,
                       struct lw__redirect *redirect);
    /* The same: CLUSTERDOWN, or what was to be here is not; it is to come again later. */
    void (*unsettled)(void *arg, struct lw__node *node);
    /* The same: it does not tell messages of this slot any more, which is elsewhere. */
    void (*dropped)(void *arg, struct lw__node *node, unsigned slot);
};

struct lw__node_options {
    struct lw__session_config config;
    struct lw__sentinel_options sentinel; /* with a service: in place of host and path */
    const char *uuid; /* the client's, of which its channels are made */
    uint32_t max_inflight;
    struct lw_stats *stats;
    bool clustered;   /* it is one of several, each of which has some of the slots */
    unsigned slot;    /* one that it has, where `clustered` */
    unsigned ordinal; /* makes lw__node_connection another one than other nodes' */
};

/* `options` is copied, what it points at is not. Nothing is connected yet. 0, LW_ENOMEM.
 */
int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret);
void lw__node_start(struct lw__node *node);
/* Silent; commands in flight are forgotten. NULL is fine. */
void lw__node_free(struct lw__node *node);

/* The master that sentinels lead to. LW_EINVAL: there are no sentinels; LW_ECONN: they
 * have led to none so far. */
int lw__node_master(const struct lw__node *node, struct lw_master *ret);

bool lw__node_is_up(const struct lw__node *node);
/* It is up, or its fence counter is asked for. */
bool lw__node_is_connected(const struct lw__node *node);
/* Why the node is not up: the last failure, or what its first attempt waits for. */
const char *lw__node_reason(const struct lw__node *node);
/* Returns true if the node is down after a failure: its first attempt has ended. */
bool lw__node_has_failed(const struct lw__node *node);
/* The class of lw__node_reason, an lw_error: see struct lw__failure. LW_ECONN if nothing
 * failed. */
int lw__node_error(const struct lw__node *node);
/* Sets both for a node that is never started. */
void lw__node_set_reason(struct lw__node *node, int error, const char *why);
bool lw__node_is_backing_off(const struct lw__node *node);
/* Whether messages about names in this slot come from the command link's server
 * (subscription.h). */
bool lw__node_is_bound(const struct lw__node *node, unsigned slot);
/* Returns true if messages from this server arrive, as far as they are wanted. */
bool lw__node_is_subscribed(const struct lw__node *node);
/* A slot that it has: its heartbeats are about that, and told if it is elsewhere. */
void lw__node_set_slot(struct lw__node *node, unsigned slot);
/* Somebody waits there: in a cluster that is what has it listen. */
void lw__node_subscribe(struct lw__node *node, unsigned slot);
/* Whether that is bound which was not, while `bound` is called. */
bool lw__node_is_newly_bound(const struct lw__node *node, unsigned slot);
/* That server's short id, "" where it is not told. */
const char *lw__node_server(const struct lw__node *node);
/* Where that connection leads, to be shown. */
void lw__node_endpoint(const struct lw__node *node, char ret[LW__TEXT_MAX]);
/* What a script about a name in this slot is told, until the next call. */
struct lw__script_env lw__node_script_env(struct lw__node *node, unsigned slot);
/* Whether it runs in cluster mode, where that is told. */
bool lw__node_is_clustered(const struct lw__node *node);
/* Why numbers from the fence counter cannot be trusted, and how that is to be taken. */
struct lw__fence_fault {
    enum lw__error_class class;
    char why[LW__WHY_MAX];
};
/* NULL: they can, on this connection, or it is a cluster's. Else asking has it tried
 * again. */
const struct lw__fence_fault *lw__node_fence_fault(struct lw__node *node);
/* Room for the error of a command's first reply until the second is read, which follows
 * it on the wire. */
char *lw__node_first_error(struct lw__node *node); /* size LW__WHY_MAX */
/* What draws a number in this slot, behind or as the command; and its reply: 0 where that
 * cannot be used. false: no server can have answered that. */
void lw__node_encode_fence(struct lw__command *command, unsigned slot,
                           struct lw__buffer *out);
bool lw__node_read_fence(const struct lw__command *command, unsigned slot,
                         const struct lw__reply *reply, uint64_t *ret);
/* The slot is elsewhere: when it is back, its counter may be an older one. */
void lw__node_reset_slot_fence(struct lw__node *node, unsigned slot);
/* A script drew this number, 1 or more and below LW__FENCE_MIN: the counter was lost, and
 * the server's clock says no later time. A number of such a clock is not told: a counter
 * that is lost once more could not be known from it. */
const char *lw__node_reject_clock(struct lw__node *node, int64_t number); /* why */
/* Marks what the node knows of the cluster as doubtful, until it serves a command. */
void lw__node_deprioritize(struct lw__node *node);
bool lw__node_is_deprioritized(const struct lw__node *node);
/* The id that the cluster's node at the command link told of itself; "" if none. */
const char *lw__node_id(const struct lw__node *node);
/* How a value is compared and deleted there, as far as is known. */
enum lw__fast_release lw__node_fast_release(const struct lw__node *node);
/* Its command for that was refused: by script from now on, on this connection. */
void lw__node_fast_release_refused(struct lw__node *node);
/* It was answered as none is that we know: by script on every later connection. */
void lw__node_disable_fast_release(struct lw__node *node);
/* How it is reached, for a further session to the same server. */
const struct lw__session_config *lw__node_access(const struct lw__node *node);
/* Counts both connections: what is known of the server's clock holds for one pair. */
unsigned lw__node_connection(const struct lw__node *node);
/* Counts the command link's, one server's each: what a server said of itself holds for
 * one. */
unsigned lw__node_command_link(const struct lw__node *node);

/* false: there is no link, and nothing was done. Else it is sent now, or as soon as fewer
 * than max_inflight are and none of an earlier order waits. */
bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type);
/* The same where a node of a cluster is about to come up, too: it waits for that. */
bool lw__node_send_early(struct lw__node *node, struct lw__command *command,
                         const struct lw__command_type *type);
void lw__node_forget(struct lw__command *command);
/* The one that it was sent to last. */
struct lw__node *lw__node_of_command(const struct lw__command *command);
/* What another node would not do: as lw__node_send, but also before it is up. `asking`:
 * it does not have the slot yet. */
void lw__node_send_redirected(struct lw__node *node, struct lw__command *command,
                              bool asking);
/* What no node will do. */
void lw__node_reject_command(struct lw__command *command, const char *why);
/* Whether one sent now would not wait for others; without a link, none has. */
bool lw__node_has_room(const struct lw__node *node);
/* Nothing is on its way there. */
bool lw__node_is_idle(const struct lw__node *node);
/* It waits for room, and is not written yet. */
bool lw__node_is_unsent(const struct lw__command *command);
/* All that wait for room, or for the node to be up. */
void lw__node_fail_waiting(struct lw__node *node, const char *why);
/* An error that makes the command link useless (see LW__ERR_LINK). */
void lw__node_fail_link(struct lw__node *node, const char *why);
#endif
