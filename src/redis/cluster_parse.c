/* SPDX-License-Identifier: MIT */
/* What cluster nodes reply: see cluster_parse.h. Reads the ranges one by one, and of each
 * the master and its first replicas; everything else that a node reports is skipped. */
#include "redis/cluster_parse.h"

#include "base/check.h"
#include "base/escape.h"
#include "redis/explain.h"
#include "redis/reply.h"
#include "redis/slot.h"
#include "lockwire.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST, LAST, MASTER };  /* of a range; replicas follow */
enum { HOST, PORT, ID, MORE }; /* of a node */
#define SHOWN 64               /* of an invalid host */
#define PREFIX "CLUSTER SLOTS: "
/* One more than node_table.c keeps, so that it refuses those beyond. */
#define MASTERS_MOST 1025

__attribute__((format(printf, 2, 3))) static bool wrong(char *why, const char *format,
                                                        ...)
{
    va_list args;

    (void)snprintf(why, LW_WHY_SIZE, PREFIX);
    va_start(args, format);
    (void)vsnprintf(why + strlen(PREFIX), LW_WHY_SIZE - strlen(PREFIX), format, args);
    va_end(args);
    return false;
}

/* ---- endpoints ---- */

static bool is_unknown(const char *host, size_t length)
{
    return length == 1 && *host == '?';
}

/* If nodes are reached by names, and this one has none, its host is "?", and an array of
 * fields and values at the end has its address. */
static void read_address(const struct lw__reply *node, struct lw__endpoint *ret)
{
    const char *text = NULL;
    size_t length = 0;

    if (lw__reply_count(node) > MORE) {
        text = lw__reply_field(lw__reply_at(node, MORE), "ip", &length);
    }
    if (text == NULL || !lw__endpoint_read_host(text, length, ret->host)) {
        *ret = (struct lw__endpoint){.port = 0};
    }
}

/* ---- nodes ---- */

static void read_id(const struct lw__reply *reply, char ret[LW__NODE_ID_SIZE])
{
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    if (length == LW__NODE_ID_SIZE - 1 && strspn(text, "0123456789abcdef") == length) {
        memcpy(ret, text, LW__NODE_ID_SIZE);
    } else {
        ret[0] = '\0';
    }
}

void lw__cluster_parse_myid(const struct lw__reply *reply, char ret[LW__NODE_ID_SIZE])
{
    read_id(reply, ret);
}

static void read_node_id(const struct lw__reply *node, char ret[LW__NODE_ID_SIZE])
{
    ret[0] = '\0';
    if (lw__reply_count(node) > ID) {
        read_id(lw__reply_at(node, ID), ret);
    }
}

bool lw__cluster_parse_node_id(const struct lw__reply *reply, size_t at, size_t node,
                               char ret[LW__NODE_ID_SIZE])
{
    const struct lw__reply *range = lw__reply_at(reply, at);

    if (node >= lw__reply_count(range) || MASTER + node >= lw__reply_count(range)) {
        return false;
    }
    read_node_id(lw__reply_at(range, MASTER + node), ret);
    return true;
}

/* ---- the node's own view ---- */

struct lw__cluster_info lw__cluster_parse_info(const struct lw__reply *reply)
{
    struct lw__cluster_info ret = {.down = false};
    const char *value;

    if (lw__reply_type(reply) != LW__REPLY_STRING) {
        return ret;
    }
    value = lw__reply_info_field(lw__reply_text(reply, NULL), "cluster_state:");
    ret.down = value != NULL && strncmp(value, "ok", 2) != 0;
    value = lw__reply_info_field(lw__reply_text(reply, NULL), "cluster_current_epoch:");
    ret.epoch =
        value != NULL && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : 0;
    return ret;
}

/* ---- ranges ---- */

static bool is_integer(const struct lw__reply *reply)
{
    return lw__reply_type(reply) == LW__REPLY_INTEGER;
}

static bool read_port(const struct lw__reply *reply, size_t range, uint16_t *ret,
                      char *why)
{
    int64_t port = lw__reply_integer(reply);

    if (!is_integer(reply)) {
        return wrong(why, "range %zu: the master has no port", range);
    }
    if (port < 0 || port > UINT16_MAX) {
        return wrong(why, "range %zu: the master's port %" PRId64 " is invalid", range,
                     port);
    }
    *ret = (uint16_t)port;
    return true;
}

static bool read_master(const struct lw__reply *node, size_t range,
                        struct lw__endpoint *ret, char *why)
{
    const struct lw__reply *host;
    char shown[SHOWN];
    const char *text;
    size_t length;

