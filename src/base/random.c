/* SPDX-License-Identifier: MIT */
/* Randomness: see random.h. On a system without randomness no client can be created.
 * libuuid formats the UUID but does not generate it, because its generator reseeds that
 * of the process (srandom), which belongs to the host. */
#include "base/random.h"

#include <sys/random.h>
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

int64_t lw__random_wide(struct lw__random *random, int64_t low, uint64_t span)
{
    uint64_t drawn = lw__random_next(random);

    return (int64_t)((uint64_t)low + (span != 0 ? drawn % span : drawn));
}
