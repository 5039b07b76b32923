/* SPDX-License-Identifier: MIT */
/* The writer of commands, in RESP. Must not know what they mean. */
#ifndef LW_RESP_H
#define LW_RESP_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct lw__buffer;

#define LW__DIGITS 21 /* of a 64-bit number, its sign and a NUL */

void lw__resp_command(struct lw__buffer *out, size_t words); /* the array's header */
void lw__resp_bytes(struct lw__buffer *out, const char *bytes, size_t length);
static inline void lw__resp_text(struct lw__buffer *out, const char *text)
{
    lw__resp_bytes(out, text, strlen(text)); /* which compilers know of what they see */
}
void lw__resp_number(struct lw__buffer *out, int64_t number);
/* A word of so many bytes, which the caller writes there, at once; NULL: no memory. */
char *lw__resp_word(struct lw__buffer *out, size_t length);
/* A word that is put together: its length here, its parts by lw__buffer_put, its end. */
void lw__resp_begin(struct lw__buffer *out, size_t length);
void lw__resp_end(struct lw__buffer *out);
void lw__resp_words(struct lw__buffer *out, size_t words, const char *const *text);
/* Decimal digits at the end of `room`; printf is a tenth of a pair's cost otherwise. */
const char *lw__resp_digits(uint64_t number, char room[LW__DIGITS], size_t *length);
#endif
