/* SPDX-License-Identifier: MIT */
/*
 * A register that fencing tokens alone protect: each read stores the reader's token, and
 * a write with a smaller token than the stored one is refused. It lies in memory that
 * processes share. Independent of locks.
 *
 * Usual course: value = resource_read(resource, fence), resource_write(resource, fence,
 * value + 1).
 */
#ifndef TEST_RESOURCE_H
#define TEST_RESOURCE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One word, which stays consistent if a process is killed or stopped within a call. */
struct resource {
    _Atomic uint64_t word; /* the largest token so far, less `origin`; and the value */
    uint64_t origin;
};

/* Initializes the register. Tokens up to `origin` count as one, the smallest of all; 12
 * days of microseconds beyond it can be distinguished. */
void resource_start(struct resource *resource, uint64_t origin);
uint32_t resource_read(struct resource *resource, uint64_t fence);
bool resource_write(struct resource *resource, uint64_t fence, uint32_t value);

#endif
