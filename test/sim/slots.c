/* SPDX-License-Identifier: MIT
 *
 * Slots that move from one node of a cluster to another, key by key or all at once; and a
 * node that joins, or hands over all its slots and leaves. One slot moves at a time.
 * Independent of locks.
 *
 * Usual course: slots_move() marks the slot at both nodes. carry_next() moves one key
 * after the other. When no key is left, the slot belongs to the target, which knows
 * first.
 */
#include "nodes.h"

#include "network.h"

#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>

#define SPARE (SERVERS - 1)

static struct {
    bool open;
    unsigned slot, from, to;
    unsigned number; /* a counter, so that the steps of an earlier move are void */
} move;

bool slots_way(unsigned slot, unsigned *from, unsigned *to)
{
    *from = move.from;
    *to = move.to;
    return move.open && move.slot == slot;
}

bool slots_involve(unsigned node)
{
    return move.open && (move.from == node || move.to == node);
}

/* ---- keys ---- */

/* The keys of a slot, or of all slots of a node, one after the other. */
struct harvest {
    unsigned slot; /* MODEL_SLOTS for all slots */
    struct buffer keys;
    size_t count;
};

static void pick(const struct model_key *key, void *arg)
{
    struct harvest *harvest = arg;

    if (harvest->slot == MODEL_SLOTS ||
        lw__slot_of(key->name.data, key->name.len) == harvest->slot) {
        buffer_append(&harvest->keys, key->name.data, key->name.len);
        buffer_append(&harvest->keys, "", 1);
        harvest->count++;
    }
}

static struct harvest harvest(unsigned node, unsigned slot)
{
    struct harvest found = {.slot = slot};

    model_server_each_key(world.servers[node], pick, &found);
    return found;
}

static void carry(const char *key, unsigned from, unsigned to)
{
    trace("%s goes from s%u to s%u", key, from, to);
    if (!model_server_migrate(world.servers[from], world.servers[to], bytes_of(key))) {
        violation("%s cannot go from s%u to s%u, where there is one", key, from, to);
    }
}

static void carry_all(unsigned slot, unsigned from, unsigned to)
{
    struct harvest found = harvest(from, slot);

    for (size_t at = 0; at < found.keys.len; at += strlen(found.keys.data + at) + 1) {
        carry(found.keys.data + at, from, to);
    }
    buffer_free(&found.keys);
}

/* Moves any of the keys that are left. Returns false if there is none. */
static bool carry_one(void)
{
    struct harvest found = harvest(move.from, move.slot);
    const char *at = found.keys.data;
    size_t which = found.count ? (size_t)rng_below(&world.rng, found.count) : 0;
    bool any = found.count > 0;

    for (; which > 0; which--) {
        at += strlen(at) + 1;
    }
    if (any) {
        carry(at, move.from, move.to);
    }
    buffer_free(&found.keys);
    return any;
}

/* ---- a move ---- */

static void tell_others(unsigned a, unsigned b)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        if (i != a && i != b) {
            nodes_learn(i);
        }
    }
}

/* The target knows of the end first, or last. In the latter case the two nodes redirect
 * to each other until then. */
static void finish(void)
{
    bool reversed = !world.healed && rng_chance(&world.rng, 200);

    trace("slot %u is at s%u", move.slot, move.to);
    nodes_change()->owners[move.slot] = (unsigned char)move.to;
    world.moves++;
    move.open = false;
    nodes_know(reversed ? move.from : move.to);
    nodes_learn(reversed ? move.to : move.from);
    tell_others(move.from, move.to);
}

static void carry_next(void *arg)
{
    if (!move.open || (uintptr_t)arg != move.number) {
        return;
    }
    if (nodes_is_well(move.from) && nodes_is_well(move.to) && !carry_one()) {
        finish();
        network_flush();
        return;
    }
    network_flush();
    agenda_add(world.now_us + rng_between(&world.rng, 1, world.plan.move_us), carry_next,
               arg);
}

