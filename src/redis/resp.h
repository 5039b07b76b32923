/* SPDX-License-Identifier: MIT */
/* Writes commands in RESP. Independent of their meaning. If an allocation fails, the
 * buffer's `failed` is set. */
#ifndef LW_RESP_H
#define LW_RESP_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct lw__buffer;

#define LW__DIGITS 21 /* of a 64-bit number, with its sign and a NUL */

/* Begins a command of `words` words. */
void lw__resp_command(struct lw__buffer *out, size_t words);
void lw__resp_bytes(struct lw__buffer *out, const char *bytes, size_t length);
static inline void lw__resp_text(struct lw__buffer *out, const char *text)
{
    lw__resp_bytes(out, text, strlen(text)); /* compilers compute a literal's length */
}
void lw__resp_number(struct lw__buffer *out, int64_t number);
/* Adds a word of `length` bytes, which the caller must write at once to the address
 * returned; NULL if an allocation failed. */
char *lw__resp_word(struct lw__buffer *out, size_t length);
/* A word in parts: lw__resp_begin with its whole length, lw__buffer_put for each part,
 * lw__resp_end. */
void lw__resp_begin(struct lw__buffer *out, size_t length);
void lw__resp_end(struct lw__buffer *out);
/* A whole command. */
void lw__resp_words(struct lw__buffer *out, size_t words, const char *const *text);
/* Writes up to LW__DIGITS - 1 decimal digits, without a NUL, so that they end before
 * `end`, and returns the first. With printf they would be a tenth of the cost of an
 * acquire and its release. */
char *lw__resp_digits_before(uint64_t number, char *end);
/* Writes them from `ret` on, and returns how many. */
size_t lw__resp_digits(uint64_t number, char *ret);
#endif
