/* SPDX-License-Identifier: MIT */
/* The subscription link of a cluster's node: a channel for each slot in which somebody
 * waits, which the node itself drops when the slot leaves it. Owns that connection. Must
 * not know who waits, nor what messages mean.
 *
 * Happy path: lw__shards_want, connected, confirmed, `confirmed`; `message`. A channel
 * that nobody wanted for a minute is dropped, and the connection with the last of them.
 */
#ifndef LW_SHARDS_H
#define LW_SHARDS_H
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>

struct lw__shard;

struct lw__shards_events {
    /* Some channels stand that did not before, those for which lw__shards_is_fresh. */
    void (*confirmed)(void *arg);
    void (*message)(void *arg, const char *text, size_t length);
    /* The node dropped a channel that stood: the slot is elsewhere. */
    void (*dropped)(void *arg, unsigned slot);
    /* It would not have one: the slot is elsewhere, or nobody's. */
    void (*unsettled)(void *arg);
    /* As the subscription's: an attempt to connect failed, and is made again. */
    void (*failed)(void *arg, const char *why);
};

struct lw__shards {
    struct lw__session session;
    const struct lw__shards_events *events;
    void *arg;
    const char *uuid;
    struct lw__shard *all; /* by slot */
    struct lw__deferred tell;
    unsigned nonce; /* counts connections */
    bool forbidden, forbidden_told;
};

/* Room for a timer must have been reserved. Strings live as long as they. */
void lw__shards_init(struct lw__shards *shards, const struct lw__session_config *config,
                     const char *uuid, const struct lw__shards_events *events, void *arg);
void lw__shards_clear(struct lw__shards *shards);
/* Somebody waits in this slot now, and is to be told. Without memory: another time. */
void lw__shards_want(struct lw__shards *shards, unsigned slot);
/* What was forbidden may be permitted by now. */
void lw__shards_permit(struct lw__shards *shards);
bool lw__shards_has(const struct lw__shards *shards, unsigned slot);
bool lw__shards_is_fresh(const struct lw__shards *shards, unsigned slot);
/* Drops what is not wanted any more; subscribes to one more time, so that a connection
 * that is dead shows. */
void lw__shards_heartbeat(struct lw__shards *shards);
#endif
