/* SPDX-License-Identifier: MIT */
/* Finds the node that serves a name: each name has a slot, each slot a node. Owns the
 * nodes. Independent of locks.
 *
 * lw__route_new connects; `link` is called, then `up` for each node; lw__route_slot and
 * lw__route_node lead from a name to its node. Without a cluster there is one slot and
 * one node for all names. In a cluster `remapped` is called when slots have moved. */
#ifndef LW_ROUTE_H
#define LW_ROUTE_H
#include "redis/node.h"

struct lw__route;
struct lw_master;

struct lw__route_events {
    /* `status` is LW_OK if names lead to a server now. Otherwise they lead nowhere, and
     * it is the class of the reason (struct lw__failure). Also called for each failed
     * attempt to connect to the server, or to get the first map of a cluster. */
    void (*link)(void *arg, int status, const char *why);
    /* Slots may lead to other nodes: call lw__route_node again for each name. */
    void (*remapped)(void *arg);
    /* The cluster's slot map number `map` could not be had; it is requested again. For
     * the first map `link` is called instead, except if memory is short. */
    void (*map_unavailable)(void *arg, unsigned map, const char *why);
    struct lw__node_events node;
};

struct lw__route_options {
    struct lw__node_options node;
    /* A cluster's seeds, in place of the node's host and path; or NULL. */
    const struct lw__url_host *seeds;
    size_t seed_count;
};

/* Starts connecting; events come from the event loop. `options` is copied, what it points
 * at is not. Returns 0, or LW_ENOMEM. */
int lw__route_new(const struct lw__route_options *options,
                  const struct lw__route_events *events, void *arg,
                  struct lw__route **ret);
/* Calls no event; commands in flight are forgotten. NULL is fine. */
void lw__route_free(struct lw__route *route);

unsigned lw__route_slot(const struct lw__route *route, const char *name);
/* Never returns NULL: a slot that leads nowhere has a node that is never up. The node is
 * valid until the next `remapped` event has returned. */
struct lw__node *lw__route_node(struct lw__route *route, unsigned slot);
/* Returns the node of a name. Stores its slot in *slot, which must be 0 before; `slot`
 * may be NULL. */
struct lw__node *lw__route_find(struct lw__route *route, const char *name,
                                uint16_t *slot);
/* Returns the number of slots: 1, or a cluster's. */
unsigned lw__route_slots(const struct lw__route *route);
/* Requests the slot map of a cluster again. Returns the number that the map will have, or
 * will exceed; `remapped` is called when it is there. */
unsigned lw__route_refresh_map(struct lw__route *route);
/* Returns the number of the present slot map. */
unsigned lw__route_map_version(const struct lw__route *route);
bool lw__route_is_cluster(const struct lw__route *route);
/* Returns true if messages arrive from every node whose waiters want them. */
bool lw__route_is_subscribed(const struct lw__route *route);
/* Returns what the connections to all servers lack: bits of enum lw_degraded. */
unsigned lw__route_degraded(const struct lw__route *route);
/* As lw__node_guard_left_us; 0 for a cluster, and without a connection. */
int64_t lw__route_guard_left_us(const struct lw__route *route);
/* As lw__node_server_guard_ms; 0 for a cluster, and without a connection. */
int64_t lw__route_server_guard_ms(const struct lw__route *route);
/* Gets the master that the sentinels report. Returns 0, LW_EINVAL if there are no
 * sentinels, or LW_ECONN if they have not named one yet. */
int lw__route_master(const struct lw__route *route, struct lw_master *ret);
#endif
