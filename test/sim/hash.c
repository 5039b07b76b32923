/* SPDX-License-Identifier: MIT
 *
 * A hash value; see hash.h.
 */
#include "hash.h"

#include <stdlib.h>
#include <uthash.h>

struct hash_field {
    struct bytes name;
    struct buffer content;
    UT_hash_handle hh;
};

static struct hash_field *find(const struct hash *hash, struct bytes name)
{
    struct hash_field *field;
    HASH_FIND(hh, hash->fields, name.data, name.len, field);
    return field;
}

bool hash_get(const struct hash *hash, struct bytes name, struct bytes *ret)
{
    const struct hash_field *field = find(hash, name);
    if (field != NULL) {
        *ret = buffer_view(&field->content);
    }
    return field != NULL;
}

bool hash_set(struct hash *hash, struct bytes name, struct bytes content)
{
    struct hash_field *field = find(hash, name);
    bool is_new = field == NULL;

    if (is_new) {
        field = must_alloc(sizeof(*field));
        field->name = bytes_copy(name);
        HASH_ADD_KEYPTR(hh, hash->fields, field->name.data, field->name.len, field);
    }
    buffer_set(&field->content, content);
    return is_new;
}

static void discard(struct hash *hash, struct hash_field *field)
{
    HASH_DEL(hash->fields, field);
    free((char *)field->name.data);
    buffer_free(&field->content);
    free(field);
}

bool hash_remove(struct hash *hash, struct bytes name)
{
    struct hash_field *field = find(hash, name);
    if (field == NULL) {
        return false;
    }
    discard(hash, field);
    return true;
}

size_t hash_count(const struct hash *hash)
{
    return HASH_COUNT(hash->fields);
}

const struct hash_field *hash_first(const struct hash *hash)
{
    return hash->fields;
}

const struct hash_field *hash_next(const struct hash_field *field, struct bytes *name,
                                   struct bytes *content)
{
    *name = field->name;
    *content = buffer_view(&field->content);
    return field->hh.next;
}

void hash_copy(struct hash *target, const struct hash *source)
{
    *target = (struct hash){0};
    for (const struct hash_field *field = source->fields; field != NULL;
         field = field->hh.next) {
        hash_set(target, field->name, buffer_view(&field->content));
    }
}

void hash_free(struct hash *hash)
{
    struct hash_field *field, *next;
    HASH_ITER(hh, hash->fields, field, next)
        discard(hash, field);
}
