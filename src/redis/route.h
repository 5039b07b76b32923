/* SPDX-License-Identifier: MIT */
/* Where the commands about a name go: a name leads to a node. Owns the nodes. Knows
 * nothing of locks. Happy path: lw__route_new, `link`, `up` of a node; lw__route_to for a
 * name. With one server that is always the same node. */
#ifndef LW_ROUTE_H
#define LW_ROUTE_H
#include "redis/node.h"

struct lw__route;
struct lw_master;

struct lw__route_events {
    /* Names lead somewhere now; or no more, as each failed attempt says, too. */
    void (*link)(void *arg, bool up, const char *why);
    struct lw__node_events node;
};

/* `options` is copied, what it points at is not. Connecting begins at once; events come
 * from the loop. 0, LW_ENOMEM. */
int lw__route_new(const struct lw__node_options *options,
                  const struct lw__route_events *events, void *arg,
                  struct lw__route **ret);
/* Silent; commands in flight are forgotten. NULL is fine. */
void lw__route_free(struct lw__route *route);
void lw__route_abandon(struct lw__route *route); /* in a forked child, in place of free */

/* Never NULL: there is a node for what leads nowhere, which is never up. */
struct lw__node *lw__route_to(struct lw__route *route, const char *name);
/* The master that sentinels lead to. LW_EINVAL: there are no sentinels; LW_ECONN: they
 * have led to none so far. */
int lw__route_master(const struct lw__route *route, struct lw_master *ret);
#endif
