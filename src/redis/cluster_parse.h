/* SPDX-License-Identifier: MIT */
/* Parses what cluster nodes reply about slots and about themselves. Pure functions. A
 * node is trusted to know, but not to be well-formed: slots, counts, lengths, ports and
 * bytes are checked here.
 *
 * An endpoint may be incomplete:
 *   host ""   the host of the node that replied, as it was reached
 *   port 0    unknown: the node has no name although the others have one, or no port for
 *             connections of this kind */
#ifndef LW_CLUSTER_PARSE_H
#define LW_CLUSTER_PARSE_H
#include "lockwire.h"
#include "redis/endpoint.h"
#include "redis/slot.h"

struct lw__reply;

struct lw__range {
    unsigned first, last; /* slots, both included */
    struct lw__endpoint master;
    char id[LW__NODE_ID_SIZE]; /* the master's; "" if the reply does not have it */
};

/* What CLUSTER INFO reports of the node that replies. */
struct lw__cluster_info {
    bool down;      /* the node takes the cluster for down and serves no key */
    uint64_t epoch; /* cluster_current_epoch; 0 if unknown */
};

struct lw__redirect {
    bool
        ask; /* for this command only, after ASKING; otherwise the slot has moved there */
    unsigned slot;
    struct lw__endpoint endpoint;
};

/* Returns true if the reply to CLUSTER SLOTS is valid as a whole. Otherwise `why`, of
 * size LW_WHY_SIZE, has the reason and the number of the range, counted from 1. Slots
 * that are in no range are valid, a reply without any range is not. */
bool lw__cluster_parse_map(const struct lw__reply *reply, char *why);
/* Reads the next range of such a reply, from the element *at on, and moves *at behind it.
 * Returns false if there is none. */
bool lw__cluster_parse_range(const struct lw__reply *reply, size_t *at,
                             struct lw__range *ret);
/* The id of the range's node number `node` (0 is its master, replicas follow), for the
 * element `at` of such a reply. Returns false if the range has no such node; the id is
 * "" if the node does not have a valid one. */
bool lw__cluster_parse_node_id(const struct lw__reply *reply, size_t at, size_t node,
                               char ret[LW__NODE_ID_SIZE]);
/* Parses the reply to CLUSTER INFO. Any other reply, an error above all, reports
 * nothing: the cluster then counts as well, and the epoch as unknown. */
struct lw__cluster_info lw__cluster_parse_info(const struct lw__reply *reply);
/* Parses the reply to CLUSTER MYID into `ret`; "" if it is no id. */
void lw__cluster_parse_myid(const struct lw__reply *reply, char ret[LW__NODE_ID_SIZE]);
/* Parses the text of an error. Returns false unless it is a valid MOVED or ASK. */
bool lw__cluster_parse_redirect(const char *text, size_t length,
                                struct lw__redirect *ret);

/* ---- slot maps ---- */

/* The nodes that a slot map names, masters and replicas, sorted. */
struct lw__node_ids {
    char (*list)[LW__NODE_ID_SIZE];
    size_t count;
};

#define LW__MAP_REPLICAS 2 /* of each master at the most: further ones are skipped */

/* Its host is that of the node that replied if the reply has none. */
struct lw__map_node {
    struct lw__endpoint endpoint; /* port 0: see above, or there is no such replica */
    char id[LW__NODE_ID_SIZE];
};

/* One node's view of the cluster. */
struct lw__slot_map {
    struct lw__map_master {
        struct lw__map_node node, replicas[LW__MAP_REPLICAS];
    } * masters;
    size_t count;
    uint16_t owners[LW__SLOTS]; /* index in `masters` plus 1; 0 if no node has the slot */
    struct lw__node_ids nodes;
    bool whole;                   /* every slot has an owner */
    struct lw__cluster_info info; /* by CLUSTER INFO of the same node */
    struct lw__endpoint by;       /* the node that replied, */
    char by_id[LW__NODE_ID_SIZE]; /* and its id, "" if unknown */
};

/* Returns the map of a reply that lw__cluster_parse_map has found valid; the caller fills
 * in `info` and `by_id`. Returns NULL without memory. */
struct lw__slot_map *lw__cluster_parse_new_map(const struct lw__reply *reply,
                                               const struct lw__endpoint *by);
/* NULL is fine. */
void lw__cluster_parse_free_map(struct lw__slot_map *map);
/* Returns true if a node is in both. */
bool lw__cluster_parse_share_node(const struct lw__node_ids *a,
                                  const struct lw__node_ids *b);
#endif
