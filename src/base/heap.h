/* SPDX-License-Identifier: MIT */
/* A min-heap of nodes that are embedded in their owners, ordered by a 64-bit key; nodes
 * with equal keys are in no particular order. Room is reserved in advance, so that adding
 * a node cannot fail. Depends on libc alone. */
#ifndef LW_HEAP_H
#define LW_HEAP_H
#include <stddef.h>
#include <stdint.h>

struct lw__heap_node {
    uint32_t slot; /* position + 1 in the heap; 0: not in it */
};

struct lw__heap_entry {
    int64_t key; /* not in the node, so that comparing touches no node's memory */
    struct lw__heap_node *node;
};

struct lw__heap {
    struct lw__heap_entry *entries;
    size_t count, capacity, reserved;
};

/* Returns 0, or LW_ENOMEM. */
int lw__heap_reserve(struct lw__heap *heap, size_t count);
void lw__heap_unreserve(struct lw__heap *heap, size_t count);
void lw__heap_clear(struct lw__heap *heap); /* frees the array, not the nodes */
/* Adds the node, or moves it to its new key. */
void lw__heap_set(struct lw__heap *heap, struct lw__heap_node *node, int64_t key);
/* Removes the node, if it is in the heap. */
void lw__heap_remove(struct lw__heap *heap, struct lw__heap_node *node);
static inline int64_t lw__heap_key(const struct lw__heap *heap,
                                   const struct lw__heap_node *node)
{
    return heap->entries[node->slot - 1].key;
}
/* Returns the entry with the least key, or NULL. Inline: every callback needs it. */
static inline const struct lw__heap_entry *lw__heap_first(const struct lw__heap *heap)
{
    return heap->count > 0 ? &heap->entries[0] : NULL;
}
#endif
