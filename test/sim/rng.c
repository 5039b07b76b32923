/* SPDX-License-Identifier: MIT
 *
 * Random numbers by splitmix64; see rng.h.
 */
#include "rng.h"

void rng_seed(struct rng *rng, uint64_t seed)
{
    rng->state = seed;
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t mixed = rng->state += 0x9e3779b97f4a7c15;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    return rng_next(rng) % limit;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)rng_below(rng, (uint64_t)(high - low) + 1);
}

bool rng_chance(struct rng *rng, unsigned in_thousand)
{
    return rng_below(rng, 1000) < in_thousand;
}
