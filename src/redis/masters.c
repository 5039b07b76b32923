/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster: see masters.h. Must not know the map. Happy path: get(),
 * node(), and once it is not listed let_go(). */
#include "redis/masters.h"

#include "base/url.h"
#include "lockwire.h"
#include "loop/now.h"

#include <stdio.h>
#include <stdlib.h>

/* Redis is made for clusters of a thousand nodes at most
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
#define MASTERS_MAX 1024
#define TOO_MANY "the cluster has more than 1024 masters"
#define NO_SLOT "it has no slot of the cluster any more"

struct lw__masters_entry {
    struct lw__place place;
    struct lw__node *node; /* NULL: nobody was led there yet */
    bool listed;
    int64_t needed_us, doubted_us; /* until then */
};

/* LW__NOBODY: not among them. */
static uint16_t find(const struct lw__masters *masters, const struct lw__place *place)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__masters_entry *master = masters->all[i];

        if (master != NULL && lw__place_same(&master->place, place)) {
            return (uint16_t)i;
        }
    }
    return LW__NOBODY;
}

/* An index that is free; LW__NOBODY: no memory. */
static uint16_t make_room(struct lw__masters *masters)
{
    struct lw__masters_entry **grown;

    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] == NULL) {
            return (uint16_t)i;
        }
    }
    if (masters->count > MASTERS_MAX) {
        return LW__NOBODY;
    }
    grown =
        realloc(masters->all, (masters->count + 1) * sizeof(struct lw__masters_entry *));
    if (grown == NULL) {
        return LW__NOBODY;
    }
    masters->all = grown;
    masters->all[masters->count] = NULL;
    return (uint16_t)masters->count++;
}

uint16_t lw__masters_get(struct lw__masters *masters, const struct lw__place *place)
{
    uint16_t index = find(masters, place);

    if (index == LW__NOBODY && (index = make_room(masters)) != LW__NOBODY) {
        masters->all[index] = calloc(1, sizeof(struct lw__masters_entry));
        if (masters->all[index] == NULL) {
            return LW__NOBODY;
        }
        masters->all[index]->place = *place;
    }
    if (index != LW__NOBODY) {
        masters->all[index]->listed = true;
    }
    return index;
}

struct lw__node *lw__masters_node(struct lw__masters *masters, uint16_t index,
                                  unsigned slot)
{
    struct lw__masters_entry *master = masters->all[index];
    struct lw__node_options options = masters->options;

    if (master->node != NULL) {
        return master->node;
    }
    options.access.host = master->place.host;
    options.access.port = master->place.port;
    options.slot = slot;
    options.ordinal = ++masters->ordinals;
    if (lw__node_new(&options, masters->events, masters->arg, &master->node) != 0) {
        return NULL;
    }
    lw__node_start(master->node);
    return master->node;
}

const char *lw__masters_why_none(const struct lw__masters *masters)
{
    return masters->count > MASTERS_MAX ? TOO_MANY : lw_strerror(LW_ENOMEM);
}

static struct lw__masters_entry *master_of(const struct lw__masters *masters,
                                           const struct lw__node *node)
{
    size_t i = 1;

    while (masters->all[i] == NULL || masters->all[i]->node != node) {
        i++;
    }
    return masters->all[i];
}

const struct lw__place *lw__masters_place(const struct lw__masters *masters,
                                          const struct lw__node *node)
{
    return &master_of(masters, node)->place;
}

bool lw__masters_is_listed(const struct lw__masters *masters, const struct lw__node *node)
{
    return master_of(masters, node)->listed;
}

void lw__masters_unlist(struct lw__masters *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL) {
            masters->all[i]->listed = false;
        }
    }
}

void lw__masters_list(struct lw__masters *masters, uint16_t index)
{
    masters->all[index]->listed = true;
}

void lw__masters_has(struct lw__masters *masters, uint16_t index, unsigned slot)
{
    if (masters->all[index]->node != NULL) {
        lw__node_has(masters->all[index]->node, slot);
    }
}

void lw__masters_need(struct lw__masters *masters, uint16_t index, int64_t until_us)
{
    masters->all[index]->needed_us = until_us;
}

void lw__masters_doubt(struct lw__masters *masters, const struct lw__node *node,
                       int64_t until_us)
{
    master_of(masters, node)->doubted_us = until_us;
}

