/* SPDX-License-Identifier: MIT */
/* The nodes of a cluster: see node_table.h. Independent of the slot map. */
#include "redis/node_table.h"

#include "base/random.h"
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
#define NO_SLOT "the node no longer has a slot of the cluster"

struct lw__node_table_entry {
    struct lw__endpoint endpoint, by; /* `by`: the node that announced it; "": the URL */
    char id[LW__NODE_ID_SIZE];        /* that the server must have; "" for any */
    bool shared;              /* a map had several ids at this endpoint: `id` stays "" */
    struct lw__node *node;    /* NULL: no name has led there yet */
    bool listed, named;       /* `named`: the latest map itself has it, with an id */
    int64_t needed_us;        /* not freed before this time */
    bool up;                  /* its node has come up, and has not gone down since */
    int64_t deprioritized_us; /* the last lw__node_table_deprioritize; 0 if none */
};

/* Returns LW__NOBODY if the table has no entry at the endpoint. */
static uint16_t find_endpoint(const struct lw__node_table *table,
                              const struct lw__endpoint *endpoint)
{
    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        if (entry != NULL && lw__endpoint_equal(&entry->endpoint, endpoint)) {
            return (uint16_t)i;
        }
    }
    return LW__NOBODY;
}

/* Returns a free index, or LW__NOBODY without memory or if there are too many. */
static uint16_t find_free(struct lw__node_table *table)
{
    struct lw__node_table_entry **grown;

    for (size_t i = 1; i < table->count; i++) {
        if (table->all[i] == NULL) {
            return (uint16_t)i;
        }
    }
    if (table->count > MASTERS_MAX) {
        return LW__NOBODY;
    }
    grown =
        realloc(table->all, (table->count + 1) * sizeof(struct lw__node_table_entry *));
    if (grown == NULL) {
        return LW__NOBODY;
    }
    table->all = grown;
    table->all[table->count] = NULL;
    return (uint16_t)table->count++;
}

/* Returns true if the entry may belong to this id. An entry that a redirect created has
 * no id yet, but its node may have reported one. */
static bool may_have_id(const struct lw__node_table_entry *entry, const char *id)
{
    const char *reported = entry->node != NULL ? lw__node_id(entry->node) : "";

    if (entry->shared || *id == '\0' || strcmp(entry->id, id) == 0) {
        return true;
    }
    return *entry->id == '\0' && (*reported == '\0' || strcmp(reported, id) == 0);
}

/* Returns the entry for this id at the endpoint, preferably a listed one, or LW__NOBODY.
 * Marks the entry as shared if the latest map has named another id there. */
static uint16_t find_id(struct lw__node_table *table, const struct lw__endpoint *endpoint,
                        const char *id)
{
    uint16_t found = LW__NOBODY;

    for (size_t i = 1; i < table->count; i++) {
        struct lw__node_table_entry *entry = table->all[i];

        if (entry == NULL || !lw__endpoint_equal(&entry->endpoint, endpoint)) {
            continue;
        }
        if (!may_have_id(entry, id) && entry->named) {
            entry->shared = true;
            entry->id[0] = '\0';
        }
        if (may_have_id(entry, id) && (found == LW__NOBODY || entry->listed)) {
            found = (uint16_t)i;
        }
    }
    return found;
}

uint16_t lw__node_table_get(struct lw__node_table *table,
                            const struct lw__endpoint *endpoint, const char *id,
                            const struct lw__endpoint *by)
{
    uint16_t index = find_id(table, endpoint, id);
    struct lw__node_table_entry *entry;

    if (index == LW__NOBODY && (index = find_free(table)) != LW__NOBODY) {
        table->all[index] = calloc(1, sizeof(struct lw__node_table_entry));
        if (table->all[index] == NULL) {
            return LW__NOBODY;
        }
        table->all[index]->endpoint = *endpoint;
        if (by != NULL && !lw__endpoint_equal(by, endpoint)) {
            table->all[index]->by = *by;
        }
    }
    if (index != LW__NOBODY) {
        entry = table->all[index];
        entry->listed = true;
        entry->named = entry->named || *id != '\0';
        if (!entry->shared && *id != '\0') {
            (void)snprintf(entry->id, sizeof(entry->id), "%s", id);
        }
    }
    return index;
}

struct lw__node *lw__node_table_node(struct lw__node_table *table, uint16_t index,
                                     unsigned slot)
{
    struct lw__node_table_entry *entry = table->all[index];
    struct lw__node_options options = table->options;

    if (entry->node != NULL) {
        return entry->node;
    }
    options.config.host = entry->endpoint.host;
    options.config.port = entry->endpoint.port;
    options.config.announced_by = &entry->by;
    options.config.node_id = entry->id;
    options.slot = slot;
    options.ordinal = ++table->ordinals;
    if (lw__node_new(&options, table->events, table->arg, &entry->node) != 0) {
        return NULL;
    }
    lw__node_start(entry->node);
    return entry->node;
}

