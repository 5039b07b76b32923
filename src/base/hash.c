/* SPDX-License-Identifier: MIT */
/* SipHash-1-3 (Aumasson and Bernstein, 2012; one round for each word, three at the end).
 * None of the libraries that lockwire depends on offers a keyed hash. */
#include "base/hash.h"

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

/* The bytes of the text as a little-endian number; compilers make this a single load. */
static uint64_t read_word(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;

    return (uint64_t)byte[0] | (uint64_t)byte[1] << 8 | (uint64_t)byte[2] << 16 |
           (uint64_t)byte[3] << 24 | (uint64_t)byte[4] << 32 | (uint64_t)byte[5] << 40 |
           (uint64_t)byte[6] << 48 | (uint64_t)byte[7] << 56;
}

uint64_t lw__hash(const struct lw__hash_key *key, const char *text, size_t length)
{
    uint64_t v[4] = {
        key->half[0] ^ UINT64_C(0x736f6d6570736575),
        key->half[1] ^ UINT64_C(0x646f72616e646f6d),
        key->half[0] ^ UINT64_C(0x6c7967656e657261),
        key->half[1] ^ UINT64_C(0x7465646279746573),
    };
    uint64_t last = (uint64_t)length << 56;

    for (; length >= sizeof(last); text += sizeof(last), length -= sizeof(last)) {
        add_word(v, read_word(text));
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
