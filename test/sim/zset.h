/* SPDX-License-Identifier: MIT
 *
 * A sorted set: members with scores, in order of (score, member). Independent of keys and
 * commands.
 *
 * Usual course: zset_put() and zset_remove() by member; zset_at() by rank. It is a sorted
 * array of pointers, and a hash of the members. Inserting moves memory, which is fine for
 * some thousands of members.
 */
#ifndef LW_SIM_ZSET_H
#define LW_SIM_ZSET_H

#include "bytes.h"

struct zset_entry;

struct zset {
    struct zset_entry *by_member;
    struct zset_entry **order;
    size_t count;
    size_t capacity;
};

bool zset_score(const struct zset *zset, struct bytes member, double *ret);
bool zset_rank(const struct zset *zset, struct bytes member, size_t *ret);
void zset_put(struct zset *zset, struct bytes member, double score);
bool zset_remove(struct zset *zset, struct bytes member);
struct bytes zset_at(const struct zset *zset, size_t rank, double *score);
void zset_copy(struct zset *target, const struct zset *source);
void zset_free(struct zset *zset);

#endif
