/* SPDX-License-Identifier: MIT
 *
 * The nodes of a cluster: three masters, a replica of each, and one more that may join.
 * This file knows who owns each slot and which nodes are masters, and what each node
 * knows of that, with a lag of its own. Independent of locks, and of how changes come
 * about.
 *
 * Usual course: nodes_begin(). nodes_change() makes a change. Each node learns it, by
 * nodes_know() at once, or by nodes_learn() some time later.
 */
#include "nodes.h"

#include "redis/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTERS 3
#define SPARE (SERVERS - 1)
#define PORT 7000
#define EPOCHS 4096 /* more than any run has */

struct node nodes[SERVERS];
static struct epoch *epochs[EPOCHS];
static unsigned last_epoch;
static struct model_place places[SERVERS];

static bool has_passed(int64_t us)
{
    return us <= world.now_us;
}

/* ---- the nodes' knowledge ---- */

const struct epoch *nodes_now(void)
{
    return epochs[last_epoch];
}

struct epoch *nodes_change(void)
{
    if (last_epoch + 1 == EPOCHS) {
        violation("more changes than the simulator has room for");
    }
    epochs[last_epoch + 1] = must_alloc(sizeof(struct epoch));
    memcpy(epochs[last_epoch + 1], epochs[last_epoch], sizeof(struct epoch));
    return epochs[++last_epoch];
}

/* A node that gave away or got a slot is done with that when it knows the new owner. */
static void end_moves(unsigned which)
{
    struct model_map *map = &nodes[which].map;

    for (unsigned slot = 0; slot < MODEL_SLOTS; slot++) {
        if (map->owners[slot] != which) {
            map->gives_to[slot] = MODEL_NOBODY;
        } else {
            map->gets_from[slot] = MODEL_NOBODY;
        }
    }
}

void nodes_show(unsigned which)
{
    struct node *node = &nodes[which];
    const struct epoch *epoch = epochs[node->epoch];

    if (node->in) {
        memcpy(node->map.owners, epoch->owners, sizeof(epoch->owners));
        memcpy(node->masters, epoch->masters, sizeof(epoch->masters));
    } else {
        memset(node->map.owners, MODEL_NOBODY, sizeof(node->map.owners));
    }
    node->map.epoch = node->epoch + 1;
    end_moves(which);
}

static void know(unsigned which, unsigned epoch)
{
    bool was_master;

    if (nodes[which].epoch < epoch) {
        nodes[which].epoch = epoch;
        trace("s%u knows of epoch %u", which, epoch);
        was_master = nodes[which].masters[which] == which;
        nodes_show(which);
        if (!was_master || nodes[which].masters[which] == which ||
            rng_chance(&world.rng, 500)) { /* a demoted master may send none */
            model_server_end_channels(world.servers[which]);
        }
    }
}

void nodes_know(unsigned which)
{
    know(which, last_epoch);
}

static void learn(void *arg)
{
    unsigned which = (uintptr_t)arg % SERVERS, epoch = (uintptr_t)arg / SERVERS;
    const struct node *node = &nodes[which];

    if (!has_passed(node->frozen_until_us)) {
        agenda_add(node->frozen_until_us, learn, arg);
    } else if (node->in && !node->apart && node->trouble != NODE_DEAF) {
        know(which, epoch);
    }
}

static int64_t lag_us(void)
{
    return rng_between(&world.rng, 0, world.plan.name_lag_us);
}

void nodes_learn(unsigned which)
{
    agenda_add(world.now_us + lag_us(), learn,
               (void *)(which + (uintptr_t)last_epoch * SERVERS));
}

/* ---- roles, and the places of keys ---- */

bool nodes_is_master(unsigned node)
{
    return nodes[node].in && nodes_now()->masters[node] == node;
}

bool nodes_stands(unsigned node)
{
    return has_passed(nodes[node].refuses_until_us) &&
           has_passed(nodes[node].frozen_until_us) && !nodes[node].dead;
}

bool nodes_is_well(unsigned node)
{
    return nodes_is_master(node) && !nodes[node].paused && nodes_stands(node);
}

unsigned nodes_any_master(void)
{
    unsigned first = (unsigned)rng_below(&world.rng, SERVERS);

    for (unsigned i = 0; i < SERVERS; i++) {
        if (nodes_is_well((first + i) % SERVERS)) {
            return (first + i) % SERVERS;
        }
    }
    return SERVERS;
}

unsigned nodes_slot(const char *key)
{
    return lw__slot_of(key, strlen(key));
}

