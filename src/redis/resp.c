/* SPDX-License-Identifier: MIT */
/* Writes RESP: see resp.h. */
#include "redis/resp.h"

#include "base/buffer.h"

#define HEADER (1 + LW__DIGITS + 2) /* at most */

/* 00 to 99: two digits at a time take half of the divisions. */
static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

char *lw__resp_digits_before(uint64_t number, char *end)
{
    for (; number >= 100; number /= 100) {
        end -= 2;
        memcpy(end, &pairs[number % 100 * 2], 2);
    }
    if (number >= 10) {
        end -= 2;
        memcpy(end, &pairs[number * 2], 2);
    } else {
        *--end = (char)('0' + number);
    }
    return end;
}

size_t lw__resp_digits(uint64_t number, char *ret)
{
    char room[LW__DIGITS], *end = room + sizeof(room);
    const char *at = lw__resp_digits_before(number, end);

    memcpy(ret, at, (size_t)(end - at));
    return (size_t)(end - at);
}

/* Rare, and so a call: inline it would make every word cost more. */
__attribute__((cold)) static size_t long_digits(size_t number, char *ret)
{
    return lw__resp_digits(number, ret);
}

/* Writes the kind, a number (mostly of one or two digits) and the end of the line. */
static char *write_header(char *at, char kind, size_t number)
{
    *at++ = kind;
    if (number < 10) {
        *at++ = (char)('0' + number);
    } else if (number < 100) {
        memcpy(at, &pairs[number * 2], 2);
        at += 2;
    } else {
        at += long_digits(number, at);
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
    char room[LW__DIGITS], *end = room + sizeof(room), *at;
    char flag[] = "$1\r\n0\r\n";

    if (number >= 0 && number <= 9) { /* most numbers are flags */
        flag[4] = (char)('0' + number);
        lw__buffer_put(out, flag, sizeof(flag) - 1);
        return;
    }
    at =
        lw__resp_digits_before(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, end);
    if (number < 0) {
        *--at = '-';
    }
    lw__resp_bytes(out, at, (size_t)(end - at));
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
