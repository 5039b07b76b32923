/* SPDX-License-Identifier: MIT */
/* Writes RESP: see resp.h. */
#include "redis/resp.h"

#include "base/buffer.h"

#define HEADER (1 + LW__DIGITS + 2) /* at most */

const char *lw__resp_digits(uint64_t number, char room[LW__DIGITS], size_t *length)
{
    char *at = &room[LW__DIGITS - 1];

    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    *length = (size_t)(&room[LW__DIGITS - 1] - at);
    return at;
}

/* Writes the kind, a number (mostly of one or two digits) and the end of the line. */
static char *write_header(char *at, char kind, size_t number)
{
    *at++ = kind;
    if (number >= 100) {
        char room[LW__DIGITS];
        size_t length;
        const char *text = lw__resp_digits(number, room, &length);

        memcpy(at, text, length);
        at += length;
    } else {
        if (number >= 10) {
            *at++ = (char)('0' + number / 10);
        }
        *at++ = (char)('0' + number % 10);
    }
    memcpy(at, "\r\n", 2);
    return at + 2;
}

static void put_header(struct lw__buffer *out, char kind, size_t number)
{
    char *at = lw__buffer_reserve(out, HEADER);

    if (at != NULL) {
        out->length = (size_t)(write_header(at, kind, number) - out->data);
    }
}

char *lw__resp_word(struct lw__buffer *out, size_t length)
{
    char *at = lw__buffer_reserve(out, HEADER + length + 2);

    if (at != NULL) {
        at = write_header(at, '$', length);
        memcpy(at + length, "\r\n", 2);
        out->length = (size_t)(at + length + 2 - out->data);
    }
    return at;
}

void lw__resp_bytes(struct lw__buffer *out, const char *bytes, size_t length)
{
    char *at = lw__resp_word(out, length);

    if (at != NULL) {
        memcpy(at, bytes, length);
    }
}

void lw__resp_command(struct lw__buffer *out, size_t words)
{
    put_header(out, '*', words);
}

void lw__resp_number(struct lw__buffer *out, int64_t number)
{
    char room[LW__DIGITS], text[LW__DIGITS + 1];
    size_t length;
    const char *decimal;

    if (number >= 0 && number <= 9) { /* most numbers are flags */
        memcpy(text, "$1\r\n0\r\n", 7);
        text[4] = (char)('0' + number);
        lw__buffer_put(out, text, 7);
        return;
    }
    if (number >= 0) {
        decimal = lw__resp_digits((uint64_t)number, room, &length);
        lw__resp_bytes(out, decimal, length);
        return;
    }
    decimal = lw__resp_digits(0 - (uint64_t)number, room, &length);
    text[0] = '-';
    memcpy(text + 1, decimal, length);
    lw__resp_bytes(out, text, length + 1);
}

void lw__resp_begin(struct lw__buffer *out, size_t length)
{
    put_header(out, '$', length);
}

void lw__resp_end(struct lw__buffer *out)
{
    lw__buffer_put(out, "\r\n", 2);
}

void lw__resp_words(struct lw__buffer *out, size_t words, const char *const *text)
{
    lw__resp_command(out, words);
    for (size_t i = 0; i < words; i++) {
        lw__resp_text(out, text[i]);
    }
}
