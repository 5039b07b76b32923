/* SPDX-License-Identifier: MIT
 *
 * CLUSTER SLOTS, INFO, MYID and KEYSLOT as a cluster's node replies to them, and ASKING.
 * The reply to CLUSTER SLOTS may also be one that makes no sense (map->vileness).
 * Independent of how a slot moves.
 */
#include "model.h"

#include "redis/slot.h"

#include <stdio.h>

static const char none[] = "ERR This instance has cluster support disabled";

/* A range of consecutive slots that have the same owner. */
struct range {
    unsigned first, last, owner;
};

static unsigned owner_of(const struct model_map *map, unsigned slot)
{
    return slot >= map->hidden_from && slot < map->hidden_to ? MODEL_NOBODY
                                                             : map->owners[slot];
}

/* Finds the next range from slot `*at` on, and moves `*at` behind it. */
static bool next_range(const struct model_map *map, unsigned *at, struct range *ret)
{
    while (*at < MODEL_SLOTS && owner_of(map, *at) == MODEL_NOBODY) {
        (*at)++;
    }
    if (*at == MODEL_SLOTS) {
        return false;
    }
    ret->first = *at;
    ret->owner = owner_of(map, *at);
    while (*at < MODEL_SLOTS && owner_of(map, *at) == ret->owner) {
        ret->last = (*at)++;
    }
    return true;
}

static void put_id(unsigned node, char id[41])
{
    (void)snprintf(id, 41, "%040x", node + 1);
}

static void reply_node(struct call *call, unsigned node)
{
    const struct model_map *map = call->server->map;
    const char *host = node == map->self ? map->self_host : map->places[node].host;
    char id[41];

    resp_array(call->reply, 4);
    if (host != NULL) {
        resp_text(call->reply, host);
    } else {
        resp_nil(call->reply);
    }
    resp_int(call->reply,
             map->vileness == MODEL_NO_PLACE ? 70000 : map->places[node].port);
    put_id(node, id);
    resp_text(call->reply, id);
    resp_array(call->reply, 0);
}

static size_t count_followers(const struct model_map *map, unsigned master)
{
    size_t count = 0;

    for (unsigned i = 0; i < map->count; i++) {
        count += i != master && map->masters[i] == master;
    }
    return count;
}

static void reply_slot(struct call *call, unsigned slot)
{
    if (call->server->map->vileness == MODEL_NO_NUMBER) {
        resp_text(call->reply, "many");
    } else {
        resp_int(call->reply, slot);
    }
}

static void reply_range(struct call *call, const struct range *range)
{
    const struct model_map *map = call->server->map;
    bool turned = map->vileness == MODEL_NO_RANGE;
    unsigned first = turned ? range->last + 1 : range->first;
    unsigned last = map->vileness == MODEL_OVERLAPS ? MODEL_SLOTS - 1 : range->last;

    if (map->vileness == MODEL_NO_MASTER) {
        resp_array(call->reply, 2);
        reply_slot(call, first);
        reply_slot(call, last);
        return;
    }
    resp_array(call->reply, 3 + count_followers(map, range->owner));
    reply_slot(call, first);
    reply_slot(call, last);
    reply_node(call, range->owner);
    for (unsigned i = 0; i < map->count; i++) {
        if (i != range->owner && map->masters[i] == range->owner) {
            reply_node(call, i);
        }
    }
}

void run_cluster_slots(struct call *call)
{
    const struct model_map *map = call->server->map;
    struct range range;
    size_t count = 0;

    if (map == NULL || map->vileness == MODEL_NO_CLUSTER) {
        resp_error(call->reply, "%s", none);
        return;
    }
    if (map->vileness == MODEL_NO_ARRAY) {
        resp_status(call->reply, "slots");
        return;
    }
    for (unsigned at = 0; next_range(map, &at, &range);) {
        count++;
    }
    resp_array(call->reply, count);
    for (unsigned at = 0; next_range(map, &at, &range);) {
        reply_range(call, &range);
    }
}

/* Replies with only the fields that a client reads. */
void run_cluster_info(struct call *call)
{
    const struct model_map *map = call->server->map;
    char text[128];

    if (map == NULL) {
        resp_error(call->reply, "%s", none);
        return;
    }
    (void)snprintf(text, sizeof(text), "cluster_state:%s\r\ncluster_current_epoch:%u\r\n",
                   map->down ? "fail" : "ok", map->epoch);
    resp_text(call->reply, text);
}

void run_cluster_myid(struct call *call)
{
    char id[41];

    if (call->server->map == NULL) {
        resp_error(call->reply, "%s", none);
        return;
    }
    put_id(call->server->map->self, id);
    resp_text(call->reply, id);
}

void run_cluster_keyslot(struct call *call)
{
    if (call->server->map == NULL) {
        resp_error(call->reply, "%s", none);
        return;
    }
    resp_int(call->reply, lw__slot_of(call->argv[2].data, call->argv[2].len));
}

void run_asking(struct call *call)
{
    if (call->server->map == NULL) {
        resp_error(call->reply, "%s", none);
        return;
    }
    if (call->conn != NULL) {
        call->conn->asking = true;
    }
    resp_status(call->reply, "OK");
}