    if (lw__reply_count(node) <= PORT) {
        return wrong(why, "range %zu has no master", range);
    }
    if (!read_port(lw__reply_at(node, PORT), range, &ret->port, why)) {
        return false;
    }
    host = lw__reply_at(node, HOST);
    text = lw__reply_text(host, &length);
    if (is_unknown(text, length)) {
        read_address(node, ret);
        return true;
    }
    if (lw__reply_type(host) != LW__REPLY_STRING &&
        lw__reply_type(host) != LW__REPLY_NIL) {
        return wrong(why, "range %zu: the master has no host", range);
    }
    if (!lw__endpoint_read_host(text, length, ret->host)) {
        lw__escape(text, shown, sizeof(shown));
        return wrong(why, "range %zu: the master's host \"%s\" is invalid", range, shown);
    }
    return true;
}

static bool read_range(const struct lw__reply *reply, size_t at, struct lw__range *ret,
                       char *why)
{
    const struct lw__reply *range = lw__reply_at(reply, at);
    size_t count = lw__reply_count(range);
    int64_t first, last;

    if (count <= LAST || !is_integer(lw__reply_at(range, FIRST)) ||
        !is_integer(lw__reply_at(range, LAST))) {
        return wrong(why, "range %zu is invalid", at + 1);
    }
    first = lw__reply_integer(lw__reply_at(range, FIRST));
    last = lw__reply_integer(lw__reply_at(range, LAST));
    if (first < 0 || first > last || last >= LW__SLOTS) {
        return wrong(why, "range %zu (%" PRId64 "-%" PRId64 ") is invalid", at + 1, first,
                     last);
    }
    if (count <= MASTER) {
        return wrong(why, "range %zu has no master", at + 1);
    }
    ret->first = (unsigned)first;
    ret->last = (unsigned)last;
    read_node_id(lw__reply_at(range, MASTER), ret->id);
    return read_master(lw__reply_at(range, MASTER), at + 1, &ret->master, why);
}

/* A slot in two ranges may be at either node: the reply is refused. */
static bool note_slots(const struct lw__range *range, size_t at, unsigned char *taken,
                       char *why)
{
    for (unsigned slot = range->first; slot <= range->last; slot++) {
        unsigned char bit = (unsigned char)(1U << slot % CHAR_BIT);

        if (taken[slot / CHAR_BIT] & bit) {
            return wrong(why, "range %zu (%u-%u) overlaps an earlier one at slot %u",
                         at + 1, range->first, range->last, slot);
        }
        taken[slot / CHAR_BIT] |= bit;
    }
    return true;
}

bool lw__cluster_parse_map(const struct lw__reply *reply, char *why)
{
    unsigned char taken[LW__SLOTS / CHAR_BIT] = {0};
    struct lw__range range = {0};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        char text[LW_WHY_SIZE];

        lw__escape(lw__explain(lw__reply_text(reply, NULL), text), why, LW_WHY_SIZE);
        return false;
    }
    if (lw__reply_type(reply) != LW__REPLY_ARRAY) {
        return wrong(why, "the reply is not an array");
    }
    if (lw__reply_count(reply) == 0) {
        return wrong(why, "no node has any slot");
    }
    for (size_t at = 0; at < lw__reply_count(reply); at++) {
        if (!read_range(reply, at, &range, why) || !note_slots(&range, at, taken, why)) {
            return false;
        }
    }
    return true;
}

bool lw__cluster_parse_range(const struct lw__reply *reply, size_t *at,
                             struct lw__range *ret)
{
    struct lw__range range;
    char why[LW_WHY_SIZE];

    while (*at < lw__reply_count(reply)) {
        if (read_range(reply, (*at)++, &range, why)) {
            *ret = range;
            return true;
        }
    }
    return false;
}

/* ---- slot maps ---- */

