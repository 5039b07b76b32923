/* SPDX-License-Identifier: MIT
 *
 * Troubles of a cluster's nodes besides the replacement of a master: a node is down,
 * knows outdated things, sends malformed replies, or knows no owner of some slots; or two
 * nodes redirect to each other. Nothing is lost by any of it.
 *
 * Usual course: faults.c calls nodes_trouble(). The agenda ends it.
 */
#include "nodes.h"

#include "network.h"

static void set_half(unsigned from, unsigned to)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        nodes[i].map.hidden_from = from;
        nodes[i].map.hidden_to = to;
    }
}

static void hide_some(void)
{
    unsigned slot =
        nodes_slot(load_name((unsigned)rng_below(&world.rng, world.plan.names)));

    set_half(slot - slot % 2048, slot + 2048);
}

/* Makes two nodes report that a slot is the other's. One of them has it. */
static void send_to_and_fro(void)
{
    unsigned slot =
        nodes_slot(load_name((unsigned)rng_below(&world.rng, world.plan.names)));
    unsigned owner = nodes_now()->owners[slot], other = nodes_any_master();

    if (other == SERVERS || other == owner || !nodes_is_well(owner) ||
        slots_involve(owner) || slots_involve(other)) {
        return;
    }
    trace("s%u and s%u send to each other for slot %u", owner, other, slot);
    nodes[owner].map.owners[slot] = (unsigned char)other;
    nodes[other].map.owners[slot] = (unsigned char)owner;
}

static void end_one(unsigned which, enum node_trouble trouble)
{
    struct node *node = &nodes[which];

    node->trouble = NODE_NONE;
    switch (trouble) {
    case NODE_DEAF:
        if (node->in && !node->apart) {
            nodes_know(which);
        }
        return;
    case NODE_VILE:
        node->map.vileness = MODEL_SOUND;
        return;
    case NODE_DOWN:
        node->map.down = false;
        node->map.epoch = node->epoch + 1;
        return;
    case NODE_BOASTS:
        node->map.boasts = false;
        return;
    case NODE_HALF:
        set_half(0, 0);
        return;
    case NODE_LOOP:
        for (unsigned i = 0; i < SERVERS; i++) {
            nodes_show(i);
        }
        return;
    default:
        return;
    }
}

static void end_trouble(void *arg)
{
    unsigned which = (uintptr_t)arg % SERVERS;

    if (nodes[which].troubles == (uintptr_t)arg / SERVERS) {
        trace("s%u is well", which);
        end_one(which, nodes[which].trouble);
    }
}

static void begin_one(unsigned which, enum node_trouble trouble, int64_t until_us)
{
    struct node *node = &nodes[which];

    switch (trouble) {
    case NODE_AWAY:
        model_server_restart(world.servers[which], 0);
        node->refuses_until_us = until_us;
        return;
    case NODE_FROZEN:
        node->frozen_until_us = until_us;
        return;
    case NODE_VILE:
        node->map.vileness =
            (enum model_vileness)rng_between(&world.rng, 1, MODEL_VILENESSES - 1);
        return;
    case NODE_DOWN:
        node->map.down = true;
        node->map.epoch += 3; /* from elections that it lost */
        return;
    case NODE_BOASTS:
        node->map.boasts = true;
        return;
    case NODE_HALF:
        hide_some();
        return;
    case NODE_LOOP:
        send_to_and_fro();
        return;
    default:
        return;
    }
}

/* Has no effect on a node that has other trouble. */
static void fall_into(unsigned which, enum node_trouble trouble, int64_t until_us)
{
    static const char *const texts[] = {
        "is away",
        "stands still",
        "hears of no change",
        "talks nonsense",
        "says the cluster is down",
        "says that it is a master",
        "knows of some slots nobody's",
        "sends to another",
    };
    struct node *node = &nodes[which];

    if (node->trouble != NODE_NONE || node->paused || node->dead || node->apart ||
        nodes_refuse(which) || node->frozen_until_us > world.now_us) {
        return;
    }
    trace("s%u %s", which, texts[trouble]);
    node->trouble = trouble;
    node->troubles++;
    begin_one(which, trouble, until_us);
    network_flush();
    agenda_add(until_us, end_trouble,
               (void *)(which + (uintptr_t)node->troubles * SERVERS));
}

void nodes_trouble(void)
{
    enum node_trouble trouble = (enum node_trouble)rng_below(&world.rng, NODE_TROUBLES);
    unsigned only = (unsigned)rng_below(&world.rng, SERVERS);
    bool of_all = trouble != NODE_HALF && trouble != NODE_LOOP;
    bool all = rng_chance(&world.rng, trouble == NODE_DOWN ? 500 : 200);

    for (unsigned i = 0; i < SERVERS; i++) {
        int64_t lasts_us = rng_between(&world.rng, 1, 5 * SECOND);

        if ((all && of_all) || i == only) {
            fall_into(i, trouble, world.now_us + lasts_us);
        }
    }
}

void nodes_end_troubles(void)
{
    for (unsigned i = 0; i < SERVERS; i++) {
        nodes[i].troubles++;
        end_one(i, nodes[i].trouble);
    }
}
