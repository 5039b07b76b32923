/* SPDX-License-Identifier: MIT */
/*
 * The heap of due times: order, moves, removal and capacity. Random operations are
 * compared with a plain array that is searched from end to end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/heap.h"
#include "base/random.h"
#include "lockwire.h"

#include <string.h>

#define NODES 300

static void test_an_empty_heap_has_no_first(void **state)
{
    struct lw__heap heap = {0};
    struct lw__heap_node node = {0};

    (void)state;
    assert_null(lw__heap_first(&heap));
    lw__heap_remove(&heap, &node);
    assert_null(lw__heap_first(&heap));
    lw__heap_clear(&heap);
}

static void test_nodes_come_out_in_order(void **state)
{
    static const int64_t keys[] = {5, INT64_MIN, 3, INT64_MAX, 3, 0, -7};
    static const int64_t sorted[] = {INT64_MIN, -7, 0, 3, 3, 5, INT64_MAX};
    struct lw__heap heap = {0};
    struct lw__heap_node nodes[7] = {{0}};

    (void)state;
    assert_int_equal(lw__heap_reserve(&heap, 7), 0);
    for (size_t i = 0; i < 7; i++) {
        lw__heap_set(&heap, &nodes[i], keys[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        const struct lw__heap_entry *first = lw__heap_first(&heap);
        assert_non_null(first);
        assert_true(first->key == sorted[i]);
        struct lw__heap_node *node = first->node;
        lw__heap_remove(&heap, node);
        assert_int_equal(node->slot, 0);
    }
    assert_null(lw__heap_first(&heap));
    lw__heap_clear(&heap);
}

static void test_a_node_moves_both_ways(void **state)
{
    struct lw__heap heap = {0};
    struct lw__heap_node nodes[3] = {{0}};

    (void)state;
    assert_int_equal(lw__heap_reserve(&heap, 3), 0);
    for (int i = 0; i < 3; i++) {
        lw__heap_set(&heap, &nodes[i], i);
    }
    lw__heap_set(&heap, &nodes[0], 10);
    assert_ptr_equal(lw__heap_first(&heap)->node, &nodes[1]);
    lw__heap_set(&heap, &nodes[2], -1);
    assert_ptr_equal(lw__heap_first(&heap)->node, &nodes[2]);
    assert_int_equal(heap.count, 3);
    lw__heap_clear(&heap);
}

static void test_room_is_taken_and_given_back(void **state)
{
    static struct lw__heap_node nodes[1000];
    struct lw__heap heap = {0};

    (void)state;
    memset(nodes, 0, sizeof(nodes));
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(lw__heap_reserve(&heap, 1), 0);
        lw__heap_set(&heap, &nodes[i], (int64_t)(1000 - i));
    }
    assert_true(heap.capacity >= 1000);
    for (size_t i = 0; i < 1000; i++) {
        lw__heap_remove(&heap, &nodes[i]);
        lw__heap_unreserve(&heap, 1);
        assert_true(heap.count <= heap.capacity);
    }
    assert_true(heap.capacity < 200);
    assert_true(lw__heap_reserve(&heap, SIZE_MAX - 5) < 0);
    assert_true(lw__heap_reserve(&heap, SIZE_MAX / 4) < 0);
    assert_int_equal(lw__heap_reserve(&heap, 10), 0);
    lw__heap_clear(&heap);
}

static void test_a_full_heap_takes_no_more(void **state)
{
    static struct lw__heap_node nodes[100];
    struct lw__heap heap = {0};

    (void)state;
    memset(nodes, 0, sizeof(nodes));
    assert_int_equal(lw__heap_reserve(&heap, 1), 0);
    for (size_t i = 0; i < 100; i++) { /* a breach of contract must not corrupt it */
        lw__heap_set(&heap, &nodes[i], 1);
    }
    assert_int_equal(heap.count, heap.capacity);
    lw__heap_clear(&heap);
    lw__heap_remove(&heap, &nodes[0]);
}

static void check(const struct lw__heap *heap, const struct lw__heap_node *nodes,
                  const int64_t *keys, size_t present)
{
    int64_t least = INT64_MAX;
    size_t counted = 0;

    for (size_t i = 0; i < NODES; i++) {
        if (nodes[i].slot != 0) {
            int64_t key = lw__heap_key(heap, &nodes[i]);
            assert_ptr_equal(heap->entries[nodes[i].slot - 1].node, &nodes[i]);
            assert_true(key == keys[i]);
            least = key < least ? key : least;
            counted++;
        }
    }
    assert_int_equal(counted, present);
    assert_int_equal(heap->count, present);
    if (present > 0) {
        assert_true(lw__heap_first(heap)->key == least);
    }
}

static void test_room_beyond_all_memory_is_refused(void **state)
{
    struct lw__heap heap = {0};

    (void)state;
    assert_int_equal(lw__heap_reserve(&heap, 10), 0);
    assert_int_equal(lw__heap_reserve(&heap, SIZE_MAX), LW_ENOMEM);
    assert_int_equal(lw__heap_reserve(&heap, SIZE_MAX / 2), LW_ENOMEM);
    /* its size in bytes does not fit into a size_t, and would wrap around to 16 bytes */
    assert_int_equal(
        lw__heap_reserve(&heap, SIZE_MAX / sizeof(struct lw__heap_entry) + 2), LW_ENOMEM);
    assert_int_equal(lw__heap_reserve(&heap, 6), 0); /* the heap is unchanged */
    lw__heap_clear(&heap);
}

static void test_random_operations_agree_with_a_search(void **state)
{
    struct lw__heap heap = {0};
    struct lw__heap_node nodes[NODES] = {{0}};
    int64_t keys[NODES] = {0};
    struct lw__random random;
    size_t present = 0;

    (void)state;
    lw__random_seed(&random, 1);
    assert_int_equal(lw__heap_reserve(&heap, NODES), 0);
    for (int step = 0; step < 20000; step++) {
        int64_t which = lw__random_between(&random, 0, NODES - 1);
        struct lw__heap_node *node = &nodes[which];
        if (lw__random_between(&random, 0, 2) > 0) {
            present += node->slot == 0 ? 1 : 0;
            keys[which] = lw__random_between(&random, -50, 50);
            lw__heap_set(&heap, node, keys[which]);
        } else {
            present -= node->slot != 0 ? 1 : 0;
            lw__heap_remove(&heap, node);
        }
        check(&heap, nodes, keys, present);
    }
    lw__heap_clear(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_heap_has_no_first),
        cmocka_unit_test(test_nodes_come_out_in_order),
        cmocka_unit_test(test_a_node_moves_both_ways),
        cmocka_unit_test(test_room_is_taken_and_given_back),
        cmocka_unit_test(test_a_full_heap_takes_no_more),
        cmocka_unit_test(test_room_beyond_all_memory_is_refused),
        cmocka_unit_test(test_random_operations_agree_with_a_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
