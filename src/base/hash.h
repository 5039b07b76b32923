/* SPDX-License-Identifier: MIT */
/* SipHash-1-3, and uthash's tables with it. Remote users choose names, so tables of names
 * are hashed with a key of the client's. */
#ifndef LW_HASH_H
#define LW_HASH_H
#include <stddef.h>
#include <stdint.h>
#define HASH_NONFATAL_OOM 1 /* otherwise uthash exits without memory */
#include <uthash.h>
#undef HASH_FUNCTION
#define HASH_FUNCTION(text, length, hash)                                                \
    _Static_assert(0, "use lw__hash() and the macros _BYHASHVALUE")

/* Texts that collide cannot be chosen without knowing the key. */
struct lw__hash_key {
    uint64_t half[2];
};
uint64_t lw__hash(const struct lw__hash_key *key, const char *text, size_t length);
#endif
