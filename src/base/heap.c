/* SPDX-License-Identifier: MIT */
/* The heap of the timers. A node has four children and the keys are next to the pointers,
 * because few of many thousand timers are in the cache. The heap owns its array,
 * never the nodes. Only lw__heap_reserve can fail, and then it has changed nothing. */
#include "base/heap.h"

#include "lockwire.h"

#include <stdlib.h>

#define CHILDREN 4 /* of one node: side by side in a cache line */
/* The number of entries that `slot` can count, in an array whose size can be doubled. */
#define MOST                                                                             \
    (SIZE_MAX / 2 / sizeof(struct lw__heap_entry) < UINT32_MAX                           \
         ? SIZE_MAX / 2 / sizeof(struct lw__heap_entry)                                  \
         : UINT32_MAX)

static void place(struct lw__heap *heap, size_t index, struct lw__heap_entry entry)
{
    heap->entries[index] = entry;
    entry.node->slot = (uint32_t)index + 1;
}

/* Moves the hole at `index` towards the root until `entry` fits in. */
static void sift_up(struct lw__heap *heap, size_t index, struct lw__heap_entry entry)
{
    while (index > 0) {
        size_t parent = (index - 1) / CHILDREN;
        if (heap->entries[parent].key <= entry.key) {
            break;
        }
        place(heap, index, heap->entries[parent]);
        index = parent;
    }
    place(heap, index, entry);
}

static size_t least_child(const struct lw__heap *heap, size_t index)
{
    size_t least = CHILDREN * index + 1, end = least + CHILDREN;

    for (size_t child = least + 1; child < end && child < heap->count; child++) {
        if (heap->entries[child].key < heap->entries[least].key) {
            least = child;
        }
    }
    return least;
}

static void sift_down(struct lw__heap *heap, size_t index, struct lw__heap_entry entry)
{
    while (CHILDREN * index + 1 < heap->count) {
        size_t child = least_child(heap, index);
        if (entry.key <= heap->entries[child].key) {
            break;
        }
        place(heap, index, heap->entries[child]);
        index = child;
    }
    place(heap, index, entry);
}

static void settle(struct lw__heap *heap, size_t index, struct lw__heap_entry entry)
{
    if (index > 0 && entry.key < heap->entries[(index - 1) / CHILDREN].key) {
        sift_up(heap, index, entry);
    } else {
        sift_down(heap, index, entry);
    }
}

static int resize(struct lw__heap *heap, size_t capacity)
{
    struct lw__heap_entry *entries;

    if (capacity >= MOST) {
        return LW_ENOMEM;
    }
    entries = realloc(heap->entries, capacity * sizeof(*entries));
    if (entries == NULL) {
        return LW_ENOMEM;
    }
    heap->entries = entries;
    heap->capacity = capacity;
    return 0;
}

int lw__heap_reserve(struct lw__heap *heap, size_t count)
{
    size_t wanted = heap->reserved + count;

    if (wanted < count) {
        return LW_ENOMEM;
    }
    if (wanted > heap->capacity) {
        size_t doubled = heap->capacity < 8 ? 16 : heap->capacity * 2;
        int status = resize(heap, doubled > wanted ? doubled : wanted);
        if (status < 0) {
            return status;
        }
    }
    heap->reserved = wanted;
    return 0;
}

void lw__heap_unreserve(struct lw__heap *heap, size_t count)
{
    heap->reserved = count < heap->reserved ? heap->reserved - count : 0;
    /* Below a quarter, so that a varying load does not resize at every step. */
    if (heap->capacity > 64 && heap->reserved < heap->capacity / 4 &&
        heap->count <= heap->capacity / 2) {
        (void)resize(heap, heap->capacity / 2); /* on failure the array keeps its size */
    }
}

void lw__heap_clear(struct lw__heap *heap)
{
    free(heap->entries);
    *heap = (struct lw__heap){NULL, 0, 0, 0};
}

void lw__heap_set(struct lw__heap *heap, struct lw__heap_node *node, int64_t key)
{
    struct lw__heap_entry entry = {key, node};

    if (node->slot != 0) {
        settle(heap, node->slot - 1, entry);
    } else if (heap->count < heap->capacity) {
        heap->count++;
        sift_up(heap, heap->count - 1, entry);
    }
}

void lw__heap_remove(struct lw__heap *heap, struct lw__heap_node *node)
{
    size_t index = (size_t)node->slot - 1;
    struct lw__heap_entry last;

    if (node->slot == 0 || node->slot > heap->count) { /* or the heap was cleared */
        node->slot = 0;
        return;
    }
    node->slot = 0;
    heap->count--;
    last = heap->entries[heap->count];
    if (last.node != node) {
        settle(heap, index, last);
    }
}
