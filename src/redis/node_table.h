/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster that have slots, or had some until lately. A node is connected
 * to when a name leads to it first, and freed when none can lead to it any longer. Owns
 * the nodes. Independent of which slots they have.
 *
 * lw__node_table_get adds each master in the slot map, lw__node_table_node connects to
 * it; lw__node_table_unlist_all comes before the next map, lw__node_table_reap after it.
 */
#ifndef LW_NODE_TABLE_H
#define LW_NODE_TABLE_H
#include "redis/cluster_parse.h"
#include "redis/node.h"

struct lw__url_host;

#define LW__NOBODY 0 /* in place of an index */

struct lw__node_table {
    struct lw__node_options options; /* of all nodes, except for the endpoint */
    const struct lw__node_events *events;
    void *arg;
    struct lw__node_table_entry **all; /* by index, [0] is unused; NULL: free */
    size_t count;
    unsigned ordinals; /* of nodes so far */
};

/* `options` is copied, what it points at is not. Returns 0, or LW_ENOMEM. */
int lw__node_table_init(struct lw__node_table *table,
                        const struct lw__node_options *options,
                        const struct lw__node_events *events, void *arg);
void lw__node_table_clear(struct lw__node_table *table);

/* Returns the index of the master with this id at the endpoint, new or known, and marks
 * it as listed; LW__NOBODY without memory, or if there are too many. `id` is "" if it is
 * unknown: for a redirect, or a map without ids. Another id at the same endpoint is
 * another master. But if one map has two ids there (behind a proxy) they are one entry,
 * and the server may have any id. `by` is the node that announced the endpoint, NULL if
 * the URL has it. */
uint16_t lw__node_table_get(struct lw__node_table *table,
                            const struct lw__endpoint *endpoint, const char *id,
                            const struct lw__endpoint *by);
/* Returns the node of this master; the first call creates it and connects. `slot` is one
 * that it has. Returns NULL without memory. */
struct lw__node *lw__node_table_node(struct lw__node_table *table, uint16_t index,
                                     unsigned slot);
/* Returns why one of these two has just failed. */
const char *lw__node_table_alloc_error(const struct lw__node_table *table);
const struct lw__endpoint *lw__node_table_endpoint(const struct lw__node_table *table,
                                                   const struct lw__node *node);
bool lw__node_table_is_listed(const struct lw__node_table *table,
                              const struct lw__node *node);
/* Marks all masters as not listed: a new map follows. */
void lw__node_table_unlist_all(struct lw__node_table *table);
/* Marks a master as listed again. */
void lw__node_table_list(struct lw__node_table *table, uint16_t index);
/* Records that the master has this slot now. */
void lw__node_table_set_slot(struct lw__node_table *table, uint16_t index, unsigned slot);
/* Keeps the master until then, listed or not: a command is on its way there. */
void lw__node_table_retain_until(struct lw__node_table *table, uint16_t index,
                                 int64_t until_us);
/* The node is up. */
void lw__node_table_set_up(struct lw__node_table *table, const struct lw__node *node);
/* The node is down. Returns true if it was up before, and false if a further attempt to
 * connect has failed. */
bool lw__node_table_set_down(struct lw__node_table *table, const struct lw__node *node);
/* Prefers other nodes as sources of the slot map until this one serves a command. Returns
 * the time of the previous call for this node, or 0. */
int64_t lw__node_table_deprioritize(struct lw__node_table *table, struct lw__node *node);
/* Frees masters that are neither listed nor to be kept. One with commands in flight is
 * only disconnected: call again to free it. Commands that wait for an unlisted node to
 * connect fail in any case. Must not be called from a node's event. Returns the time at
 * which the next unlisted master need not be kept any longer; 0 if there is none. */
int64_t lw__node_table_reap(struct lw__node_table *table);

bool lw__node_table_any_up(const struct lw__node_table *table);
/* Returns true if none of the nodes lacks messages that are wanted:
 * lw__node_is_subscribed. */
bool lw__node_table_all_subscribed(const struct lw__node_table *table);
/* Returns lw__node_degraded of all nodes together. */
unsigned lw__node_table_degraded(const struct lw__node_table *table);
/* Returns true if a node that is in use is down after a failure, and so may be replaced
 * soon. A node that connects for the first time does not count. */
bool lw__node_table_has_outage(const struct lw__node_table *table);
/* Returns true if there is a listed master that is down after a failure, or silent. */
bool lw__node_table_is_out(const struct lw__node_table *table,
                           const struct lw__endpoint *endpoint);
/* Returns the endpoints to ask for the slot map, to be freed, or NULL without memory. In
 * this order: `better`, if it has a host; nodes that are up and not deprioritized, at
 * random; the seeds; nodes that are not up; the deprioritized ones, least recently so
 * first. */
struct lw__endpoint *lw__node_table_query_order(const struct lw__node_table *table,
                                                const struct lw__endpoint *better,
                                                const struct lw__url_host *seeds,
                                                size_t seed_count, size_t *count);
#endif