static void begin_slow(void)
{
    trace("slot %u begins to move from s%u to s%u", move.slot, move.from, move.to);
    move.open = true;
    move.number++;
    nodes[move.to].map.gets_from[move.slot] = (unsigned char)move.from;
    nodes[move.from].map.gives_to[move.slot] = (unsigned char)move.to;
    agenda_add(world.now_us + rng_between(&world.rng, 1, world.plan.move_us), carry_next,
               (void *)(uintptr_t)move.number);
}

/* Moves a slot in one step, as some servers do. */
static void move_at_once(void)
{
    trace("slot %u moves from s%u to s%u", move.slot, move.from, move.to);
    carry_all(move.slot, move.from, move.to);
    nodes_change()->owners[move.slot] = (unsigned char)move.to;
    world.moves++;
    nodes_know(move.to);
    nodes_know(move.from);
    tell_others(move.from, move.to);
    network_flush();
}

/* Returns true if the node is well, and its map is right about whether it owns the slot:
 * neither outdated nor made wrong by NODE_LOOP. */
static bool is_free(unsigned node, unsigned slot)
{
    return nodes_is_well(node) &&
           (nodes[node].map.owners[slot] == node) == (nodes_now()->owners[slot] == node);
}

/* Returns true if the source of an earlier move does not know yet that the slot has
 * arrived. Tools that move slots let both nodes know. Otherwise a lock could be acquired
 * by ASKING at a node to which the slot is moving again, before it has arrived. */
static bool is_still_given(unsigned slot)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        if (nodes[i].map.gives_to[slot] != MODEL_NOBODY) {
            return true;
        }
    }
    return false;
}

void slots_move(void)
{
    const char *name = load_name((unsigned)rng_below(&world.rng, world.plan.names));
    unsigned to = nodes_any_master();
    bool slowly = rng_chance(&world.rng, 700);

    if (move.open) {
        return;
    }
    move.slot = nodes_slot(name);
    move.from = nodes_now()->owners[move.slot];
    move.to = to;
    if (to == SERVERS || to == move.from || !is_free(move.from, move.slot) ||
        !is_free(to, move.slot) || is_still_given(move.slot)) {
        return;
    }
    if (slowly) {
        begin_slow();
    } else {
        move_at_once();
    }
}

/* ---- members ---- */

static void join(unsigned node)
{
    trace("s%u joins the cluster", node);
    nodes[node].in = true;
    nodes[node].refuses_until_us = 0;
    nodes_change();
    nodes_know(node);
}

/* Gives all its slots to another node, and ends. */
static void leave(unsigned node, unsigned heir)
{
    struct epoch *now = nodes_change();

    trace("s%u leaves the cluster, s%u has its slots", node, heir);
    carry_all(MODEL_SLOTS, node, heir);
    for (unsigned slot = 0; slot < MODEL_SLOTS; slot++) {
        if (now->owners[slot] == node) {
            now->owners[slot] = (unsigned char)heir;
            /* the heir may not know that it had given the slot away */
            nodes[heir].map.gives_to[slot] = MODEL_NOBODY;
            nodes[heir].map.gets_from[slot] = MODEL_NOBODY;
        }
    }
    nodes_know(heir);
    tell_others(heir, node);
    nodes[node].in = false;
    nodes_know(node);
    nodes[node].refuses_until_us = world.now_us + 1000 * SECOND;
    model_server_restart(world.servers[node], 0);
    network_flush();
}

/* The member that joins and leaves is the one without a replica. */
void slots_change_member(void)
{
    unsigned heir = nodes_any_master();

    if (!nodes[SPARE].in) {
        join(SPARE);
    } else if (nodes_is_well(SPARE) && heir < SPARE && !slots_involve(SPARE) &&
               !slots_involve(heir)) {
        leave(SPARE, heir);
    }
}

/* ---- beginning and end ---- */

void slots_begin(void)
{
    move.open = false;
    move.number = 0;
}

void slots_heal(void)
{
    if (move.open) {
        carry_all(move.slot, move.from, move.to);
        finish();
    }
}
