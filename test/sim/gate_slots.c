/* SPDX-License-Identifier: MIT
 *
 * Decides whether a cluster's node runs a command itself, by the slot of its keys and by
 * this node's map. Changes nothing.
 *
 * Usual course: gate_slots() decides for a request, gate_script_slots() for a script's
 * command.
 */
#include "model.h"

#include "redis/slot.h"

#include <string.h>

_Static_assert(MODEL_SLOTS == LW__SLOTS, "the same slots");

enum verdict { HERE, MOVED, ASK, TRYAGAIN, CROSSSLOT, DOWN, UNSERVED };

struct where {
    enum verdict verdict;
    unsigned slot, node;
};

bool gate_keys(const struct call *call, int *first, int *last)
{
    int64_t count;

    *first = call->command->first_key;
    *last = call->command->last_key;
    if (call->command->flags & CMD_EVAL) {
        if (!bytes_to_int(call->argv[2], &count) || count <= 0 ||
            count > call->argc - 3) {
            return false;
        }
        *first = 3;
        *last = 2 + (int)count;
    } else if (*first == 0) {
        return false;
    }
    if (*last < 0) {
        *last += call->argc;
    }
    return true;
}

static unsigned owner_of(const struct model_map *map, unsigned slot)
{
    return slot >= map->hidden_from && slot < map->hidden_to ? MODEL_NOBODY
                                                             : map->owners[slot];
}

/* The number of a command's keys that are here, and of those that are not. */
struct count {
    int here, missing;
    bool several; /* they are not all the same key */
};

static struct count count_keys(const struct call *call, int first, int last)
{
    const struct keyspace *space = &call->server->spaces[0];
    struct count count = {0};

    for (int i = first; i <= last; i++) {
        bool is_here = keyspace_find((struct keyspace *)space, call->argv[i]) != NULL;

        count.here += is_here;
        count.missing += !is_here;
        count.several = count.several || !bytes_equal(call->argv[i], call->argv[first]);
    }
    return count;
}

static bool one_slot(const struct call *call, int first, int last, unsigned *ret)
{
    *ret = lw__slot_of(call->argv[first].data, call->argv[first].len);
    for (int i = first + 1; i <= last; i++) {
        if (lw__slot_of(call->argv[i].data, call->argv[i].len) != *ret) {
            return false;
        }
    }
    return true;
}

static struct where find(const struct call *call, const struct call *asks, int first,
                         int last)
{
    const struct model_map *map = call->server->map;
    struct where where = {.verdict = HERE};
    bool gives, gets, of_channels = call->command->flags & CMD_SHARD;
    struct count count = {0};

    if (!one_slot(call, first, last, &where.slot)) {
        where.verdict = CROSSSLOT;
        return where;
    }
    where.node = owner_of(map, where.slot);
    gives = where.node == map->self && map->gives_to[where.slot] != MODEL_NOBODY;
    gets = !gives && map->gets_from[where.slot] != MODEL_NOBODY;
    if (!of_channels) {
        count = count_keys(call, first, last);
    }
    if (where.node == MODEL_NOBODY || map->down) {
        where.verdict = map->down && where.node != MODEL_NOBODY ? DOWN : UNSERVED;
    } else if (gives && count.missing > 0) {
        where.verdict = count.here > 0 ? TRYAGAIN : ASK;
        where.node = map->gives_to[where.slot];
    } else if (gets && asks->conn->asking) {
        where.verdict = count.several && count.missing > 0 ? TRYAGAIN : HERE;
    } else if (where.node != map->self &&
               (!of_channels || map->masters[map->self] != where.node)) {
        where.verdict = MOVED;
    }
    return where;
}

static void reply(struct call *call, const struct where *where)
{
    const struct model_place *place = &call->server->map->places[where->node];

    switch (where->verdict) {
    case HERE:
        return;
    case MOVED:
        resp_error(call->reply, "MOVED %u %s:%d", where->slot, place->host, place->port);
        return;
    case ASK:
        resp_error(call->reply, "ASK %u %s:%d", where->slot, place->host, place->port);
        return;
    case TRYAGAIN:
        resp_error(call->reply,
                   "TRYAGAIN Multiple keys request during rehashing of slot");
        return;
    case CROSSSLOT:
        resp_error(call->reply, "CROSSSLOT Keys in request don't hash to the same slot");
        return;
    case DOWN:
        resp_error(call->reply, "CLUSTERDOWN The cluster is down");
        return;
    case UNSERVED:
        resp_error(call->reply, "CLUSTERDOWN Hash slot not served");
        return;
    }
}

bool gate_slots(struct call *call)
{
    int first, last;
    struct where where;

    if (call->server->map == NULL || !gate_keys(call, &first, &last)) {
        return true;
    }
    where = find(call, call, first, last);
    reply(call, &where);
    return where.verdict == HERE;
}

static bool is_declared(const struct call *script, struct bytes key)
{
    int first, last;
    bool has = gate_keys(script, &first, &last);

    for (int i = first; has && i <= last; i++) {
        if (bytes_equal(script->argv[i], key)) {
            return true;
        }
    }
    return false;
}

const char *gate_script_slots(struct call *call, const struct call *script)
{
    struct model_server *server = call->server;
    int first, last, declared, last_declared;
    struct where where;

    if (server->map == NULL || call->conn == NULL || !gate_keys(call, &first, &last)) {
        return NULL;
    }
    for (int i = first; i <= last && !(call->command->flags & CMD_SHARD); i++) {
        if (!is_declared(script, call->argv[i]) && server->watch.undeclared != NULL) {
            server->watch.undeclared(server, call->argv[i]);
        }
    }
    where = find(call, script, first, last);
    if (where.verdict == DOWN) {
        return "ERR Script attempted to execute a command while the cluster is down";
    }
    if (where.verdict == CROSSSLOT ||
        (where.verdict == HERE && gate_keys(script, &declared, &last_declared) &&
         lw__slot_of(script->argv[declared].data, script->argv[declared].len) !=
             where.slot)) {
        return "ERR Script attempted to access keys that do not hash to the same slot";
    }
    if (where.verdict != HERE) {
        return "ERR Script attempted to access a non local key in a cluster node";
    }
    return NULL;
}
