/* SPDX-License-Identifier: MIT
 *
 * The nodes of a cluster: three masters, a replica of each, and one more that may join.
 * Owns who is a master, whose each slot is, and what each node knows of that, with a lag
 * of its own. Knows nothing of locks, nor of how a slot moves.
 *
 * Happy path: nodes_begin(); each step of a master arrives at its replica by the agenda;
 * nodes_change() when something is not as it was, and each node comes to know it;
 * nodes_swap(), nodes_split(), nodes_fail_over() come from servers.c; nodes_heal() joins
 * what is apart and has all know what is so.
 *
 * What a failover loses is known hold by hold (stray.c): nothing is declared.
 */
#include "nodes.h"

#include "network.h"

#include "redis/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASTERS 3
#define SPARE (SERVERS - 1)
#define PORT 7000
#define EPOCHS 4096 /* more than a run has */

struct node nodes[SERVERS];
static struct epoch *epochs[EPOCHS];
static unsigned last_epoch;
static struct model_place places[SERVERS];

static bool has_passed(int64_t us)
{
    return us <= world.now_us;
}

/* ---- what they know ---- */

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

/* Who gave a slot away, or got it, is done with that when it knows whose it is. */
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
            rng_chance(&world.rng, 500)) { /* a demoted one may keep silent */
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
    } else if (node->in && !node->apart && node->trouble != TROUBLE_DEAF) {
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

static void all_learn(void)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        nodes_learn(i);
    }
}

/* ---- who they are ---- */

bool nodes_is_master(unsigned node)
{
    return nodes[node].in && nodes_now()->masters[node] == node;
}

static unsigned replica_of(unsigned master)
{
    unsigned i = 0;

    while (i < SERVERS &&
           (i == master || !nodes[i].in || nodes_now()->masters[i] != master)) {
        i++;
    }
    return i;
}

static bool stands(unsigned node)
{
    return has_passed(nodes[node].refuses_until_us) &&
           has_passed(nodes[node].frozen_until_us) && !nodes[node].dead;
}

