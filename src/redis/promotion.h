/* SPDX-License-Identifier: MIT */
/* Watches the replicas of a cluster's masters that are down or silent, and reports when
 * one of them has been promoted. Independent of what follows from that.
 *
 * lw__promotion_note_map is called with each slot map that is believed. During an outage
 * the replicas that the map names are connected to, and asked for their ROLE at a 64th of
 * the time for which the outage has lasted, between 40 ms and 1 s, at random by a quarter
 * more or less. A replica whose id the map does not name is not asked. The watch ends
 * when the map has another master, or when the master is up again. */
#ifndef LW_PROMOTION_H
#define LW_PROMOTION_H
#include "redis/node_table.h"

struct lw__promotion_replica;

struct lw__promotion {
    const struct lw__session_config *config; /* except for host and node id */
    const struct lw__node_table *table;
    /* Called within the reply of a replica that calls itself a master, which is not
     * verified further; for each replica at most once a second. */
    void (*promoted)(void *arg, const struct lw__endpoint *replica);
    void *arg;
    struct lw__promotion_replica *replicas; /* that are watched */
    size_t count;
    unsigned degraded; /* of the last replica that replied: lw__session */
    int64_t since_us;  /* when the watch of the first of them began */
    struct lw__timer next;
};

/* The caller must have reserved a timer. The config and the table must outlive the watch.
 */
void lw__promotion_init(struct lw__promotion *watch,
                        const struct lw__session_config *config,
                        const struct lw__node_table *table,
                        void (*promoted)(void *arg, const struct lw__endpoint *replica),
                        void *arg);
/* Ends the watch; calls nothing. */
void lw__promotion_clear(struct lw__promotion *watch);
/* Begins to watch the replicas that the map has for masters which are out of service. */
void lw__promotion_note_map(struct lw__promotion *watch, const struct lw__slot_map *map);
#endif
