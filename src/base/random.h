/* SPDX-License-Identifier: MIT */
/* Identity, and jitter. */
#ifndef LW_RANDOM_H
#define LW_RANDOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Up to 256 bytes of the system's randomness (getrandom(2), where there is Linux); the
 * host's own generators are left alone. false: the system has none to give. */
bool lw__random_bytes(void *ret, size_t size);
/* A random UUID as 36 characters of text and a NUL. false: see above. */
#define LW__UUID_SIZE 37
bool lw__random_uuid(char ret[LW__UUID_SIZE]);
/* Small and seeded (xorshift64*, Vigna 2014), for jitter only, never for identity. */
struct lw__random {
    uint64_t state;
};
void lw__random_seed(struct lw__random *random, uint64_t seed);
/* A number in [low, high]. */
int64_t lw__random_between(struct lw__random *random, int64_t low, int64_t high);
#endif
