/* SPDX-License-Identifier: MIT */
/*
 * A register that is protected by fencing numbers alone: whoever reads leaves its number,
 * and a write with a smaller number than one that was left is refused. It lies in memory
 * that processes share. Must not know locks.
 *
 * Happy path: value = resource_read(resource, fence), resource_write(resource, fence,
 * value + 1).
 */
#ifndef TEST_RESOURCE_H
#define TEST_RESOURCE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One word, so that whoever is killed or stopped within a call leaves it whole. */
struct resource {
    _Atomic uint64_t word; /* the largest number yet, since `origin`; and the value */
    uint64_t origin;
};

/* Numbers up to `origin` count as one, the smallest of all; 12 days of microseconds
 * beyond it can be told apart. */
void resource_start(struct resource *resource, uint64_t origin);
uint32_t resource_read(struct resource *resource, uint64_t fence);
bool resource_write(struct resource *resource, uint64_t fence, uint32_t value);

#endif
