/* SPDX-License-Identifier: MIT
 *
 * One database of the model server: named values of four types, with or without an expiry
 * time. Expiry is lazy and follows the time that the caller gives. Nothing here reads a
 * clock. Independent of commands.
 *
 * Usual course: keyspace_find() reads. keyspace_open() is called before a change, and
 * records the key in the undo log. keyspace_drop_if_empty() is called after something was
 * removed from an aggregate.
 */
#ifndef LW_SIM_KEYSPACE_H
#define LW_SIM_KEYSPACE_H

#include "bytes.h"
#include "hash.h"
#include "zset.h"

enum value_type { VALUE_STRING, VALUE_LIST, VALUE_HASH, VALUE_ZSET };

#define NO_EXPIRY INT64_MIN

struct value;
struct undo_log;
struct stream;

struct list {
    struct buffer *items;
    size_t count;
};

struct content {
    enum value_type type;
    int64_t expire_ms; /* server time, or NO_EXPIRY */
    struct buffer string;
    struct list list;
    struct hash hash;
    struct zset zset;
};

struct keyspace {
    struct value *values;
    int index;
    int64_t now_ms;        /* set by the owner before each command */
    bool keeps_ended;      /* a replica's: its master deletes expired keys */
    struct undo_log *undo; /* may be NULL */
    struct stream *stream; /* to a replica; NULL if there is none */
};

/* Returns NULL if the key is missing or has expired. The result is valid until the key
 * changes. */
struct content *keyspace_find(struct keyspace *space, struct bytes name);
/* Returns the value as it is stored, even if it has expired. */
const struct content *keyspace_peek(const struct keyspace *space, struct bytes name);
/* As keyspace_find(), and records the present value for undo. Call it before every
 * change. */
struct content *keyspace_open(struct keyspace *space, struct bytes name);
/* Opens the key, or creates it with that type. The caller checks the type of the
 * result. */
struct content *keyspace_make(struct keyspace *space, struct bytes name,
                              enum value_type type);
bool keyspace_remove(struct keyspace *space, struct bytes name);
void keyspace_drop_if_empty(struct keyspace *space, struct bytes name);
void keyspace_clear(struct keyspace *space); /* records each key for undo */
/* Restores a key to a state, without recording it for undo. NULL removes the key. */
void keyspace_restore(struct keyspace *space, struct bytes name, struct content *content);
void keyspace_free(struct keyspace *space);

typedef void keyspace_visit_fn(struct bytes name, const struct content *content,
                               void *arg);
void keyspace_each(struct keyspace *space, keyspace_visit_fn *visit, void *arg);

void content_copy(struct content *target, const struct content *source);
void content_free(struct content *content);
const char *value_type_name(enum value_type type);

#endif
