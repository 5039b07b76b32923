/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster that have slots, or had some lately: each is connected to when
 * somebody is led there first, and let go of when nobody can be any more. Owns the nodes.
 * Must not know which slots are whose. Happy path: lw__node_table_get for each that the
 * map lists, lw__node_table_node; lw__node_table_unlist_all and the next map,
 * lw__node_table_reap. */
#ifndef LW_NODE_TABLE_H
#define LW_NODE_TABLE_H
#include "redis/cluster_parse.h"
#include "redis/node.h"

struct lw__url_host;

#define LW__NOBODY 0 /* in place of an index */

struct lw__node_table {
    struct lw__node_options options; /* of each, but for the place */
    const struct lw__node_events *events;
    void *arg;
    struct lw__node_table_entry **all; /* [0] is LW__NOBODY's; NULL: free */
    size_t count;
    unsigned ordinals; /* of nodes so far */
};

/* 0, LW_ENOMEM. `options` is copied, what it points at is not. */
int lw__node_table_init(struct lw__node_table *masters,
                        const struct lw__node_options *options,
                        const struct lw__node_events *events, void *arg);
void lw__node_table_clear(struct lw__node_table *masters);

/* Returns the index of the master with this id there, new or known, which counts as
 * listed now; LW__NOBODY without memory, or if there are too many. `id` is "" if it is
 * not known: of a redirect, or of a map without ids. A master is its id: if the place has
 * another one now, the earlier one is no longer listed. But if a map has two ids at one
 * place (behind a proxy), neither is insisted on there. */
uint16_t lw__node_table_get(struct lw__node_table *masters,
                            const struct lw__endpoint *place, const char *id);
/* Its node, which has this slot among others; connected to, if it is the first time.
 * NULL: no memory. */
struct lw__node *lw__node_table_node(struct lw__node_table *masters, uint16_t index,
                                     unsigned slot);
/* Why there was none. */
const char *lw__node_table_alloc_error(const struct lw__node_table *masters);
/* Of this node: its place, and whether it is listed. */
const struct lw__endpoint *lw__node_table_endpoint(const struct lw__node_table *masters,
                                                   const struct lw__node *node);
bool lw__node_table_is_listed(const struct lw__node_table *masters,
                              const struct lw__node *node);
void lw__node_table_unlist_all(struct lw__node_table *masters); /* all; and one again: */
void lw__node_table_list(struct lw__node_table *masters, uint16_t index);
/* One of the slots that it has now. */
void lw__node_table_set_slot(struct lw__node_table *masters, uint16_t index,
                             unsigned slot);
/* For a while it is not let go of, listed or not: something is on its way there. */
void lw__node_table_retain_until(struct lw__node_table *masters, uint16_t index,
                                 int64_t until_us);
/* The node is up. */
void lw__node_table_set_up(struct lw__node_table *masters, const struct lw__node *node);
/* The node is down. Returns true if it was up before, and false if a further attempt to
 * connect has failed. */
bool lw__node_table_set_down(struct lw__node_table *masters, const struct lw__node *node);
/* Prefers other nodes as sources of the slot map until this one serves a command. Returns
 * the time of the previous call for this node, or 0. */
int64_t lw__node_table_deprioritize(struct lw__node_table *masters,
                                    struct lw__node *node);
/* Of who is not listed, at once, or with what is still in flight there: then it is down
 * first, and to be called once more. What waits for one to come up has failed, needed or
 * not. Never from within a node's events. When the next one is not needed any more; 0:
 * none is left. */
int64_t lw__node_table_reap(struct lw__node_table *masters);

bool lw__node_table_any_up(const struct lw__node_table *masters);
/* Returns true if none of the nodes lacks messages that are wanted:
 * lw__node_is_subscribed. */
bool lw__node_table_all_subscribed(const struct lw__node_table *masters);
/* Is one lost that is in use, and may be replaced soon? Not one that comes up for the
 * first time. */
bool lw__node_table_has_outage(const struct lw__node_table *masters);
/* Returns the places to ask about the cluster, to be freed, or NULL without memory. Their
 * order: `better`, if that has a host; masters that are up and not doubted; the seeds;
 * masters that are not up; the doubted ones, the least recently doubted first. */
struct lw__endpoint *lw__node_table_query_order(const struct lw__node_table *masters,
                                                const struct lw__endpoint *better,
                                                const struct lw__url_host *seeds,
                                                size_t seed_count, size_t *count);
#endif
