/* SPDX-License-Identifier: MIT */
/* SipHash-1-3, and uthash's tables by it: remote users choose names, so what is found by
 * them is hashed with the client's key. */
#ifndef LW_HASH_H
#define LW_HASH_H
#include <stddef.h>
#include <stdint.h>
#define HASH_NONFATAL_OOM 1 /* else uthash ends the process when memory is out */
#include <uthash.h>
#undef HASH_FUNCTION
#define HASH_FUNCTION(text, length, hash)                                                \
    _Static_assert(0, "lw__hash() and the macros _BYHASHVALUE are to be used")

/* Who does not know the key cannot choose texts that collide. */
struct lw__hash_key {
    uint64_t half[2];
};
uint64_t lw__hash(const struct lw__hash_key *key, const char *text, size_t length);
#endif
