/* SPDX-License-Identifier: MIT */
/* Escapes foreign text: see escape.h. It copies character by character, plain or as \xNN,
 * until the next one does not fit. */
#include "base/escape.h"

#include <string.h>

/* The bounds of the second byte exclude overlong forms, surrogates, values beyond
 * Unicode, and the control characters from U+0080 on. */
size_t lw__escape_character(const char *text)
{
    static const struct {
        unsigned char first, last, low, high, length;
    } forms[] = {
        {0x20, 0x7e, 0x00, 0xff, 1}, {0xc2, 0xc2, 0xa0, 0xbf, 2},
        {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *at = (const unsigned char *)text;
    size_t form = 0, length = 1;

    while (form < sizeof(forms) / sizeof(*forms) &&
           (*at < forms[form].first || *at > forms[form].last)) {
        form++;
    }
    if (form == sizeof(forms) / sizeof(*forms) || at[1] < forms[form].low ||
        at[1] > forms[form].high) {
        return 0;
    }
    while (length < forms[form].length) {
        if ((at[length++] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return length;
}

void lw__escape(const char *from, char *ret, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)from;
    size_t used = 0;

    if (size == 0) {
        return;
    }
    while (*at != '\0') {
        size_t length = lw__escape_character((const char *)at);

        if (used + (length > 0 ? length : 4) >= size) {
            break;
        }
        if (length > 0) {
            memcpy(ret + used, at, length);
            used += length;
            at += length;
        } else {
            memcpy(ret + used, "\\x", 2);
            ret[used + 2] = digits[*at >> 4];
            ret[used + 3] = digits[*at & 15];
            used += 4;
            at++;
        }
    }
    ret[used] = '\0';
}
