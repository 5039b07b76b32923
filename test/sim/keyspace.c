/* SPDX-License-Identifier: MIT
 *
 * One database; see keyspace.h.
 */
#include "keyspace.h"
#include "replication.h"
#include "undo.h"

#include <stdlib.h>
#include <uthash.h>

struct value {
    struct bytes name;
    struct content content;
    UT_hash_handle hh;
};

static struct value *find(const struct keyspace *space, struct bytes name)
{
    struct value *value;
    HASH_FIND(hh, space->values, name.data, name.len, value);
    return value;
}

static bool is_over(const struct keyspace *space, const struct content *content)
{
    return content->expire_ms != NO_EXPIRY && space->now_ms > content->expire_ms;
}

static void discard(struct keyspace *space, struct value *value)
{
    HASH_DEL(space->values, value);
    content_free(&value->content);
    free((char *)value->name.data);
    free(value);
}

static void remember(struct keyspace *space, struct bytes name, const struct value *value)
{
    if (space->undo != NULL) {
        undo_remember(space->undo, space->index, name,
                      value != NULL ? &value->content : NULL);
    }
    if (space->stream != NULL) {
        stream_note_key(space->stream, space->index, name);
    }
}

struct content *keyspace_find(struct keyspace *space, struct bytes name)
{
    struct value *value = find(space, name);

    /* The key is gone for good even if the clock is set back, as in Redis. */
    if (value != NULL && is_over(space, &value->content)) {
        return space->keeps_ended ? NULL : keyspace_open(space, name);
    }
    return value != NULL ? &value->content : NULL;
}

const struct content *keyspace_peek(const struct keyspace *space, struct bytes name)
{
    const struct value *value = find(space, name);

    return value != NULL ? &value->content : NULL;
}

struct content *keyspace_open(struct keyspace *space, struct bytes name)
{
    struct value *value = find(space, name);

    remember(space, name, value);
    if (value != NULL && is_over(space, &value->content)) {
        discard(space, value);
        return NULL;
    }
    return value != NULL ? &value->content : NULL;
}

static struct content *add(struct keyspace *space, struct bytes name)
{
    struct value *value = must_alloc(sizeof(*value));
    value->name = bytes_copy(name);
    HASH_ADD_KEYPTR(hh, space->values, value->name.data, value->name.len, value);
    return &value->content;
}

struct content *keyspace_make(struct keyspace *space, struct bytes name,
                              enum value_type type)
{
    struct content *content = keyspace_open(space, name);

    if (content == NULL) {
        content = add(space, name);
        content->type = type;
        content->expire_ms = NO_EXPIRY;
    }
    return content;
}

bool keyspace_remove(struct keyspace *space, struct bytes name)
{
    if (keyspace_open(space, name) == NULL) {
        return false;
    }
    discard(space, find(space, name));
    return true;
}

static bool is_empty(const struct content *content)
{
    switch (content->type) {
    case VALUE_STRING:
        return false;
    case VALUE_LIST:
        return content->list.count == 0;
    case VALUE_HASH:
        return hash_count(&content->hash) == 0;
    case VALUE_ZSET:
        return content->zset.count == 0;
    }
    return false;
}

void keyspace_drop_if_empty(struct keyspace *space, struct bytes name)
{
    struct value *value = find(space, name);
    if (value != NULL && is_empty(&value->content)) {
        discard(space, value);
    }
}

void keyspace_clear(struct keyspace *space)
{
    struct value *value, *next;
    HASH_ITER(hh, space->values, value, next) {
        remember(space, value->name, value);
        discard(space, value);
    }
}

void keyspace_restore(struct keyspace *space, struct bytes name, struct content *content)
{
    struct value *value = find(space, name);
    if (value != NULL) {
        discard(space, value);
    }
    if (content != NULL) {
        content_copy(add(space, name), content);
    }
}

void keyspace_free(struct keyspace *space)
{
    struct value *value, *next;
    HASH_ITER(hh, space->values, value, next)
        discard(space, value);
}

void keyspace_each(struct keyspace *space, keyspace_visit_fn *visit, void *arg)
{
    for (struct value *value = space->values; value != NULL; value = value->hh.next) {
        if (!is_over(space, &value->content)) {
            visit(value->name, &value->content, arg);
        }
    }
}

void content_copy(struct content *target, const struct content *source)
{
    *target = (struct content){.type = source->type, .expire_ms = source->expire_ms};
    buffer_set(&target->string, buffer_view(&source->string));
    hash_copy(&target->hash, &source->hash);
    zset_copy(&target->zset, &source->zset);
    target->list.count = source->list.count;
    target->list.items = must_alloc(source->list.count * sizeof(*source->list.items));
    for (size_t i = 0; i < source->list.count; i++) {
        buffer_set(&target->list.items[i], buffer_view(&source->list.items[i]));
    }
}

void content_free(struct content *content)
{
    buffer_free(&content->string);
    hash_free(&content->hash);
    zset_free(&content->zset);
    for (size_t i = 0; i < content->list.count; i++) {
        buffer_free(&content->list.items[i]);
    }
    free(content->list.items);
    content->list = (struct list){0};
}

const char *value_type_name(enum value_type type)
{
    static const char *const names[] = {"string", "list", "hash", "zset"};
    return names[type];
}
