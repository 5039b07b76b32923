/* SPDX-License-Identifier: MIT */
/* One Redis server as a client sees it: a command link and a subscription link, each kept
 * alive by a session. Owns the requests in flight, their number's limit, NOSCRIPT, the
 * fence counter's first number of each connection, whether the two links are bound to one
 * server, and heartbeats. Knows nothing of locks. Happy path: lw__node_new, `up`, `bound`
 * (at once where it is bound by then, else told), lw__node_send, the command's
 * `answer`. */
#ifndef LW_NODE_H
#define LW_NODE_H
#include "redis/classify.h"
#include "redis/encode.h"
#include "redis/sentinel.h"
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__command;
struct lw__command_type;
struct lw__node;
struct lw_master;
struct lw_stats;

struct lw__node_events {
    void (*up)(void *arg);
    void (*down)(void *arg, const char *why); /* each failed attempt, too */
    void (*bound)(void *arg); /* since `up`: now waiters may queue, and messages count */
    void (*message)(void *arg, const char *text, size_t length);
};

struct lw__node_options {
    struct lw__access access;
    struct lw__sentinel_options sentinel; /* with a service: in place of host and path */
    const char *uuid; /* the client's, of which its channels are made */
    uint32_t max_inflight;
    struct lw_stats *stats;
};

/* `options` is copied, what it points at is not. Connecting begins at once. */
int lw__node_new(const struct lw__node_options *options,
                 const struct lw__node_events *events, void *arg, struct lw__node **ret);
/* Silent; commands in flight are forgotten. NULL is fine. */
void lw__node_free(struct lw__node *node);
void lw__node_abandon(struct lw__node *node); /* in a forked child, in place of free */

/* The master that sentinels lead to. LW_EINVAL: there are no sentinels; LW_ECONN: they
 * have led to none so far. */
int lw__node_master(const struct lw__node *node, struct lw_master *ret);

bool lw__node_is_up(const struct lw__node *node);
bool lw__node_is_backing_off(const struct lw__node *node);
/* Whether messages come from the command link's server (subscription.h). */
bool lw__node_is_bound(const struct lw__node *node);
/* That server's short id, "" where it is not told. */
const char *lw__node_server(const struct lw__node *node);
/* How it is to write numbers (format.h). */
const char *lw__node_numbers(const struct lw__node *node);
/* Whether it runs in cluster mode, where that is told. */
bool lw__node_is_clustered(const struct lw__node *node);
/* Why numbers from the fence counter cannot be trusted, and how that is to be taken. */
struct lw__unseeded {
    enum lw__error_class class;
    char why[LW__WHY];
};
/* NULL: they can, on this connection. Else asking has it tried again. */
const struct lw__unseeded *lw__node_unseeded(struct lw__node *node);
/* A script drew this number, 1 or more and below LW__FENCE_MIN: the counter was lost, and
 * the server's clock says no later time. A number of such a clock is not told: a counter
 * that is lost once more could not be known from it. */
void lw__node_doubt_clock(struct lw__node *node, int64_t number);
/* How a value is compared and deleted there, as far as is known. */
enum lw__drop lw__node_drop(const struct lw__node *node);
/* Its command for that was refused: by script from now on, on this connection. */
void lw__node_drop_refused(struct lw__node *node);
/* It was answered as none is that we know: by script on every later connection. */
void lw__node_distrust_drop(struct lw__node *node);
/* How it is reached, for a further session to the same server. */
const struct lw__access *lw__node_access(const struct lw__node *node);
/* Counts both connections: what is known of the server's clock holds for one pair. */
unsigned lw__node_connection(const struct lw__node *node);

/* false: there is no link, and nothing was done. Else it is sent now, or as soon as fewer
 * than max_inflight are and none of an earlier order waits. */
bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type);
void lw__node_forget(struct lw__node *node, struct lw__command *command);
/* Whether one sent now would not wait for others; without a link, none has. */
bool lw__node_has_room(const struct lw__node *node);
/* It waits for room, and is not written yet. */
bool lw__node_is_unsent(const struct lw__command *command);
/* An error that makes the command link useless (see LW__ERR_LINK). */
void lw__node_distrust(struct lw__node *node, const char *why);
#endif
