/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster that have slots, or had some lately: each is connected to when
 * somebody is led there first, and let go of when nobody can be any more. Owns the nodes.
 * Must not know which slots are whose. Happy path: lw__masters_get for each that the map
 * lists, lw__masters_node; lw__masters_unlist and the next map, lw__masters_let_go. */
#ifndef LW_MASTERS_H
#define LW_MASTERS_H
#include "redis/cluster_says.h"
#include "redis/node.h"

struct lw__url_host;

#define LW__NOBODY 0 /* in place of an index */

struct lw__masters {
    struct lw__node_options options; /* of each, but for the place */
    const struct lw__node_events *events;
    void *arg;
    struct lw__masters_entry **all; /* [0] is LW__NOBODY's; NULL: free */
    size_t count;
    unsigned ordinals; /* of nodes so far */
};

/* 0, LW_ENOMEM. `options` is copied, what it points at is not. */
int lw__masters_init(struct lw__masters *masters, const struct lw__node_options *options,
                     const struct lw__node_events *events, void *arg);
void lw__masters_clear(struct lw__masters *masters);

/* Returns the index of the master with this id there, new or known, which counts as
 * listed now; LW__NOBODY without memory, or if there are too many. `id` is "" if it is
 * not known: of a redirect, or of a map without ids. A master is its id: if the place has
 * another one now, the earlier one is no longer listed. But if a map has two ids at one
 * place (behind a proxy), neither is insisted on there. */
uint16_t lw__masters_get(struct lw__masters *masters, const struct lw__place *place,
                         const char *id);
/* Its node, which has this slot among others; connected to, if it is the first time.
 * NULL: no memory. */
struct lw__node *lw__masters_node(struct lw__masters *masters, uint16_t index,
                                  unsigned slot);
/* Why there was none. */
const char *lw__masters_why_none(const struct lw__masters *masters);
/* Of this node: its place, and whether it is listed. */
const struct lw__place *lw__masters_place(const struct lw__masters *masters,
                                          const struct lw__node *node);
bool lw__masters_is_listed(const struct lw__masters *masters,
                           const struct lw__node *node);
void lw__masters_unlist(struct lw__masters *masters); /* all; and one again: */
void lw__masters_list(struct lw__masters *masters, uint16_t index);
/* One of the slots that it has now. */
void lw__masters_has(struct lw__masters *masters, uint16_t index, unsigned slot);
/* For a while it is not let go of, listed or not: something is on its way there. */
void lw__masters_need(struct lw__masters *masters, uint16_t index, int64_t until_us);
/* The node is up. */
void lw__masters_note_up(struct lw__masters *masters, const struct lw__node *node);
/* The node is down. Returns true if it was up before, and false if a further attempt to
 * connect has failed. */
bool lw__masters_note_down(struct lw__masters *masters, const struct lw__node *node);
/* Prefers other nodes as sources of the slot map until this one serves a command. Returns
 * the time of the previous call for this node, or 0. */
int64_t lw__masters_doubt(struct lw__masters *masters, struct lw__node *node);
/* Of who is not listed, at once, or with what is still in flight there: then it is down
 * first, and to be called once more. What waits for one to come up has failed, needed or
 * not. Never from within a node's events. When the next one is not needed any more; 0:
 * none is left. */
int64_t lw__masters_let_go(struct lw__masters *masters);

bool lw__masters_any_up(const struct lw__masters *masters);
/* Returns true if none of the nodes lacks messages that are wanted: lw__node_hears. */
bool lw__masters_all_hear(const struct lw__masters *masters);
/* Is one lost that is in use, and may be replaced soon? Not one that comes up for the
 * first time. */
bool lw__masters_misses_one(const struct lw__masters *masters);
/* Returns the places to ask about the cluster, to be freed, or NULL without memory. Their
 * order: `better`, if that has a host; masters that are up and not doubted; the seeds;
 * masters that are not up; the doubted ones, the least recently doubted first. */
struct lw__place *lw__masters_to_ask(const struct lw__masters *masters,
                                     const struct lw__place *better,
                                     const struct lw__url_host *seeds, size_t seed_count,
                                     size_t *count);
#endif
