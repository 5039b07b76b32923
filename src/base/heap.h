/* SPDX-License-Identifier: MIT */
/* A min-heap of nodes embedded in their owners, by a 64-bit key; equal keys in no
 * particular order. Room is reserved beforehand, so that adding never fails. libc
 * only. */
#ifndef LW_HEAP_H
#define LW_HEAP_H
#include <stddef.h>
#include <stdint.h>

struct lw__heap_node {
    uint32_t slot; /* position + 1 in the heap; 0: not in it */
};

struct lw__heap_entry {
    int64_t key; /* here and not in the node: no compare touches a node's memory */
    struct lw__heap_node *node;
};

struct lw__heap {
    struct lw__heap_entry *entries;
    size_t count, capacity, reserved;
};

int lw__heap_reserve(struct lw__heap *heap, size_t count); /* 0, LW_ENOMEM */
void lw__heap_unreserve(struct lw__heap *heap, size_t count);
void lw__heap_clear(struct lw__heap *heap); /* frees what the heap itself allocated */
/* Puts the node in, or moves it to its new key. */
void lw__heap_set(struct lw__heap *heap, struct lw__heap_node *node, int64_t key);
/* Or it is absent. */
void lw__heap_remove(struct lw__heap *heap, struct lw__heap_node *node);
int64_t lw__heap_key(const struct lw__heap *heap, const struct lw__heap_node *node);
/* NULL: empty. Here, since it is asked before each callback. */
static inline const struct lw__heap_entry *lw__heap_first(const struct lw__heap *heap)
{
    return heap->count > 0 ? &heap->entries[0] : NULL;
}
#endif
