/* SPDX-License-Identifier: MIT */
/* Slots: see slot.h. Independent of which node has a slot. A key's slot is the lower 14
 * bits of the CRC16/XMODEM of its tag, or of the whole key. This cannot fail, since any
 * bytes are a valid key. */
#include "redis/slot.h"

#include "slot_tags.h"

#include <string.h>

#define LONGEST (LW__SLOT_TAG_SIZE - 1)

_Static_assert(sizeof(tags) / sizeof(*tags) == LW__SLOTS, "a tag for each slot");
_Static_assert(sizeof(*tags) == LONGEST, "the shorter ones end in a NUL");

/* The polynomial is x^16 + x^12 + x^5 + 1. The remainder of a byte is computed by
 * shifting all of its bits at once. A table would take memory and save little time, since
 * the slot of a name is computed once. */
static unsigned crc16(const unsigned char *bytes, size_t length)
{
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        unsigned byte = crc >> 8 ^ bytes[i];

        byte ^= byte >> 4;
        crc = (crc << 8 ^ byte << 12 ^ byte << 5 ^ byte) & 0xffff;
    }
    return crc;
}

unsigned lw__slot_of(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length), *close = NULL;

    if (open != NULL) {
        close = memchr(open + 1, '}', (size_t)(key + length - open - 1));
    }
    if (close != NULL && close > open + 1) {
        key = open + 1;
        length = (size_t)(close - key);
    }
    return crc16((const unsigned char *)key, length) % LW__SLOTS;
}

size_t lw__slot_tag(unsigned slot, char ret[LW__SLOT_TAG_SIZE])
{
    memcpy(ret, tags[slot], LONGEST);
    ret[LONGEST] = '\0';
    return strlen(ret);
}
