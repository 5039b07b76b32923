/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster: see masters.h. Must not know the map. Happy path: get(),
 * node(), and once it is not listed let_go(). */
#include "redis/node_table.h"

#include "base/url.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Redis is made for clusters of a thousand nodes at most
 * (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
#define MASTERS_MAX 1024
#define TOO_MANY "the cluster has more than 1024 masters"
#define NO_SLOT "it has no slot of the cluster any more"

struct lw__node_table_entry {
    struct lw__endpoint place;
    char id[LW__NODE_ID_SIZE]; /* which the node's connections insist on; "" if unknown */
    bool shared;               /* maps have several ids at this place: `id` stays "" */
    struct lw__node *node;     /* NULL: nobody was led there yet */
    bool listed, named;        /* `named`: by the latest map itself, with an id */
    int64_t needed_us;         /* until then */
    bool up;                   /* since its node came up; not after it was lost */
    int64_t doubted_us;        /* when it was doubted last; 0 if never */
};

/* LW__NOBODY: not among them. */
static uint16_t find(const struct lw__node_table *masters,
                     const struct lw__endpoint *place)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__node_table_entry *master = masters->all[i];

        if (master != NULL && lw__endpoint_equal(&master->place, place)) {
            return (uint16_t)i;
        }
    }
    return LW__NOBODY;
}

/* An index that is free; LW__NOBODY: no memory. */
static uint16_t make_room(struct lw__node_table *masters)
{
    struct lw__node_table_entry **grown;

    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] == NULL) {
            return (uint16_t)i;
        }
    }
    if (masters->count > MASTERS_MAX) {
        return LW__NOBODY;
    }
    grown = realloc(masters->all,
                    (masters->count + 1) * sizeof(struct lw__node_table_entry *));
    if (grown == NULL) {
        return LW__NOBODY;
    }
    masters->all = grown;
    masters->all[masters->count] = NULL;
    return (uint16_t)masters->count++;
}

/* Whether the entry may be the master with this id, which may be learnt now: an entry
 * that a redirect made has no id yet, and its node may have told one. */
static bool may_be(const struct lw__node_table_entry *master, const char *id)
{
    const char *told = master->node != NULL ? lw__node_id(master->node) : "";

    if (master->shared || *id == '\0' || strcmp(master->id, id) == 0) {
        return true;
    }
    return *master->id == '\0' && (*told == '\0' || strcmp(told, id) == 0);
}

/* Returns LW__NOBODY if there is none. A listed one comes before one that was. */
static uint16_t find_master(struct lw__node_table *masters,
                            const struct lw__endpoint *place, const char *id)
{
    uint16_t found = LW__NOBODY;

    for (size_t i = 1; i < masters->count; i++) {
        struct lw__node_table_entry *master = masters->all[i];

        if (master == NULL || !lw__endpoint_equal(&master->place, place)) {
            continue;
        }
        if (!may_be(master, id) && master->named) {
            master->shared = true;
            master->id[0] = '\0';
        }
        if (may_be(master, id) && (found == LW__NOBODY || master->listed)) {
            found = (uint16_t)i;
        }
    }
    return found;
}

uint16_t lw__node_table_get(struct lw__node_table *masters,
                            const struct lw__endpoint *place, const char *id)
{
    uint16_t index = find_master(masters, place, id);
    struct lw__node_table_entry *master;

    if (index == LW__NOBODY && (index = make_room(masters)) != LW__NOBODY) {
        masters->all[index] = calloc(1, sizeof(struct lw__node_table_entry));
        if (masters->all[index] == NULL) {
            return LW__NOBODY;
        }
        masters->all[index]->place = *place;
    }
    if (index != LW__NOBODY) {
        master = masters->all[index];
        master->listed = true;
        master->named = master->named || *id != '\0';
        if (!master->shared && *id != '\0') {
            (void)snprintf(master->id, sizeof(master->id), "%s", id);
        }
    }
    return index;
}

