/* SPDX-License-Identifier: MIT */
/*
 * See told.h. Happy path: character by character, as long as one more has room, also as
 * \xNN; an error begins with its code, and stays as it is.
 */
#include "told.h"

#include <string.h>

/* Bytes of the UTF-8 sequence here; 0: it is none, or of no printable character. The
 * second byte's bounds leave out longer forms than needed, surrogates, what lies beyond
 * Unicode, and the control characters from U+0080 on. */
static size_t sequence(const unsigned char *at)
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

void lw__told(const char *from, char *ret, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = (const unsigned char *)from;
    size_t used = 0;

    if (size == 0) {
        return;
    }
    while (*at != '\0') {
        size_t length = sequence(at);

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

/* What stands behind a prefix; NULL: it is not there. */
static const char *behind(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Behind `user_script:7: `, in any of its forms; NULL: no such place. */
static const char *behind_place(const char *text)
{
    const char *at = behind(*text == '@' ? text + 1 : text, "user_script:");
    size_t digits;

    if (at == NULL) {
        return NULL;
    }
    if (*at == ' ') {
        at++;
    }
    digits = strspn(at, "0123456789");
    return digits > 0 ? behind(at + digits, ": ") : NULL;
}

/* ERR Error running script (call to f_<sha>): @user_script:7: @user_script: 7: -OOM ...
 * @user_script: 7: -OOM ...                    (an error that the script answered itself)
 * An error that is not a command's, but of Lua, has no code there. */
const char *lw__command_error(const char *error)
{
    const char *at = behind(error, "ERR Error running script (call to "), *next;
    size_t code;

    if (at != NULL && (at = strstr(at, "): ")) != NULL) {
        at += strlen("): ");
    } else {
        at = error;
    }
    while ((next = behind_place(at)) != NULL) {
        at = next;
    }
    if (at == error) {
        return error;
    }
    at += *at == '-';
    code = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return code > 0 && (at[code] == ' ' || at[code] == '\0') ? at : error;
}