const char *lw__node_table_alloc_error(const struct lw__node_table *table)
{
    return table->count > MASTERS_MAX ? TOO_MANY : lw_strerror(LW_ENOMEM);
}

static struct lw__node_table_entry *entry_of(const struct lw__node_table *table,
                                             const struct lw__node *node)
{
    size_t i = 1;

    while (table->all[i] == NULL || table->all[i]->node != node) {
        i++;
    }
    return table->all[i];
}

const struct lw__endpoint *lw__node_table_endpoint(const struct lw__node_table *table,
                                                   const struct lw__node *node)
{
    return &entry_of(table, node)->endpoint;
}

bool lw__node_table_is_listed(const struct lw__node_table *table,
                              const struct lw__node *node)
{
    return entry_of(table, node)->listed;
}

void lw__node_table_unlist_all(struct lw__node_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        if (table->all[i] != NULL) {
            table->all[i]->listed = table->all[i]->named = false;
        }
    }
}

void lw__node_table_list(struct lw__node_table *table, uint16_t index)
{
    table->all[index]->listed = true;
}

void lw__node_table_set_slot(struct lw__node_table *table, uint16_t index, unsigned slot)
{
    if (table->all[index]->node != NULL) {
        lw__node_set_slot(table->all[index]->node, slot);
    }
}

void lw__node_table_retain_until(struct lw__node_table *table, uint16_t index,
                                 int64_t until_us)
{
    table->all[index]->needed_us = until_us;
}

void lw__node_table_set_up(struct lw__node_table *table, const struct lw__node *node)
{
    entry_of(table, node)->up = true;
}

bool lw__node_table_set_down(struct lw__node_table *table, const struct lw__node *node)
{
    struct lw__node_table_entry *entry = entry_of(table, node);
    bool was_up = entry->up;

    entry->up = false;
    return was_up;
}

int64_t lw__node_table_deprioritize(struct lw__node_table *table, struct lw__node *node)
{
    struct lw__node_table_entry *entry = entry_of(table, node);
    int64_t before_us = entry->deprioritized_us;

    entry->deprioritized_us = lw__now_us();
    lw__node_deprioritize(node);
    return before_us;
}

static void free_entry(struct lw__node_table *table, size_t index)
{
    struct lw__node_table_entry *entry = table->all[index];

    table->all[index] = NULL;
    lw__node_free(entry->node);
    free(entry);
}

static bool is_up(const struct lw__node_table_entry *entry)
{
    return entry->node != NULL && lw__node_is_up(entry->node);
}

int64_t lw__node_table_reap(struct lw__node_table *table)
{
    int64_t now_us = lw__now_us(), next_us = 0;

    for (size_t i = 1; i < table->count; i++) {
        struct lw__node_table_entry *entry = table->all[i];

        if (entry == NULL || entry->listed) {
            continue;
        }
        if (entry->node != NULL && !lw__node_is_connected(entry->node)) {
            lw__node_fail_waiting(entry->node, NO_SLOT);
        }
        if (now_us < entry->needed_us) {
            next_us = next_us == 0 || entry->needed_us < next_us ? entry->needed_us
                                                                 : next_us;
        } else if (entry->node == NULL || lw__node_is_idle(entry->node)) {
            free_entry(table, i);
        } else {
            lw__node_fail_link(entry->node, NO_SLOT);
        }
    }
    return next_us;
}

bool lw__node_table_any_up(const struct lw__node_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        if (table->all[i] != NULL && is_up(table->all[i])) {
            return true;
        }
    }
    return false;
}

bool lw__node_table_all_subscribed(const struct lw__node_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        if (entry != NULL && entry->node != NULL &&
            !lw__node_is_subscribed(entry->node)) {
            return false;
        }
    }
    return true;
}

unsigned lw__node_table_degraded(const struct lw__node_table *table)
{
    unsigned degraded = 0;

    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        degraded |= entry != NULL && entry->node != NULL ? lw__node_degraded(entry->node)
                                                         : 0;
    }
    return degraded;
}

bool lw__node_table_has_outage(const struct lw__node_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        if (entry != NULL && entry->node != NULL && !is_up(entry) &&
            lw__node_has_failed(entry->node)) {
            return true;
        }
    }
    return false;
}

bool lw__node_table_is_out(const struct lw__node_table *table,
                           const struct lw__endpoint *endpoint)
{
    uint16_t index = find_endpoint(table, endpoint);
    const struct lw__node_table_entry *entry = table->all[index];

    return index != LW__NOBODY && entry->listed && entry->node != NULL &&
           (is_up(entry) ? lw__node_is_silent(entry->node)
                         : lw__node_has_failed(entry->node));
}

/* ---- sources of the slot map ---- */