static void drop(struct lw__masters *masters, size_t index)
{
    struct lw__masters_entry *master = masters->all[index];

    masters->all[index] = NULL;
    lw__node_free(master->node);
    free(master);
}

static bool is_up(const struct lw__masters_entry *master)
{
    return master->node != NULL && lw__node_is_up(master->node);
}

int64_t lw__masters_let_go(struct lw__masters *masters)
{
    int64_t now_us = lw__now_us(), next_us = 0;

    for (size_t i = 1; i < masters->count; i++) {
        struct lw__masters_entry *master = masters->all[i];

        if (master == NULL || master->listed) {
            continue;
        }
        if (master->node != NULL && !lw__node_is_connected(master->node)) {
            lw__node_fail_waiting(master->node, NO_SLOT);
        }
        if (now_us < master->needed_us) {
            next_us = next_us == 0 || master->needed_us < next_us ? master->needed_us
                                                                  : next_us;
        } else if (master->node == NULL || lw__node_is_idle(master->node)) {
            drop(masters, i);
        } else {
            lw__node_distrust(master->node, NO_SLOT);
        }
    }
    return next_us;
}

bool lw__masters_any_up(const struct lw__masters *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL && is_up(masters->all[i])) {
            return true;
        }
    }
    return false;
}

bool lw__masters_all_hear(const struct lw__masters *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__masters_entry *master = masters->all[i];

        if (master != NULL && master->node != NULL && !lw__node_hears(master->node)) {
            return false;
        }
    }
    return true;
}

bool lw__masters_misses_one(const struct lw__masters *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__masters_entry *master = masters->all[i];

        if (master != NULL && master->node != NULL && !is_up(master) &&
            lw__node_has_failed(master->node)) {
            return true;
        }
    }
    return false;
}

/* ---- whom to ask ---- */

static bool is_doubted(const struct lw__masters_entry *master)
{
    return lw__now_us() < master->doubted_us;
}

static void put(struct lw__place *places, size_t *count, const struct lw__place *place)
{
    for (size_t i = 0; i < *count; i++) {
        if (lw__place_same(&places[i], place)) {
            return;
        }
    }
    places[(*count)++] = *place;
}

static void put_all(const struct lw__masters *masters, struct lw__place *places,
                    size_t *count, bool trusted)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__masters_entry *master = masters->all[i];

        if (master != NULL && (is_up(master) && !is_doubted(master)) == trusted) {
            put(places, count, &master->place);
        }
    }
}

static void put_seeds(const struct lw__masters *masters, struct lw__place *places,
                      size_t *count, const struct lw__url_host *seeds, size_t seed_count)
{
    for (size_t i = 0; i < seed_count; i++) {
        struct lw__place seed = {.port = seeds[i].port};
        uint16_t index;

        (void)snprintf(seed.host, sizeof(seed.host), "%s", seeds[i].name);
        index = find(masters, &seed);
        if (index == LW__NOBODY || !is_doubted(masters->all[index])) {
            put(places, count, &seed);
        }
    }
}

/* A node that lost the others says CLUSTERDOWN of its slots, and tells the map as it was
 * all the same, at once: so it comes last. */
struct lw__place *lw__masters_to_ask(const struct lw__masters *masters,
                                     const struct lw__place *better,
                                     const struct lw__url_host *seeds, size_t seed_count,
                                     size_t *count)
{
    struct lw__place *places =
        calloc(1 + masters->count + seed_count, sizeof(struct lw__place));

    if (places == NULL) {
        return NULL;
    }
    *count = 0;
    if (better->host[0] != '\0') {
        put(places, count, better);
    }
    put_all(masters, places, count, true);
    put_seeds(masters, places, count, seeds, seed_count);
    put_all(masters, places, count, false);
    return places;
}

/* ---- their life ---- */

int lw__masters_init(struct lw__masters *masters, const struct lw__node_options *options,
                     const struct lw__node_events *events, void *arg)
{
    *masters = (struct lw__masters){
        .options = *options, .events = events, .arg = arg, .count = 1};
    masters->all = calloc(1, sizeof(struct lw__masters_entry *));
    return masters->all != NULL ? 0 : LW_ENOMEM;
}

void lw__masters_clear(struct lw__masters *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL) {
            drop(masters, i);
        }
    }
    free(masters->all);
}
