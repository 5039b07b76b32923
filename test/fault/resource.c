/* SPDX-License-Identifier: MIT */
/* resource.h's register. Each access is one exchange of the word. */
#include "resource.h"

#include <stdlib.h>

#define VALUE_BITS 24
#define NUMBER_BITS (64 - VALUE_BITS)

static uint64_t number_of(const struct resource *resource, uint64_t fence)
{
    uint64_t number = fence > resource->origin ? fence - resource->origin : 0;

    if (number >> NUMBER_BITS) {
        abort();
    }
    return number;
}

static uint64_t word_of(uint64_t number, uint32_t value)
{
    if (value >> VALUE_BITS) {
        abort();
    }
    return number << VALUE_BITS | value;
}

static uint64_t largest(uint64_t word)
{
    return word >> VALUE_BITS;
}

static uint32_t value_of(uint64_t word)
{
    return word & ((UINT32_C(1) << VALUE_BITS) - 1);
}

void resource_start(struct resource *resource, uint64_t origin)
{
    resource->origin = origin;
    atomic_store(&resource->word, 0);
}

uint32_t resource_read(struct resource *resource, uint64_t fence)
{
    uint64_t number = number_of(resource, fence);
    uint64_t word = atomic_load(&resource->word);

    while (largest(word) < number &&
           !atomic_compare_exchange_weak(&resource->word, &word,
                                         word_of(number, value_of(word)))) {
        ; /* another process was faster: `word` is its result */
    }
    return value_of(word);
}

bool resource_write(struct resource *resource, uint64_t fence, uint32_t value)
{
    uint64_t number = number_of(resource, fence);
    uint64_t word = atomic_load(&resource->word);

    while (largest(word) <= number) {
        if (atomic_compare_exchange_weak(&resource->word, &word,
                                         word_of(number, value))) {
            return true;
        }
    }
    return false;
}
