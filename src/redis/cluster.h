/* SPDX-License-Identifier: MIT */
/* A cluster: finds out which node serves each slot, and follows changes. Owns the slot
 * map and the nodes. Independent of the names in the slots and of the commands sent.
 *
 * lw__cluster_new connects; `link` is called when there is a slot map. lw__cluster_node
 * returns the node of a slot, and `up` is called when that node can be used. When the map
 * has changed `remapped` is called. */
#ifndef LW_CLUSTER_H
#define LW_CLUSTER_H
#include "redis/route.h"

struct lw__cluster;

/* As lw__route_new, _free. */
int lw__cluster_new(const struct lw__route_options *options,
                    const struct lw__route_events *events, void *arg,
                    struct lw__cluster **ret);
void lw__cluster_free(struct lw__cluster *cluster);
/* Connects, if it is the first time that somebody is led there. */
struct lw__node *lw__cluster_node(struct lw__cluster *cluster, unsigned slot);
/* As lw__route_refresh_map, lw__route_map_version. */
unsigned lw__cluster_refresh_map(struct lw__cluster *cluster);
unsigned lw__cluster_map_version(const struct lw__cluster *cluster);
bool lw__cluster_is_subscribed(
    const struct lw__cluster *cluster); /* as lw__route_is_subscribed */
unsigned lw__cluster_degraded(
    const struct lw__cluster *cluster); /* as lw__route_degraded */
#endif
