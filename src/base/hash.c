/* SPDX-License-Identifier: MIT */
/* SipHash-1-3 (Aumasson and Bernstein, 2012; one round for each word, three at the end).
 * None of the libraries that lockwire depends on offers a keyed hash. */
#include "base/hash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void add_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint64_t lw__hash(const struct lw__hash_key *key, const char *text, size_t length)
{
    uint64_t v[4] = {
        key->half[0] ^ UINT64_C(0x736f6d6570736575),
        key->half[1] ^ UINT64_C(0x646f72616e646f6d),
        key->half[0] ^ UINT64_C(0x6c7967656e657261),
        key->half[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t word, last = (uint64_t)length << 56;

    for (; length >= sizeof(word); text += sizeof(word), length -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        add_word(v, le64toh(word));
    }
    for (size_t i = 0; i < length; i++) {
        last |= (uint64_t)(unsigned char)text[i] << (8 * i);
    }
    add_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) {
        mix(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
