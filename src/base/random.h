/* SPDX-License-Identifier: MIT */
/* Random bytes for identities, and a small generator for jitter. */
#ifndef LW_RANDOM_H
#define LW_RANDOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills up to 256 bytes with randomness of the system (getrandom(2) on Linux), without
 * touching the host's generators. Returns false if the system has none. */
bool lw__random_bytes(void *ret, size_t size);
/* Writes a random UUID as 36 characters and a NUL. Returns false as above. */
#define LW__UUID_SIZE 37
bool lw__random_uuid(char ret[LW__UUID_SIZE]);
/* A seeded generator (xorshift64*, Vigna 2014), for jitter only, never for identities. */
struct lw__random {
    uint64_t state;
};
void lw__random_seed(struct lw__random *random, uint64_t seed);
static inline uint64_t lw__random_next(struct lw__random *random)
{
    uint64_t x = random->state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}
/* Returns a number from `low` on, out of `span`; 0: out of all numbers. */
int64_t lw__random_wide(struct lw__random *random, int64_t low, uint64_t span);
/* Returns a number in [low, high]. Inline, and mostly without a division: each
 * acquisition and each release need one. */
static inline int64_t lw__random_between(struct lw__random *random, int64_t low,
                                         int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1; /* 0: the whole range */

    if (high <= low) {
        return low;
    }
    if (span - 1 >= UINT32_MAX) {
        return lw__random_wide(random, low, span);
    }
    return low + (int64_t)((lw__random_next(random) >> 32) * span >> 32);
}
#endif
