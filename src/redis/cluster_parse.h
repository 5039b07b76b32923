/* SPDX-License-Identifier: MIT */
/* What a node of a cluster may say of where slots are, and what of it can be used. Pure:
 * replies and texts in, values out. Who says it is trusted to know, not to be
 * well-formed: slots, counts, lengths, ports and bytes have their limits here.
 *
 * Of a place it may say less than all:
 *   host ""   on the host of who says it, as that was reached
 *   port 0    nowhere: it knows no host (a node without a name among such as have one),
 * or no port for connections of this kind */
#ifndef LW_CLUSTER_PARSE_H
#define LW_CLUSTER_PARSE_H
#include "redis/endpoint.h"

struct lw__reply;

struct lw__range {
    unsigned first, last; /* slots, and those between them */
    struct lw__endpoint master;
    char id[LW__NODE_ID_SIZE]; /* the master's; "" if the reply does not have it */
};

/* What CLUSTER INFO reports of the node that replies. */
struct lw__cluster_info {
    bool down;      /* the node takes the cluster for down and serves no key */
    uint64_t epoch; /* cluster_current_epoch; 0 if unknown */
};

struct lw__redirect {
    bool ask; /* for this command alone, after ASKING; else the slot is there */
    unsigned slot;
    struct lw__endpoint place;
};

/* Whether the answer to CLUSTER SLOTS is of use, all of it; if not, `why` (size
 * LW__WHY_MAX) tells what and where, ranges being counted from 1. That some slots are in
 * no range is no fault, that all are is one. */
bool lw__cluster_parse_map(const struct lw__reply *reply, char *why);
/* The next range of such an answer, from the element *at on, which is moved behind it.
 * false: there is none. */
bool lw__cluster_parse_range(const struct lw__reply *reply, size_t *at,
                             struct lw__range *ret);
/* The id of the range's node number `node` (0 is its master, replicas follow), for the
 * element `at` of such an answer. Returns false if the range has no such node; the id is
 * "" if the node does not have a valid one. */
bool lw__cluster_parse_node_id(const struct lw__reply *reply, size_t at, size_t node,
                               char ret[LW__NODE_ID_SIZE]);
/* Parses the reply to CLUSTER INFO. Any other reply, an error above all, reports
 * nothing: the cluster then counts as well, and the epoch as unknown. */
struct lw__cluster_info lw__cluster_parse_info(const struct lw__reply *reply);
/* Parses the reply to CLUSTER MYID into `ret`; "" if it is no id. */
void lw__cluster_parse_myid(const struct lw__reply *reply, char ret[LW__NODE_ID_SIZE]);
/* The text of an error: MOVED or ASK. false: it is another, or none. */
bool lw__cluster_parse_redirect(const char *text, size_t length,
                                struct lw__redirect *ret);
#endif