static bool is_at(unsigned node, const char *key)
{
    struct bytes words[] = {bytes_of("EXISTS"), bytes_of(key)};
    struct buffer answer = {0};
    bool is;

    model_server_ask(world.servers[node], 0, words, 2, &answer);
    is = answer.len > 1 && answer.data[1] == '1';
    buffer_free(&answer);
    return is;
}

unsigned nodes_with(const char *key)
{
    unsigned slot = nodes_slot(key), from, to;

    if (slots_way(slot, &from, &to)) {
        return is_at(from, key) ? from : to;
    }
    return nodes_now()->owners[slot];
}

bool nodes_succeeds(const struct model_server *old, const char *name)
{
    return nodes_now()->owners[nodes_slot(name)] ==
           nodes_now()->masters[servers_index(old)];
}

bool nodes_refuse(unsigned node)
{
    return !has_passed(nodes[node].refuses_until_us);
}

int64_t nodes_frozen_until(unsigned node)
{
    return nodes[node].frozen_until_us;
}

/* ---- beginning and end ---- */

static void begin_one(unsigned which)
{
    struct node *node = &nodes[which];
    struct model_map *map = &node->map;

    *node = (struct node){.in = which != SPARE, .trouble = NODE_NONE};
    map->places = places;
    map->masters = node->masters;
    map->self = which;
    map->count = SERVERS;
    map->self_host = world.plan.selfless ? "" : places[which].host;
    memset(map->gives_to, MODEL_NOBODY, sizeof(map->gives_to));
    memset(map->gets_from, MODEL_NOBODY, sizeof(map->gets_from));
    model_server_set_place(world.servers[which], &places[which]);
    model_server_be_node(world.servers[which], map);
    nodes_show(which);
}

static void place_all(void)
{
    static const char *const fourth[] = {"10.0.2.1", "10.0.2.2", "10.0.2.3", "10.0.2.4",
                                         "10.0.2.5", "10.0.2.6", "10.0.2.7"};
    static const char *const sixth[] = {"fd00::1", "fd00::2", "fd00::3", "fd00::4",
                                        "fd00::5", "fd00::6", "fd00::7"};

    for (int i = 0; i < SERVERS; i++) {
        bool is_sixth = world.plan.sixth && i % 2 == 1;

        places[i] = (struct model_place){is_sixth ? sixth[i] : fourth[i], PORT + i};
    }
}

void nodes_begin(void)
{
    struct epoch *first = must_alloc(sizeof(*first));

    for (unsigned slot = 0; slot < MODEL_SLOTS; slot++) {
        first->owners[slot] = (unsigned char)(slot * MASTERS / MODEL_SLOTS);
    }
    for (unsigned i = 0; i < SERVERS; i++) {
        first->masters[i] = (unsigned char)(i == SPARE ? i : i % MASTERS);
    }
    last_epoch = 0;
    epochs[0] = first;
    place_all();
    for (unsigned i = 0; i < SERVERS; i++) {
        begin_one(i);
        model_server_step_clock(world.servers[i], world.plan.apart_us * (i % MASTERS));
    }
    for (unsigned i = MASTERS; i < SPARE; i++) {
        nodes_follow(i, i - MASTERS);
    }
}

void nodes_end(void)
{
    for (unsigned i = 0; i <= last_epoch; i++) {
        free(epochs[i]);
    }
}

/* Returns a URL of which not every seed is usable: one is a replica, one is no member,
 * and one address has no server. */
const char *nodes_url(void)
{
    static const unsigned seeds[] = {0, 4, 1, SPARE};
    static char url[256];
    size_t length = (size_t)snprintf(url, sizeof(url), "redis-cluster://");
    const char *comma = "";

    for (unsigned i = 0; i < 5; i++) {
        const struct model_place *place = &places[seeds[i % 4]];
        bool is_sixth = strchr(place->host, ':') != NULL;

        if (!(world.plan.seeds >> i & 1) && i != 0) {
            continue;
        }
        length += (size_t)snprintf(
            url + length, sizeof(url) - length, "%s%s%s%s:%d", comma, is_sixth ? "[" : "",
            place->host, is_sixth ? "]" : "", i < 4 ? place->port : PORT + SERVERS);
        comma = ",";
    }
    return url;
}

unsigned nodes_place(const char *host, int port)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        if (strcmp(places[i].host, host) == 0 && places[i].port == port) {
            return i;
        }
    }
    return NODES_NOWHERE;
}
