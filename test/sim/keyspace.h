/* SPDX-License-Identifier: MIT
 *
 * One database of the model server: named values of four types, each with or without an
 * end. Expiry is lazy and follows the time that the caller gives: nothing here reads a
 * clock. Knows no commands.
 *
 * Happy path: keyspace_find() to read; keyspace_open() before a change, which also tells
 * the undo log; keyspace_drop_if_empty() after taking something out of an aggregate.
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
    bool keeps_ended;      /* a replica's: the master says when a key is no more */
    struct undo_log *undo; /* may be NULL */
    struct stream *stream; /* to a replica; NULL: there is none */
};

/* NULL where there is none, or its time is over. Valid until the key's next change. */
struct content *keyspace_find(struct keyspace *space, struct bytes name);
/* As it is stored, though its time may be over. */
const struct content *keyspace_peek(const struct keyspace *space, struct bytes name);
/* As keyspace_find(), and what the key was is remembered for undo: call it before every
 * change. */
struct content *keyspace_open(struct keyspace *space, struct bytes name);
/* Opens, or creates with that type. The caller checks the type of what it gets. */
struct content *keyspace_make(struct keyspace *space, struct bytes name,
                              enum value_type type);
bool keyspace_remove(struct keyspace *space, struct bytes name);
void keyspace_drop_if_empty(struct keyspace *space, struct bytes name);
void keyspace_clear(struct keyspace *space); /* remembers each key for undo */
/* Puts a key into a state, undo log aside. content NULL: the key is not there. */
void keyspace_restore(struct keyspace *space, struct bytes name, struct content *content);
void keyspace_free(struct keyspace *space);

typedef void keyspace_visit_fn(struct bytes name, const struct content *content,
                               void *arg);
void keyspace_each(struct keyspace *space, keyspace_visit_fn *visit, void *arg);

void content_copy(struct content *target, const struct content *source);
void content_free(struct content *content);
const char *value_type_name(enum value_type type);

#endif
