/* SPDX-License-Identifier: MIT */
/* Randomness: see random.h. On a system without randomness no client can be created.
 * libuuid formats the UUID but does not generate it, because its generator reseeds that
 * of the process (srandom), which belongs to the host. */
#include "base/random.h"

#include <unistd.h>
#include <uuid/uuid.h>

bool lw__random_bytes(void *ret, size_t size)
{
    return getentropy(ret, size) == 0;
}

bool lw__random_uuid(char ret[LW__UUID_SIZE])
{
    uuid_t uuid;

    if (!lw__random_bytes(uuid, sizeof(uuid))) {
        return false;
    }
    uuid[6] = (unsigned char)(0x40 | (uuid[6] & 0x0f)); /* version 4: random */
    uuid[8] = (unsigned char)(0x80 | (uuid[8] & 0x3f)); /* RFC 9562's variant */
    uuid_unparse_lower(uuid, ret);
    return true;
}

void lw__random_seed(struct lw__random *random, uint64_t seed)
{
    /* The state must not be 0. */
    random->state = seed != 0 ? seed : UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t next(struct lw__random *random)
{
    uint64_t x = random->state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t lw__random_between(struct lw__random *random, int64_t low, int64_t high)
{
    uint64_t span;

    if (high <= low) {
        return low;
    }
    span = (uint64_t)high - (uint64_t)low + 1;
    if (span == 0) {
        return (int64_t)next(random); /* the whole range */
    }
    return (int64_t)((uint64_t)low + next(random) % span);
}