void lw__cluster_parse_free_map(struct lw__slot_map *map)
{
    if (map != NULL) {
        free(map->masters);
        free(map->nodes.list);
        free(map);
    }
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorts the ids, and keeps one of each. */
static void sort_ids(struct lw__node_ids *ids)
{
    size_t kept = 0;

    if (ids->count == 0) {
        return;
    }
    qsort(ids->list, ids->count, sizeof(*ids->list), compare_ids);
    for (size_t i = 1; i < ids->count; i++) {
        if (strcmp(ids->list[kept], ids->list[i]) != 0) {
            memcpy(ids->list[++kept], ids->list[i], sizeof(*ids->list));
        }
    }
    ids->count = kept + 1;
}

static bool has_id(const struct lw__node_ids *ids, const char *id)
{
    return ids->count > 0 &&
           bsearch(id, ids->list, ids->count, sizeof(*ids->list), compare_ids) != NULL;
}

bool lw__cluster_parse_share_node(const struct lw__node_ids *a,
                                  const struct lw__node_ids *b)
{
    for (size_t i = 0; i < a->count; i++) {
        if (has_id(b, a->list[i])) {
            return true;
        }
    }
    return false;
}

/* Returns false without memory. */
static bool copy_ids(struct lw__slot_map *map, const struct lw__reply *reply)
{
    size_t most = 0, ranges = lw__reply_count(reply);
    char id[LW__NODE_ID_SIZE];

    for (size_t at = 0; at < ranges; at++) {
        most += lw__reply_count(lw__reply_at(reply, at));
    }
    map->nodes.list = calloc(most + 1, sizeof(*map->nodes.list));
    if (map->nodes.list == NULL) {
        return false;
    }
    for (size_t at = 0; at < ranges; at++) {
        for (size_t node = 0; lw__cluster_parse_node_id(reply, at, node, id); node++) {
            if (*id != '\0') {
                memcpy(map->nodes.list[map->nodes.count++], id, sizeof(id));
            }
        }
    }
    sort_ids(&map->nodes);
    return true;
}

/* Returns the index of the range's master in map->masters, which has room. */
static size_t master_of(struct lw__slot_map *map, const struct lw__range *range)
{
    size_t i = 0;

    while (i < map->count &&
           (!lw__endpoint_equal(&map->masters[i].node.endpoint, &range->master) ||
            strcmp(map->masters[i].node.id, range->id) != 0)) {
        i++;
    }
    if (i == MASTERS_MOST) {
        return i - 1;
    }
    if (i == map->count) {
        map->masters[i].node.endpoint = range->master;
        memcpy(map->masters[i].node.id, range->id, sizeof(range->id));
        map->count++;
    }
    return i;
}

/* Invalid replicas are left out. */
static void copy_replicas(const struct lw__slot_map *map, const struct lw__reply *range,
                          struct lw__map_node *replicas)
{
    char why[LW_WHY_SIZE];

    for (size_t i = 0; i < LW__MAP_REPLICAS && MASTER + 1 + i < lw__reply_count(range);
         i++) {
        const struct lw__reply *node = lw__reply_at(range, MASTER + 1 + i);
        struct lw__endpoint *endpoint = &replicas[i].endpoint;

        read_node_id(node, replicas[i].id);
        if (!read_master(node, 1, endpoint, why)) {
            endpoint->port = 0;
        } else if (endpoint->host[0] == '\0') {
            memcpy(endpoint->host, map->by.host, sizeof(endpoint->host));
        }
    }
}

static void copy_ranges(struct lw__slot_map *map, const struct lw__reply *reply)
{
    struct lw__range range;
    size_t slots = 0;

    for (size_t at = 0; lw__cluster_parse_range(reply, &at, &range);) {
        size_t master;

        if (range.master.host[0] == '\0') {
            memcpy(range.master.host, map->by.host, sizeof(range.master.host));
        }
        master = master_of(map, &range);
        copy_replicas(map, lw__reply_at(reply, at - 1), map->masters[master].replicas);
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            map->owners[slot] = (uint16_t)(master + 1);
        }
        slots += range.master.port != 0 ? range.last - range.first + 1 : 0;
    }
    map->whole = slots == LW__SLOTS;
}

struct lw__slot_map *lw__cluster_parse_new_map(const struct lw__reply *reply,
                                               const struct lw__endpoint *by)
{
    size_t most = lw__reply_count(reply);
    struct lw__slot_map *map = calloc(1, sizeof(*map));

    if (map == NULL) {
        return NULL;
    }
    map->by = *by;
    map->masters =
        calloc(most < MASTERS_MOST ? most : MASTERS_MOST, sizeof(*map->masters));
    if (map->masters == NULL || !copy_ids(map, reply)) {
        lw__cluster_parse_free_map(map);
        return NULL;
    }
    copy_ranges(map, reply);
    return map;
}

/* ---- redirects ---- */

/* Returns what follows the code and a space, or NULL if the text has another code. */
static const char *behind(const char *text, const char *end, const char *code)
{
    size_t length = strlen(code);

    return (size_t)(end - text) > length && memcmp(text, code, length) == 0
               ? text + length
               : NULL;
}

/* host:port; the host may contain colons. */
static bool read_endpoint(const char *text, const char *end, struct lw__endpoint *ret)
{
    const char *colon = end;
    int64_t port;

    do {
        if (colon == text) {
            return false;
        }
    } while (*--colon != ':');
    port = lw__check_number(colon + 1, (size_t)(end - colon - 1), UINT16_MAX);
    ret->port = (uint16_t)port;
    if (is_unknown(text, (size_t)(colon - text))) {
        *ret = (struct lw__endpoint){.port = 0};
        return port >= 0;
    }
    return port >= 0 && lw__endpoint_read_host(text, (size_t)(colon - text), ret->host);
}

bool lw__cluster_parse_redirect(const char *text, size_t length, struct lw__redirect *ret)
{
    const char *end = text + length, *at = behind(text, end, "MOVED "), *blank;
    struct lw__redirect redirect = {.ask = at == NULL};
    int64_t slot;

    if (at == NULL) {
        at = behind(text, end, "ASK ");
    }
    blank = at != NULL ? memchr(at, ' ', (size_t)(end - at)) : NULL;
    if (blank == NULL) {
        return false;
    }
    slot = lw__check_number(at, (size_t)(blank - at), LW__SLOTS - 1);
    if (slot < 0 || !read_endpoint(blank + 1, end, &redirect.endpoint)) {
        return false;
    }
    redirect.slot = (unsigned)slot;
    *ret = redirect;
    return true;
}
