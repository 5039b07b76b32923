/* SPDX-License-Identifier: MIT */
/* The replicas that may be promoted: see promotion.h. Independent of the slot map in use.
 *
 * A replica's session verifies its node id, so that a node of another cluster at its
 * address is not asked. The reply to ROLE only says when to ask for the slot map: a
 * replica that was reset, or that a minority promoted, also calls itself a master. An
 * account that may not use ROLE learns of the new master by the ordinary surveys. */
#include "redis/promotion.h"

#include "base/container_of.h"
#include "base/random.h"
#include "lockwire.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* If many masters are down a client does not connect to half of the cluster. */
#define REPLICAS_MOST 8
#define PART 64
#define LEAST_US (40 * (int64_t)LW__MS)
#define MOST_US (1000 * (int64_t)LW__MS)

struct lw__promotion_replica {
    struct lw__promotion_replica *next;
    struct lw__promotion *watch;
    struct lw__map_node node;
    struct lw__endpoint master; /* whose replica it is */
    struct lw__session_config config;
    struct lw__session session;
    struct lw__request request;
    bool denied, reported; /* by its last reply; `promoted` was called since then */
    int64_t reported_us;   /* when that was called last */
};

/* ---- one replica ---- */

static void role_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__promotion_replica *replica =
        LW__CONTAINER_OF(struct lw__promotion_replica, request, request);
    bool is_master = lw__reply_count(reply) > 0 &&
                     strcmp(lw__reply_text(lw__reply_at(reply, 0), NULL), "master") == 0;
    int64_t now_us = lw__now_us();

    lw__session_note_missing(&replica->session, reply, LW_DEGRADED_ROLE, LOG_NOTICE,
                             "ROLE",
                             "the successor of a master that is down is found later");
    replica->watch->degraded = replica->session.degraded;
    replica->denied = lw__reply_type(reply) == LW__REPLY_ERROR;
    if (!is_master) {
        replica->reported = false;
    } else if (!replica->reported && now_us - replica->reported_us >= MOST_US) {
        replica->reported = true;
        replica->reported_us = now_us;
        replica->watch->promoted(replica->watch->arg, &replica->node.endpoint);
    }
}

static void ask(void *arg)
{
    static const struct lw__request_type type = {role_replied, NULL};
    struct lw__promotion_replica *replica = arg;

    if (replica->session.state == LW__SESSION_READY && replica->request.prev == NULL &&
        !replica->denied) {
        lw__session_request(&replica->session, &replica->request, &type, 1,
                            (const char *[]){"ROLE"});
    }
}

static void lost(void *arg, const char *why)
{
    (void)arg, (void)why; /* the session tries again */
}

static void watch_replica(struct lw__promotion *watch, const struct lw__endpoint *master,
                          const struct lw__map_node *node)
{
    static const struct lw__session_events events = {ask, lost, NULL, NULL, NULL};
    struct lw__promotion_replica *replica = watch->replicas;

    while (replica != NULL && strcmp(replica->node.id, node->id) != 0) {
        replica = replica->next;
    }
    if (replica != NULL || watch->count == REPLICAS_MOST) {
        return;
    }
    replica = calloc(1, sizeof(*replica));
    if (replica == NULL || lw__timer_reserve(watch->config->loop, 1) != 0) {
        free(replica);
        return;
    }
    replica->watch = watch;
    replica->node = *node;
    replica->master = *master;
    replica->config = *watch->config;
    replica->config.host = replica->node.endpoint.host;
    replica->config.port = replica->node.endpoint.port;
    replica->config.node_id = replica->node.id;
    replica->reported_us = -MOST_US;
    lw__session_init(&replica->session, &replica->config, &events, replica);
    lw__session_start(&replica->session);
    replica->next = watch->replicas;
    watch->replicas = replica;
    if (watch->count++ == 0) {
        watch->since_us = lw__now_us();
        lw__timer_set(watch->config->loop, &watch->next, watch->since_us + LEAST_US);
    }
}

/* ---- all of them ---- */

/* Forgets the replicas of masters that are in service or gone, or all of them. */
static void forget(struct lw__promotion *watch, bool all)
{
    struct lw__promotion_replica **at = &watch->replicas, *replica;

    while ((replica = *at) != NULL) {
        if (!all && lw__node_table_is_out(watch->table, &replica->master)) {
            at = &replica->next;
            continue;
        }
        *at = replica->next;
        watch->count--;
        lw__session_stop(&replica->session);
        lw__timer_unreserve(watch->config->loop, 1);
        free(replica);
    }
}

static void next_due(void *arg)
{
    struct lw__promotion *watch = arg;
    int64_t now_us = lw__now_us(), pause_us = (now_us - watch->since_us) / PART;

    forget(watch, false);
    for (struct lw__promotion_replica *one = watch->replicas; one != NULL;
         one = one->next) {
        ask(one);
    }
    if (watch->count > 0) {
        pause_us = pause_us < LEAST_US  ? LEAST_US
                   : pause_us > MOST_US ? MOST_US
                                        : pause_us;
        lw__timer_set(watch->config->loop, &watch->next,
                      now_us + lw__random_between(watch->config->random, pause_us * 3 / 4,
                                                  pause_us * 5 / 4));
    }
}

void lw__promotion_note_map(struct lw__promotion *watch, const struct lw__slot_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct lw__map_master *master = &map->masters[i];
        bool out = lw__node_table_is_out(watch->table, &master->node.endpoint);

        for (size_t j = 0; out && j < LW__MAP_REPLICAS; j++) {
            const struct lw__map_node *node = &master->replicas[j];

            if (node->endpoint.port != 0 && node->id[0] != '\0') {
                watch_replica(watch, &master->node.endpoint, node);
            }
        }
    }
}

void lw__promotion_init(struct lw__promotion *watch,
                        const struct lw__session_config *config,
                        const struct lw__node_table *table,
                        void (*promoted)(void *arg, const struct lw__endpoint *replica),
                        void *arg)
{
    *watch = (struct lw__promotion){
        .config = config, .table = table, .promoted = promoted, .arg = arg};
    lw__timer_init(&watch->next, next_due, watch);
}

void lw__promotion_clear(struct lw__promotion *watch)
{
    forget(watch, true);
    lw__timer_cancel(watch->config->loop, &watch->next);
}