struct lw__node *lw__node_table_node(struct lw__node_table *masters, uint16_t index,
                                     unsigned slot)
{
    struct lw__node_table_entry *master = masters->all[index];
    struct lw__node_options options = masters->options;

    if (master->node != NULL) {
        return master->node;
    }
    options.config.host = master->place.host;
    options.config.port = master->place.port;
    options.config.node_id = master->id;
    options.slot = slot;
    options.ordinal = ++masters->ordinals;
    if (lw__node_new(&options, masters->events, masters->arg, &master->node) != 0) {
        return NULL;
    }
    lw__node_start(master->node);
    return master->node;
}

const char *lw__node_table_alloc_error(const struct lw__node_table *masters)
{
    return masters->count > MASTERS_MAX ? TOO_MANY : lw_strerror(LW_ENOMEM);
}

static struct lw__node_table_entry *master_of(const struct lw__node_table *masters,
                                              const struct lw__node *node)
{
    size_t i = 1;

    while (masters->all[i] == NULL || masters->all[i]->node != node) {
        i++;
    }
    return masters->all[i];
}

const struct lw__endpoint *lw__node_table_endpoint(const struct lw__node_table *masters,
                                                   const struct lw__node *node)
{
    return &master_of(masters, node)->place;
}

bool lw__node_table_is_listed(const struct lw__node_table *masters,
                              const struct lw__node *node)
{
    return master_of(masters, node)->listed;
}

void lw__node_table_unlist_all(struct lw__node_table *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL) {
            masters->all[i]->listed = masters->all[i]->named = false;
        }
    }
}

void lw__node_table_list(struct lw__node_table *masters, uint16_t index)
{
    masters->all[index]->listed = true;
}

void lw__node_table_set_slot(struct lw__node_table *masters, uint16_t index,
                             unsigned slot)
{
    if (masters->all[index]->node != NULL) {
        lw__node_set_slot(masters->all[index]->node, slot);
    }
}

void lw__node_table_retain_until(struct lw__node_table *masters, uint16_t index,
                                 int64_t until_us)
{
    masters->all[index]->needed_us = until_us;
}

void lw__node_table_set_up(struct lw__node_table *masters, const struct lw__node *node)
{
    master_of(masters, node)->up = true;
}

bool lw__node_table_set_down(struct lw__node_table *masters, const struct lw__node *node)
{
    struct lw__node_table_entry *master = master_of(masters, node);
    bool was_up = master->up;

    master->up = false;
    return was_up;
}

int64_t lw__node_table_deprioritize(struct lw__node_table *masters, struct lw__node *node)
{
    struct lw__node_table_entry *master = master_of(masters, node);
    int64_t before_us = master->doubted_us;

    master->doubted_us = lw__now_us();
    lw__node_deprioritize(node);
    return before_us;
}

static void drop(struct lw__node_table *masters, size_t index)
{
    struct lw__node_table_entry *master = masters->all[index];

    masters->all[index] = NULL;
    lw__node_free(master->node);
    free(master);
}

static bool is_up(const struct lw__node_table_entry *master)
{
    return master->node != NULL && lw__node_is_up(master->node);
}

int64_t lw__node_table_reap(struct lw__node_table *masters)
{
    int64_t now_us = lw__now_us(), next_us = 0;

    for (size_t i = 1; i < masters->count; i++) {
        struct lw__node_table_entry *master = masters->all[i];

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
            lw__node_fail_link(master->node, NO_SLOT);
        }
    }
    return next_us;
}

bool lw__node_table_any_up(const struct lw__node_table *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL && is_up(masters->all[i])) {
            return true;
        }
    }
    return false;
}

bool lw__node_table_all_subscribed(const struct lw__node_table *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__node_table_entry *master = masters->all[i];

        if (master != NULL && master->node != NULL &&
            !lw__node_is_subscribed(master->node)) {
            return false;
        }
    }
    return true;
}