static bool is_deprioritized(const struct lw__node_table_entry *entry)
{
    return entry->node != NULL && lw__node_is_deprioritized(entry->node);
}

static void add_endpoint(struct lw__endpoint *endpoints, size_t *count,
                         const struct lw__endpoint *endpoint)
{
    for (size_t i = 0; i < *count; i++) {
        if (lw__endpoint_equal(&endpoints[i], endpoint)) {
            return;
        }
    }
    endpoints[(*count)++] = *endpoint;
}

/* Shuffles them (Durstenfeld's algorithm, 1964), so that the queries of all clients are
 * spread over the nodes. */
static void add_preferred(const struct lw__node_table *table,
                          struct lw__endpoint *endpoints, size_t *count)
{
    size_t first = *count;

    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        if (entry != NULL && is_up(entry) && !is_deprioritized(entry)) {
            add_endpoint(endpoints, count, &entry->endpoint);
        }
    }
    for (size_t i = *count; i > first + 1; i--) {
        struct lw__endpoint *last = &endpoints[i - 1], moved = *last;
        struct lw__endpoint *chosen = &endpoints[lw__random_between(
            table->options.config.random, (int64_t)first, (int64_t)i - 1)];

        *last = *chosen;
        *chosen = moved;
    }
}

static int64_t deprioritized_since_us(const struct lw__node_table_entry *entry)
{
    return is_deprioritized(entry) ? entry->deprioritized_us : 0;
}

/* Of entries with the same time the one that comes first in the table is first: musl's
 * qsort does not keep their order. */
static int compare_deprioritized(const void *a, const void *b)
{
    struct lw__node_table_entry *const *const *one = a, *const *const *other = b;
    int64_t first_us = deprioritized_since_us(**one);
    int64_t second_us = deprioritized_since_us(**other);

    if (first_us != second_us) {
        return first_us < second_us ? -1 : 1;
    }
    return (*one > *other) - (*one < *other);
}

/* Adds the nodes that add_preferred left out. Each deprioritized one comes before the
 * others at some time, because it may have a newer map by now. */
static void add_others(const struct lw__node_table *table, struct lw__endpoint *endpoints,
                       size_t *count, struct lw__node_table_entry *const **others)
{
    size_t others_count = 0;

    for (size_t i = 1; i < table->count; i++) {
        const struct lw__node_table_entry *entry = table->all[i];

        if (entry != NULL && (!is_up(entry) || is_deprioritized(entry))) {
            others[others_count++] = &table->all[i];
        }
    }
    qsort(others, others_count, sizeof(others[0]), compare_deprioritized);
    for (size_t i = 0; i < others_count; i++) {
        add_endpoint(endpoints, count, &(*others[i])->endpoint);
    }
}

static void add_seeds(const struct lw__node_table *table, struct lw__endpoint *endpoints,
                      size_t *count, const struct lw__url_host *seeds, size_t seed_count)
{
    for (size_t i = 0; i < seed_count; i++) {
        struct lw__endpoint seed = {.port = seeds[i].port};
        uint16_t index;

        (void)snprintf(seed.host, sizeof(seed.host), "%s", seeds[i].name);
        index = find_endpoint(table, &seed);
        if (index == LW__NOBODY || !is_deprioritized(table->all[index])) {
            add_endpoint(endpoints, count, &seed);
        }
    }
}

/* A node that has lost contact with the others replies CLUSTERDOWN to commands, but still
 * returns its old map, and at once: so deprioritized nodes come last. */
struct lw__endpoint *lw__node_table_query_order(const struct lw__node_table *table,
                                                const struct lw__endpoint *better,
                                                const struct lw__url_host *seeds,
                                                size_t seed_count, size_t *count)
{
    struct lw__endpoint *endpoints =
        calloc(1 + table->count + seed_count, sizeof(struct lw__endpoint));
    struct lw__node_table_entry *const **others = calloc(table->count, sizeof(others[0]));

    if (endpoints == NULL || others == NULL) {
        free(endpoints);
        free(others);
        return NULL;
    }
    *count = 0;
    if (better->host[0] != '\0') {
        add_endpoint(endpoints, count, better);
    }
    add_preferred(table, endpoints, count);
    add_seeds(table, endpoints, count, seeds, seed_count);
    add_others(table, endpoints, count, others);
    free(others);
    return endpoints;
}

/* ---- life ---- */

int lw__node_table_init(struct lw__node_table *table,
                        const struct lw__node_options *options,
                        const struct lw__node_events *events, void *arg)
{
    *table = (struct lw__node_table){
        .options = *options, .events = events, .arg = arg, .count = 1};
    table->all = calloc(1, sizeof(struct lw__node_table_entry *));
    return table->all != NULL ? 0 : LW_ENOMEM;
}

void lw__node_table_clear(struct lw__node_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        if (table->all[i] != NULL) {
            free_entry(table, i);
        }
    }
    free(table->all);
}
