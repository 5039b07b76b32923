/* SPDX-License-Identifier: MIT
 *
 * The only source of randomness. A seed gives the same numbers on every machine.
 *
 * Usual course: rng_seed() once, then rng_below() and rng_chance() in a fixed order.
 */
#ifndef LW_SIM_RNG_H
#define LW_SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); /* 0 .. limit - 1; limit above 0 */
int64_t rng_between(struct rng *rng, int64_t low, int64_t high); /* both included */
bool rng_chance(struct rng *rng, unsigned in_thousand);

#endif
