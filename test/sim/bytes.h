/* SPDX-License-Identifier: MIT
 *
 * Byte strings of the model server: borrowed views, growing buffers, and the strict
 * numbers that Redis parses from them. Independent of keys, commands and connections.
 *
 * Usual course: a parser cuts `struct bytes` out of a buffer; a command parses numbers
 * from them and appends its reply to another buffer. If memory runs out, the process
 * ends: this is a test.
 */
#ifndef LW_SIM_BYTES_H
#define LW_SIM_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view of bytes that belong to another object. */
struct bytes {
    const char *data;
    size_t len;
};

/* Empty if zero-initialized. `data` is not NUL-terminated. */
struct buffer {
    char *data;
    size_t len;
    size_t capacity;
};

void *must_alloc(size_t size); /* zeroed */
void *must_realloc(void *old, size_t size);

struct bytes bytes_of(const char *text);
struct bytes bytes_copy(struct bytes source); /* owned: free((char *)copy.data) */
bool bytes_equal(struct bytes a, struct bytes b);
int bytes_compare(struct bytes a, struct bytes b); /* as memcmp, the shorter first */
bool bytes_is(struct bytes a, const char *word);   /* without regard to case */

/* Parses the decimal integers that Redis accepts: no blanks, no plus, no leading zero. */
bool bytes_to_int(struct bytes text, int64_t *ret);
bool bytes_to_double(struct bytes text, double *ret); /* no NaN */

void buffer_append(struct buffer *buffer, const void *data, size_t len);
void buffer_text(struct buffer *buffer, const char *text);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void buffer_consume(struct buffer *buffer, size_t len); /* from the front */
void buffer_set(struct buffer *buffer, struct bytes content);
struct bytes buffer_view(const struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* keeps the memory */
void buffer_free(struct buffer *buffer);

#endif
