/* SPDX-License-Identifier: MIT */
/* The node of each name: see route.h. A single server is one node, whose events are
 * passed on; everything about a cluster is in cluster.c. Independent of the commands. */
#include "redis/route.h"

#include "base/log.h"
#include "lockwire.h"
#include "redis/cluster.h"
#include "redis/format.h"
#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

struct lw__route {
    const struct lw__route_events *events;
    void *arg;
    struct lw__node *only;       /* one server; NULL: */
    struct lw__cluster *cluster; /* a cluster, else NULL */
    bool cluster_logged;
};

/* Names whose slot is at another node, and all contended ones, will fail; except if the
 * prefix has a tag: then all keys are in one slot, which this server has. */
static void log_cluster(struct lw__route *route, const struct lw__node *node)
{
    const struct lw__log *log = lw__node_config(node)->log;

    if (lw__node_is_clustered(node) && !route->cluster_logged) {
        route->cluster_logged = true;
        lw__log(log, LOG_WARNING,
                "the server is a node of a cluster; use redis-cluster:// or "
                "rediss-cluster:// (or with valkey in place of redis) in the URL, else "
                "contended locks and names of other nodes fail");
    }
}

static void up(void *arg, struct lw__node *node)
{
    struct lw__route *route = arg;

    log_cluster(route, node);
    route->events->link(route->arg, LW_OK, "");
    route->events->node.up(route->arg, node);
}

static void down(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->link(route->arg, lw__node_error(node), lw__node_reason(node));
    route->events->node.down(route->arg, node);
}

static void bound(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->node.bound(route->arg, node);
}

static void guard_changed(void *arg, struct lw__node *node)
{
    const struct lw__route *route = arg;

    route->events->node.guard_changed(route->arg, node);
}

static int start_only(struct lw__route *route, const struct lw__node_options *options)
{
    static const struct lw__node_events events = {
        .up = up, .down = down, .bound = bound, .guard_changed = guard_changed};
    int status = lw__node_new(options, &events, route, &route->only);

    if (status == 0 && !options->inert) {
        lw__node_start(route->only);
    }
    return status;
}

int lw__route_new(const struct lw__route_options *options,
                  const struct lw__route_events *events, void *arg,
                  struct lw__route **ret)
{
    struct lw__route *route = calloc(1, sizeof(*route));
    int status;

    if (route == NULL) {
        return LW_ENOMEM;
    }
    route->events = events;
    route->arg = arg;
    route->cluster_logged = lw__format_has_tag(options->node.prefix);
    status = options->seeds != NULL
                 ? lw__cluster_new(options, events, arg, &route->cluster)
                 : start_only(route, &options->node);
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
        lw__cluster_free(route->cluster);
        free(route);
    }
}

unsigned lw__route_slot(const struct lw__route *route, const char *name)
{
    return route->cluster != NULL ? lw__slot_of(name, strlen(name)) : 0;
}

struct lw__node *lw__route_node(struct lw__route *route, unsigned slot)
{
    return route->cluster != NULL ? lw__cluster_node(route->cluster, slot) : route->only;
}

struct lw__node *lw__route_find(struct lw__route *route, const char *name, uint16_t *slot)
{
    unsigned found;

    if (route->cluster == NULL) {
        return route->only; /* *slot stays 0 */
    }
    found = lw__route_slot(route, name);
    if (slot != NULL) {
        *slot = (uint16_t)found;
    }
    return lw__cluster_node(route->cluster, found);
}

unsigned lw__route_slots(const struct lw__route *route)
{
    return route->cluster != NULL ? LW__SLOTS : 1;
}

unsigned lw__route_refresh_map(struct lw__route *route)
{
    return lw__cluster_refresh_map(route->cluster);
}

unsigned lw__route_map_version(const struct lw__route *route)
{
    return route->cluster != NULL ? lw__cluster_map_version(route->cluster) : 0;
}

bool lw__route_is_cluster(const struct lw__route *route)
{
    return route->cluster != NULL;
}

bool lw__route_is_subscribed(const struct lw__route *route)
{
    return route->only != NULL ? lw__node_is_subscribed(route->only)
                               : lw__cluster_is_subscribed(route->cluster);
}

unsigned lw__route_degraded(const struct lw__route *route)
{
    return route->only != NULL ? lw__node_degraded(route->only)
                               : lw__cluster_degraded(route->cluster);
}

int64_t lw__route_guard_left_us(const struct lw__route *route)
{
    return route->only != NULL && lw__node_is_up(route->only)
               ? lw__node_guard_left_us(route->only)
               : 0;
}

int64_t lw__route_server_guard_ms(const struct lw__route *route)
{
    return route->only != NULL && lw__node_is_up(route->only)
               ? lw__node_server_guard_ms(route->only)
               : 0;
}

int lw__route_master(const struct lw__route *route, struct lw_master *ret)
{
    return route->only != NULL ? lw__node_master(route->only, ret) : LW_EINVAL;
}
