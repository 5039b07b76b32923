/* SPDX-License-Identifier: MIT
 *
 * SHA-1 as in FIPS 180-4; see sha1.h.
 */
#include "sha1.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t value, int by)
{
    return value << by | value >> (32 - by);
}

static void expand(const unsigned char *block, uint32_t words[80])
{
    for (int i = 0; i < 16; i++) {
        words[i] = (uint32_t)block[i * 4] << 24 | (uint32_t)block[i * 4 + 1] << 16 |
                   (uint32_t)block[i * 4 + 2] << 8 | block[i * 4 + 3];
    }
    for (int i = 16; i < 80; i++) {
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    }
}

static uint32_t round_value(int round, uint32_t b, uint32_t c, uint32_t d)
{
    if (round < 20) {
        return ((b & c) | (~b & d)) + 0x5a827999;
    }
    if (round < 40) {
        return (b ^ c ^ d) + 0x6ed9eba1;
    }
    if (round < 60) {
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    }
    return (b ^ c ^ d) + 0xca62c1d6;
}

static void mix(uint32_t state[5], const unsigned char *block)
{
    uint32_t words[80];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

    expand(block, words);
    for (int i = 0; i < 80; i++) {
        uint32_t next = rotate(a, 5) + round_value(i, b, c, d) + e + words[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_hex(const void *data, size_t len, char out[SHA1_HEX_SIZE])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *at = data;
    unsigned char tail[128] = {0};
    size_t rest = len % 64;
    size_t tail_size = rest < 56 ? 64 : 128;
    uint64_t bits = (uint64_t)len * 8;

    for (size_t i = 0; i + 64 <= len; i += 64) {
        mix(state, at + i);
    }
    if (rest) {
        memcpy(tail, at + len - rest, rest);
    }
    tail[rest] = 0x80;
    for (int i = 0; i < 8; i++) {
        tail[tail_size - 1 - (size_t)i] = (unsigned char)(bits >> (8 * i));
    }
    for (size_t i = 0; i < tail_size; i += 64) {
        mix(state, tail + i);
    }
    for (int i = 0; i < 5; i++) {
        (void)snprintf(out + i * 8, 9, "%08x", (unsigned)state[i]);
    }
}