bool nodes_is_well(unsigned node)
{
    return nodes_is_master(node) && !nodes[node].paused && stands(node);
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

/* A master that can be replaced; SERVERS: there is none. */
static unsigned any_replaceable(void)
{
    unsigned master = nodes_any_master(), replica;

    if (master == SERVERS || slots_involve(master) ||
        nodes[master].trouble != TROUBLE_NONE) {
        return SERVERS;
    }
    replica = replica_of(master);
    return replica < SERVERS && !nodes[replica].apart && stands(replica) ? master
                                                                        : SERVERS;
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

void nodes_ran(unsigned node)
{
    if (nodes[node].apart) {
        stray_note(world.servers[node]);
    }
}

/* ---- what a master does reaches its replica ---- */

static void arrive(void *arg)
{
    unsigned which = (uintptr_t)arg % SERVERS;

    if ((uintptr_t)arg / SERVERS == nodes[which].stream && !nodes[which].cut) {
        model_server_deliver(world.servers[which]);
        network_flush();
    }
}

static void on_step(struct model_server *server, void *arg)
{
    unsigned which = servers_index(server);
    struct node *node = &nodes[which];
    int64_t at_us = world.now_us + world.plan.lag_us / 2 +
                    rng_between(&world.rng, 0, world.plan.lag_us / 2);

    (void)arg;
    node->arrives_us = at_us > node->arrives_us ? at_us : node->arrives_us;
    agenda_add(node->arrives_us, arrive, (void *)(which + node->stream * SERVERS));
}

static void follow(unsigned which, unsigned master)
{
    nodes[which].stream++;
    nodes[which].cut = false;
    model_server_replicate(world.servers[which], world.servers[master]);
}

/* ---- roles ---- */

struct walk {
    unsigned node;
    struct buffer keys;
};

static void pick_foreign(const struct model_key *key, void *arg)
{
    struct walk *walk = arg;

    if (nodes_now()->owners[lw__slot_of(key->name.data, key->name.len)] != walk->node) {
        buffer_append(&walk->keys, key->name.data, key->name.len);
        buffer_append(&walk->keys, "", 1);
    }
}

/* What it does not know yet to be elsewhere. */
static void drop_foreign(unsigned which)
{
    struct walk walk = {.node = which};

    model_server_each_key(world.servers[which], pick_foreign, &walk);
    for (size_t at = 0; at < walk.keys.len; at += strlen(walk.keys.data + at) + 1) {
        struct bytes words[] = {bytes_of("DEL"), bytes_of(walk.keys.data + at)};
        struct buffer answer = {0};

        model_server_ask(world.servers[which], 0, words, 2, &answer);
        buffer_free(&answer);
    }
    buffer_free(&walk.keys);
}

/* `new` has what `old` had, and is told so. */
static void succeed(unsigned old, unsigned new)
{
    struct epoch *now = nodes_change();

    nodes[new].stream++;
    nodes[new].cut = false;
    model_server_promote(world.servers[new]);

    for (unsigned slot = 0; slot < MODEL_SLOTS; slot++) {
        if (now->owners[slot] == old) {
            now->owners[slot] = (unsigned char)new;
        }
    }
    now->masters[old] = now->masters[new] = (unsigned char)new;
    world.failovers++;
    trace("s%u is the master in place of s%u, epoch %u", new, old, last_epoch);
    drop_foreign(new);
    nodes_know(new);
    all_learn();
}

static void end_swap(void *arg)
{
    unsigned old = (unsigned)(uintptr_t)arg, new;

    if (!nodes[old].paused) {
        return;
    }
    nodes[old].paused = false;
    new = replica_of(old);
    while (model_server_deliver(world.servers[new])) {
        ;
    }
    succeed(old, new);
    nodes_know(old);
    follow(old, new);
    model_server_pause_writes(world.servers[old], false);
    network_flush();
}

/* CLUSTER FAILOVER: nothing is lost, and no connection ends. */
void nodes_swap(void)
{
    unsigned master = any_replaceable();

    if (master == SERVERS) {
        return;
    }
    trace("s%u pauses its writes", master);
    nodes[master].paused = true;
    model_server_pause_writes(world.servers[master], true);
    agenda_add(world.now_us + rng_between(&world.rng, 1, 2 * world.plan.lag_us + MS),
               end_swap, (void *)(uintptr_t)master);
}

static void join(void *arg)
{
    unsigned old = (unsigned)(uintptr_t)arg;

    if (!nodes[old].apart) {
        return;
    }
    trace("s%u follows s%u", old, nodes_now()->masters[old]);
    stray_note(world.servers[old]);
    nodes[old].apart = nodes[old].map.down = false;
    nodes_know(old);
    follow(old, nodes_now()->masters[old]);
    network_flush();
}

/* What was under way to its replica is lost, and what it does until it knows. */
static void live_apart(unsigned old, int64_t until_us)
{
    unsigned new = replica_of(old);
    int64_t step_us = model_server_oldest_step_us(world.servers[new]);
    int64_t from_us = step_us < 0 ? world.now_us
                                  : world.now_us - (servers_time_us(NULL) - step_us);

    trace("s%u lives on by itself for %.3f ms", old,
          (double)(until_us - world.now_us) / 1000);
    nodes[old].apart = true;
    succeed(old, new);
    stray_begin(world.servers[old], from_us - MS);
    told_lose(old, from_us - MS);
    agenda_add(until_us, join, (void *)(uintptr_t)old);
}

static void take_over(void *arg)
{
    unsigned old = (unsigned)(uintptr_t)arg;
    int64_t until_us = world.now_us + rng_between(&world.rng, 1, world.plan.split_us);

    if (!nodes[old].dead) {
        return;
    }
    nodes[old].dead = false;
    if (until_us < nodes[old].frozen_until_us && rng_chance(&world.rng, 700)) {
        until_us = nodes[old].frozen_until_us + /* and it goes on as before */
                   rng_between(&world.rng, 1, world.plan.split_us);
    }
    live_apart(old, until_us);
}

/* It does nothing any more, and is replaced some time later; it may be back before that,
 * or after. Who was restarted does nothing until it knows what the others do. */
static void fall(unsigned master, bool freezes)
{
    struct node *node = &nodes[master];
    int64_t replaced_us = world.now_us + rng_between(&world.rng, 1, world.plan.down_us);
    int64_t back_us = replaced_us +
                      rng_between(&world.rng, -world.plan.down_us, world.plan.split_us);

    trace("s%u %s", master, freezes ? "stands still" : "dies");
    node->dead = true;
    nodes[replica_of(master)].cut = rng_chance(&world.rng, 700);
    if (freezes) {
        node->frozen_until_us = back_us;
    } else {
        node->refuses_until_us = back_us;
        node->map.down = true;
        model_server_restart(world.servers[master], 0);
    }
    agenda_add(replaced_us, take_over, (void *)(uintptr_t)master);
    network_flush();
}

/* Its replica takes its place, and it does not know. */
void nodes_split(void)
{
    unsigned master = any_replaceable();

    if (master == SERVERS) {
        return;
    }
    if (rng_chance(&world.rng, 500)) {
        fall(master, true);
        return;
    }
    live_apart(master, world.now_us + rng_between(&world.rng, 1, world.plan.split_us));
}

void nodes_fail_over(void)
{
    unsigned master = any_replaceable();

    if (master < SERVERS) {
        fall(master, false);
    }
}

void nodes_restart(unsigned which)
{
    trace("s%u restarts", which);
    if (nodes[which].paused) {
        return;
    }
    model_server_restart(world.servers[which], 0);
    if (rng_chance(&world.rng, 500) && has_passed(nodes[which].refuses_until_us)) {
        nodes[which].refuses_until_us =
            world.now_us + rng_between(&world.rng, 1, 3 * SECOND);
    }
    network_flush();
}

/* ---- their life ---- */

void nodes_heal(void)
{
    nodes_end_troubles();
    for (unsigned i = 0; i < SERVERS; i++) {
        nodes[i].refuses_until_us = 0;
        nodes[i].dead = false;
        if (!nodes[i].apart) {
            nodes[i].map.down = false;
        }
        end_swap((void *)(uintptr_t)i);
        join((void *)(uintptr_t)i);
    }
    for (unsigned i = 0; i < SERVERS; i++) {
        if (nodes[i].in) {
            nodes_know(i);
        }
        if (nodes[i].cut) {
            follow(i, nodes_now()->masters[i]);
        }
    }
}

static void begin_one(unsigned which)
{
    struct node *node = &nodes[which];
    struct model_map *map = &node->map;

    *node = (struct node){.in = which != SPARE, .trouble = TROUBLE_NONE};
    map->places = places;
    map->masters = node->masters;
    map->self = which;
    map->count = SERVERS;
    map->self_host = world.plan.selfless ? "" : places[which].host;
    memset(map->gives_to, MODEL_NOBODY, sizeof(map->gives_to));
    memset(map->gets_from, MODEL_NOBODY, sizeof(map->gets_from));
    model_server_set_place(world.servers[which], &places[which]);
    model_server_on_step(world.servers[which], on_step, NULL);
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
    }
    for (unsigned i = MASTERS; i < SPARE; i++) {
        follow(i, i - MASTERS);
    }
}

void nodes_end(void)
{
    for (unsigned i = 0; i <= last_epoch; i++) {
        free(epochs[i]);
    }
}

/* Not all seeds are of use: one is a replica, one is no member, at one is nobody. */
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
        length += (size_t)snprintf(url + length, sizeof(url) - length, "%s%s%s%s:%d",
                                   comma, is_sixth ? "[" : "", place->host,
                                   is_sixth ? "]" : "",
                                   i < 4 ? place->port : PORT + SERVERS);
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
