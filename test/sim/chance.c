/* SPDX-License-Identifier: MIT
 *
 * The library's own chance, taken from the seed: the linker puts the first in place of the
 * library's (--wrap), the second in place of libuuid's. Nothing else.
 */
#include "world.h"

#include "base.h"

#include <uuid/uuid.h>

void __wrap_lw__random_seed(struct lw__random *random, uint64_t seed);

void __wrap_lw__random_seed(struct lw__random *random, uint64_t seed)
{
    (void)seed;
    random->state = rng_next(&world.rng) | 1;
}

void uuid_generate_random(uuid_t ret)
{
    for (size_t i = 0; i < sizeof(uuid_t); i++)
        ret[i] = (unsigned char)rng_next(&world.rng);
}
