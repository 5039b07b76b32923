/* SPDX-License-Identifier: MIT
 *
 * A sorted set; see zset.h.
 */
#include "zset.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct zset_entry {
    struct bytes member;
    double score;
    UT_hash_handle hh;
};

static struct zset_entry *find(const struct zset *zset, struct bytes member)
{
    struct zset_entry *entry;
    HASH_FIND(hh, zset->by_member, member.data, member.len, entry);
    return entry;
}

/* Returns the first rank whose entry is not below (score, member). */
static size_t lower_bound(const struct zset *zset, double score, struct bytes member)
{
    size_t low = 0, high = zset->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct zset_entry *entry = zset->order[middle];
        bool below = entry->score < score ||
                     (entry->score == score && bytes_compare(entry->member, member) < 0);
        if (below) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void order_insert(struct zset *zset, struct zset_entry *entry)
{
    size_t rank = lower_bound(zset, entry->score, entry->member);

    if (zset->count == zset->capacity) {
        zset->capacity = zset->capacity ? zset->capacity * 2 : 8;
        zset->order = must_realloc(zset->order, zset->capacity * sizeof(*zset->order));
    }
    memmove(zset->order + rank + 1, zset->order + rank,
            (zset->count - rank) * sizeof(*zset->order));
    zset->order[rank] = entry;
    zset->count++;
}

static void order_remove(struct zset *zset, const struct zset_entry *entry)
{
    size_t rank = lower_bound(zset, entry->score, entry->member);
    zset->count--;
    memmove(zset->order + rank, zset->order + rank + 1,
            (zset->count - rank) * sizeof(*zset->order));
}

bool zset_score(const struct zset *zset, struct bytes member, double *ret)
{
    const struct zset_entry *entry = find(zset, member);
    if (entry != NULL) {
        *ret = entry->score;
    }
    return entry != NULL;
}

bool zset_rank(const struct zset *zset, struct bytes member, size_t *ret)
{
    const struct zset_entry *entry = find(zset, member);
    if (entry != NULL) {
        *ret = lower_bound(zset, entry->score, entry->member);
    }
    return entry != NULL;
}

void zset_put(struct zset *zset, struct bytes member, double score)
{
    struct zset_entry *entry = find(zset, member);

    if (entry != NULL && entry->score == score) {
        return;
    }
    if (entry != NULL) {
        order_remove(zset, entry);
        entry->score = score;
    } else {
        entry = must_alloc(sizeof(*entry));
        entry->member = bytes_copy(member);
        entry->score = score;
        HASH_ADD_KEYPTR(hh, zset->by_member, entry->member.data, member.len, entry);
    }
    order_insert(zset, entry);
}

bool zset_remove(struct zset *zset, struct bytes member)
{
    struct zset_entry *entry = find(zset, member);
    if (entry == NULL) {
        return false;
    }
    order_remove(zset, entry);
    HASH_DEL(zset->by_member, entry);
    free((char *)entry->member.data);
    free(entry);
    return true;
}

struct bytes zset_at(const struct zset *zset, size_t rank, double *score)
{
    if (score != NULL) {
        *score = zset->order[rank]->score;
    }
    return zset->order[rank]->member;
}

void zset_copy(struct zset *target, const struct zset *source)
{
    *target = (struct zset){0};
    for (size_t i = 0; i < source->count; i++) {
        zset_put(target, source->order[i]->member, source->order[i]->score);
    }
}

void zset_free(struct zset *zset)
{
    struct zset_entry *entry, *next;
    HASH_ITER(hh, zset->by_member, entry, next) {
        HASH_DEL(zset->by_member, entry);
        free((char *)entry->member.data);
        free(entry);
    }
    free(zset->order);
    *zset = (struct zset){0};
}
