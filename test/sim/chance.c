/* SPDX-License-Identifier: MIT
 *
 * Draws the library's own randomness from the world's seed. The linker puts the first
 * function in place of the library's, the second one in place of libc's (--wrap).
 */
#include "world.h"

#include "base/random.h"

void __wrap_lw__random_seed(struct lw__random *random, uint64_t seed);
int __wrap_getentropy(void *ret, size_t size);

void __wrap_lw__random_seed(struct lw__random *random, uint64_t seed)
{
    (void)seed;
    random->state = rng_next(&world.rng) | 1;
}

int __wrap_getentropy(void *ret, size_t size)
{
    unsigned char *bytes = ret;

    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)rng_next(&world.rng);
    }
    return 0;
}
