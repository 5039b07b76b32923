/* SPDX-License-Identifier: MIT */
/* Where the commands about a name go: a name leads to a slot, a slot to a node. Owns the
 * nodes. Knows nothing of locks. Happy path: lw__route_new, `link`, `up` of a node;
 * lw__route_slot and lw__route_node for a name. One server has one slot for all names,
 * and all leads to the same node; in a cluster `led` tells that some slots lead
 * elsewhere. */
#ifndef LW_ROUTE_H
#define LW_ROUTE_H
#include "redis/node.h"

struct lw__route;
struct lw_master;

struct lw__route_events {
    /* LW_OK: names lead somewhere now. Else they lead nowhere, by this class of error
     * (struct lw__failure). Called for each failed attempt, too: to connect to a server,
     * or to learn the first map of a cluster. */
    void (*link)(void *arg, int status, const char *why);
    /* Each slot leads where lw__route_node says from now on: ask it of each name. */
    void (*led)(void *arg);
    /* A cluster was asked in vain for the map of that number, though it has been known
     * before; it is asked again. */
    void (*unmapped)(void *arg, unsigned map, const char *why);
    struct lw__node_events node;
};

struct lw__route_options {
    struct lw__node_options node;
    const struct lw__url_host
        *seeds; /* of a cluster, in place of host and path; or NULL */
    size_t seed_count;
};

/* `options` is copied, what it points at is not. Connecting begins at once; events come
 * from the loop. 0, LW_ENOMEM. */
int lw__route_new(const struct lw__route_options *options,
                  const struct lw__route_events *events, void *arg,
                  struct lw__route **ret);
/* Silent; commands in flight are forgotten. NULL is fine. */
void lw__route_free(struct lw__route *route);

unsigned lw__route_slot(const struct lw__route *route, const char *name);
/* Never NULL: there is a node for what leads nowhere, which is never up. Good until `led`
 * was called. */
struct lw__node *lw__route_node(struct lw__route *route, unsigned slot);
/* Both at once; the slot goes to `slot`, which may be NULL. */
struct lw__node *lw__route_find(struct lw__route *route, const char *name,
                                uint16_t *slot);
/* How many slots there are: 1, or a cluster's. */
unsigned lw__route_slots(const struct lw__route *route);
/* Has a cluster tell anew which slots its nodes have. The number of that map, or a later
 * one's: `led` is called when it is there. */
unsigned lw__route_refresh_map(struct lw__route *route);
/* The number of the one that there is. */
unsigned lw__route_map_version(const struct lw__route *route);
bool lw__route_is_cluster(const struct lw__route *route);
/* Returns true if messages arrive from every node whose waiters want them. */
bool lw__route_is_subscribed(const struct lw__route *route);
/* The master that sentinels lead to. LW_EINVAL: there are no sentinels; LW_ECONN: they
 * have led to none so far. */
int lw__route_master(const struct lw__route *route, struct lw_master *ret);
#endif
