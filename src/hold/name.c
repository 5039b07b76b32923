/* SPDX-License-Identifier: MIT */
/* The names that a client uses, found by their text. A name is freed with its last
 * reference. If memory is short when the table should grow it stays as it is, and finding
 * takes longer. Which names are contended is remembered by their hash, also when they are
 * not in use. */
#include "hold/hold.h"

#include "base/hash.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/route.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define SIZE_MIN 64
#define PER_BUCKET 2 /* names, on average */
#define CONTENDED_US (1000 * LW__MS)
#define EXTEND_US (20000 * LW__MS) /* of the two minutes that a queue lives */

/* ---- the hash table ---- */

static uint32_t hash_of(const struct lw__holds *holds, const char *text, size_t length)
{
    return (uint32_t)lw__hash(&holds->hash_key, text, length);
}

static struct lw__name **bucket_of(const struct lw__names *names, uint32_t hash)
{
    return &names->slots[hash & (names->size - 1)];
}

static void grow(struct lw__names *names)
{
    struct lw__names grown = {.count = names->count,
                              .size = names->size > 0 ? 2 * names->size : SIZE_MIN};
    struct lw__name *name, *next;

    grown.slots = calloc(grown.size, sizeof(struct lw__name *));
    if (grown.slots == NULL) {
        return;
    }
    for (size_t i = 0; i < names->size; i++) {
        LL_FOREACH_SAFE(names->slots[i], name, next)
        {
            LL_PREPEND(*bucket_of(&grown, name->hash), name);
        }
    }
    free(names->slots);
    *names = grown;
}

static struct lw__name *find(const struct lw__holds *holds, const char *text,
                             uint32_t hash)
{
    struct lw__name *name = NULL;

    if (holds->names.size > 0) {
        LL_FOREACH(*bucket_of(&holds->names, hash), name)
        {
            if (name->hash == hash && strcmp(name->text, text) == 0) {
                break;
            }
        }
    }
    return name;
}

struct lw__name *lw__name_find(struct lw__holds *holds, const char *text)
{
    return find(holds, text, hash_of(holds, text, strlen(text)));
}

struct lw__name *lw__name_after(const struct lw__holds *holds,
                                const struct lw__name *name)
{
    const struct lw__names *names = &holds->names;
    size_t bucket = 0;

    if (name != NULL) {
        if (name->next != NULL) {
            return name->next;
        }
        bucket = (name->hash & (names->size - 1)) + 1;
    }
    while (bucket < names->size && names->slots[bucket] == NULL) {
        bucket++;
    }
    return bucket < names->size ? names->slots[bucket] : NULL;
}

bool lw__name_remap(const struct lw__holds *holds, struct lw__name *name)
{
    struct lw__node *node = lw__route_node(holds->route, name->slot);
    bool moved = name->node != node;

    if (moved) {
        name->node = node;
        name->slot_migrating = false;
    }
    return moved;
}

bool lw__name_note_renewal(struct lw__name *name, const char *error)
{
    name->slot_migrating = error != NULL && lw__classify_moving(error);
    return name->slot_migrating;
}

/* ---- references ---- */

void lw__name_ref(struct lw__name *name)
{
    name->references++;
}

struct lw__name *lw__name_get(struct lw__holds *holds, const char *text)
{
    struct lw__names *names = &holds->names;
    size_t length = strlen(text), size;
    uint32_t hash = hash_of(holds, text, length);
    struct lw__name *name = find(holds, text, hash);

    if (name != NULL) {
        lw__name_ref(name);
        return name;
    }
    if (names->count >= PER_BUCKET * names->size) {
        grow(names);
    }
    size = offsetof(struct lw__name, text) + length + 1;
    if (size < sizeof(*name)) {
        size = sizeof(*name); /* which the assignment below writes */
    }
    if (names->size == 0 || (name = malloc(size)) == NULL) {
        return NULL;
    }
    *name = (struct lw__name){
        .hash = hash, .references = 1, .prefix_length = holds->prefix_length};
    name->node = lw__route_find(holds->route, text, &name->slot);
    memcpy(name->text, text, length + 1);
    LL_PREPEND(*bucket_of(names, hash), name);
    names->count++;
    return name;
}

void lw__name_unref(struct lw__holds *holds, struct lw__name *name)
{
    if (--name->references > 0) {
        return;
    }
    if (holds != NULL) {
        LL_DELETE(*bucket_of(&holds->names, name->hash), name);
        holds->names.count--;
    }
    free(name);
}

void lw__name_clear(struct lw__holds *holds)
{
    free(holds->names.slots);
    holds->names = (struct lw__names){0};
    free(holds->contended);
    holds->contended = NULL;
}

/* ---- contended names ---- */

/* Returns NULL if no name has been noted. Two names with one entry replace each other. */
static struct lw__contended *entry_of(const struct lw__holds *holds,
                                      const struct lw__name *name)
{
    return holds->contended != NULL ? &holds->contended[name->hash % LW__CONTENDED_SLOTS]
                                    : NULL;
}

/* Without memory nothing is noted. */
void lw__name_note_contended(struct lw__holds *holds, const struct lw__name *name)
{
    struct lw__contended *entry;

    if (holds->contended == NULL) {
        holds->contended = calloc(LW__CONTENDED_SLOTS, sizeof(*holds->contended));
    }
    entry = entry_of(holds, name);
    if (entry == NULL) {
        return;
    }
    if (entry->hash != name->hash) {
        *entry = (struct lw__contended){.hash = name->hash};
    }
    entry->until_us = lw__now_us() + CONTENDED_US;
}

bool lw__name_is_contended(const struct lw__holds *holds, const struct lw__name *name)
{
    const struct lw__contended *entry = entry_of(holds, name);

    return entry != NULL && entry->hash == name->hash && entry->until_us > lw__now_us();
}

bool lw__name_should_extend_queue(struct lw__holds *holds, const struct lw__name *name)
{
    struct lw__contended *entry = entry_of(holds, name);
    int64_t now = lw__now_us();

    if (entry == NULL || entry->hash != name->hash) {
        return true; /* nothing is known of it */
    }
    if (now - entry->extended_us < EXTEND_US) {
        return false;
    }
    entry->extended_us = now;
    return true;
}
