/* SPDX-License-Identifier: MIT
 *
 * The library's own chance, taken from the seed: the linker puts the first in place of
 * the library's, the second in place of libc's (--wrap). Nothing else.
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