bool lw__node_table_has_outage(const struct lw__node_table *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__node_table_entry *master = masters->all[i];

        if (master != NULL && master->node != NULL && !is_up(master) &&
            lw__node_has_failed(master->node)) {
            return true;
        }
    }
    return false;
}

/* ---- whom to ask ---- */

static bool is_doubted(const struct lw__node_table_entry *master)
{
    return master->node != NULL && lw__node_is_deprioritized(master->node);
}

static void put(struct lw__endpoint *places, size_t *count,
                const struct lw__endpoint *place)
{
    for (size_t i = 0; i < *count; i++) {
        if (lw__endpoint_equal(&places[i], place)) {
            return;
        }
    }
    places[(*count)++] = *place;
}

static void put_well(const struct lw__node_table *masters, struct lw__endpoint *places,
                     size_t *count)
{
    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__node_table_entry *master = masters->all[i];

        if (master != NULL && is_up(master) && !is_doubted(master)) {
            put(places, count, &master->place);
        }
    }
}

static int64_t doubted_since_us(const struct lw__node_table_entry *master)
{
    return is_doubted(master) ? master->doubted_us : 0;
}

static int compare_doubts(const void *a, const void *b)
{
    const struct lw__node_table_entry *const *one = a, *const *other = b;
    int64_t first_us = doubted_since_us(*one), second_us = doubted_since_us(*other);

    return (first_us > second_us) - (first_us < second_us);
}

/* Those that put_well left out. Each is asked before the others some time: of several in
 * doubt one may know more by now. */
static void put_others(const struct lw__node_table *masters, struct lw__endpoint *places,
                       size_t *count, const struct lw__node_table_entry **room)
{
    size_t others = 0;

    for (size_t i = 1; i < masters->count; i++) {
        const struct lw__node_table_entry *master = masters->all[i];

        if (master != NULL && (!is_up(master) || is_doubted(master))) {
            room[others++] = master;
        }
    }
    qsort(room, others, sizeof(const struct lw__node_table_entry *), compare_doubts);
    for (size_t i = 0; i < others; i++) {
        put(places, count, &room[i]->place);
    }
}

static void put_seeds(const struct lw__node_table *masters, struct lw__endpoint *places,
                      size_t *count, const struct lw__url_host *seeds, size_t seed_count)
{
    for (size_t i = 0; i < seed_count; i++) {
        struct lw__endpoint seed = {.port = seeds[i].port};
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
struct lw__endpoint *lw__node_table_query_order(const struct lw__node_table *masters,
                                                const struct lw__endpoint *better,
                                                const struct lw__url_host *seeds,
                                                size_t seed_count, size_t *count)
{
    struct lw__endpoint *places =
        calloc(1 + masters->count + seed_count, sizeof(struct lw__endpoint));
    const struct lw__node_table_entry **room =
        calloc(masters->count, sizeof(const struct lw__node_table_entry *));

    if (places == NULL || room == NULL) {
        free(places);
        free(room);
        return NULL;
    }
    *count = 0;
    if (better->host[0] != '\0') {
        put(places, count, better);
    }
    put_well(masters, places, count);
    put_seeds(masters, places, count, seeds, seed_count);
    put_others(masters, places, count, room);
    free(room);
    return places;
}

/* ---- their life ---- */

int lw__node_table_init(struct lw__node_table *masters,
                        const struct lw__node_options *options,
                        const struct lw__node_events *events, void *arg)
{
    *masters = (struct lw__node_table){
        .options = *options, .events = events, .arg = arg, .count = 1};
    masters->all = calloc(1, sizeof(struct lw__node_table_entry *));
    return masters->all != NULL ? 0 : LW_ENOMEM;
}

void lw__node_table_clear(struct lw__node_table *masters)
{
    for (size_t i = 1; i < masters->count; i++) {
        if (masters->all[i] != NULL) {
            drop(masters, i);
        }
    }
    free(masters->all);
}
