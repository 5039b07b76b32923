/* SPDX-License-Identifier: MIT */
/* Where names lead: see route.h. Must not know what is sent there. Happy path: one
 * server, one node, and what that tells is handed on. */
#include "redis/route.h"

#include "lockwire.h"

#include <stdlib.h>

struct lw__route {
    const struct lw__route_events *events;
    void *arg;
    struct lw__node *only;
};

static void up(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->link(route->arg, true, "");
    route->events->node.up(route->arg, node);
}

static void down(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->link(route->arg, false, lw__node_why(node));
    route->events->node.down(route->arg, node);
}

static void bound(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->node.bound(route->arg, node);
}

static void message(void *arg, const char *text, size_t length)
{
    const struct lw__route *route = arg;

    route->events->node.message(route->arg, text, length);
}

int lw__route_new(const struct lw__node_options *options,
                  const struct lw__route_events *events, void *arg,
                  struct lw__route **ret)
{
    static const struct lw__node_events node_events = {up, down, bound, message};
    struct lw__route *route = calloc(1, sizeof(*route));
    int status;

    if (route == NULL) {
        return LW_ENOMEM;
    }
    route->events = events;
    route->arg = arg;
    status = lw__node_new(options, &node_events, route, &route->only);
    if (status != 0) {
        free(route);
        return status;
    }
    *ret = route;
    return 0;
}

void lw__route_free(struct lw__route *route)
{
    if (route != NULL) {
        lw__node_free(route->only);
        free(route);
    }
}

void lw__route_abandon(struct lw__route *route)
{
    lw__node_abandon(route->only);
    free(route);
}

struct lw__node *lw__route_to(struct lw__route *route, const char *name)
{
    (void)name;
    return route->only;
}

int lw__route_master(const struct lw__route *route, struct lw_master *ret)
{
    return lw__node_master(route->only, ret);
}
