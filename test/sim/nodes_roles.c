/* SPDX-License-Identifier: MIT
 *
 * Roles in a cluster. Each step of a master arrives at its replica, which takes its place
 * in an orderly failover, or when it seems to be dead. Independent of locks.
 *
 * Usual course: nodes_follow(). servers.c calls nodes_swap(), nodes_split() and
 * nodes_fail_over(). nodes_heal() joins nodes that are apart, and lets all nodes know the
 * present state.
 *
 * Each hold that a failover loses is known (stray.c). Nothing is declared.
 */
#include "nodes.h"

#include "network.h"

#include "redis/slot.h"

#include <string.h>

/* ---- which master is replaced ---- */

static unsigned replica_of(unsigned master)
{
    unsigned i = 0;

    while (i < SERVERS &&
           (i == master || !nodes[i].in || nodes_now()->masters[i] != master)) {
        i++;
    }
    return i;
}

/* Returns a master that can be replaced; SERVERS if there is none. */
static unsigned any_replaceable(void)
{
    unsigned master = nodes_any_master(), replica;

    if (master == SERVERS || slots_involve(master) ||
        nodes[master].trouble != NODE_NONE) {
        return SERVERS;
    }
    replica = replica_of(master);
    return replica < SERVERS && !nodes[replica].apart && nodes_stands(replica) ? master
                                                                               : SERVERS;
}

/* ---- replication ---- */

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

void nodes_follow(unsigned which, unsigned master)
{
    nodes[which].stream++;
    nodes[which].cut = false;
    model_server_on_step(world.servers[which], on_step, NULL);
    model_server_replicate(world.servers[which], world.servers[master]);
}

/* ---- roles ---- */

void nodes_ran(unsigned node)
{
    if (nodes[node].apart) {
        stray_note(world.servers[node]);
    }
}

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

/* Deletes keys that the node has, but that belong elsewhere without it knowing. */
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

/* Makes `new` the successor of `old`, and lets it know. */
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
    trace("s%u is the master in place of s%u", new, old);
    drop_foreign(new);
    nodes_know(new);
    for (unsigned i = 0; i < SERVERS; i++) {
        nodes_learn(i);
    }
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
    nodes_follow(old, new);
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
    nodes_follow(old, nodes_now()->masters[old]);
    network_flush();
}

/* Replaces `old`. Its steps under way are lost, and all its writes until it knows of its
 * successor. */
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
        until_us = nodes[old].frozen_until_us + /* and it continues as before */
                   rng_between(&world.rng, 1, world.plan.split_us);
    }
    live_apart(old, until_us);
}

/* Makes a master die or freeze. It is replaced some time later, and comes back before or
 * after that. A restarted node does nothing until it knows what the others know. */
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

/* Replaces a master, which does not know of it. */
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
    if (nodes[which].paused) {
        return;
    }
    model_server_restart(world.servers[which], 0);
    if (rng_chance(&world.rng, 500) && !nodes_refuse(which)) {
        nodes[which].refuses_until_us = world.now_us +
                                        rng_between(&world.rng, 1, 3 * SECOND);
    }
    network_flush();
}

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
            nodes_follow(i, nodes_now()->masters[i]);
        }
    }
}
