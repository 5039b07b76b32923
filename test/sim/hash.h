/* SPDX-License-Identifier: MIT
 *
 * A hash value: fields with strings, in order of insertion, as in Redis' small hashes.
 * Independent of keys and commands.
 *
 * Usual course: hash_set(), hash_get(), hash_remove(). hash_first() and hash_next()
 * iterate.
 */
#ifndef LW_SIM_HASH_H
#define LW_SIM_HASH_H

#include "bytes.h"

struct hash_field;

struct hash {
    struct hash_field *fields;
};

bool hash_get(const struct hash *hash, struct bytes name, struct bytes *ret);
bool hash_set(struct hash *hash, struct bytes name, struct bytes content); /* true: new */
bool hash_remove(struct hash *hash, struct bytes name);
size_t hash_count(const struct hash *hash);
const struct hash_field *hash_first(const struct hash *hash);
/* Stores the name and content of `field`, and returns the next field. */
const struct hash_field *hash_next(const struct hash_field *field, struct bytes *name,
                                   struct bytes *content);
void hash_copy(struct hash *target, const struct hash *source);
void hash_free(struct hash *hash);

#endif
