/* SPDX-License-Identifier: MIT */
/* A growing array of bytes. Depends on libc alone. */
#ifndef LW_BUFFER_H
#define LW_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* After a failed allocation `failed` stays set, and later puts have no effect. */
struct lw__buffer {
    char *data;
    size_t length, capacity;
    bool failed;
};
/* Returns room for `length` more bytes at the end of the buffer, or NULL if an allocation
 * failed. Inline, since each word of a command needs it, and mostly there is room. */
__attribute__((cold)) char *lw__buffer_grow(struct lw__buffer *buffer, size_t length);
static inline char *lw__buffer_reserve(struct lw__buffer *buffer, size_t length)
{
    return buffer->capacity - buffer->length >= length ? buffer->data + buffer->length
                                                       : lw__buffer_grow(buffer, length);
}
static inline void lw__buffer_put(struct lw__buffer *buffer, const char *bytes,
                                  size_t length)
{
    char *at = lw__buffer_reserve(buffer, length);

    if (at != NULL) {
        memcpy(at, bytes, length);
        buffer->length += length;
    }
}
/* Empties the buffer and keeps its memory. */
void lw__buffer_reset(struct lw__buffer *buffer);
/* Overwrites the content, which is secret, with zeros. */
void lw__buffer_wipe(struct lw__buffer *buffer);
/* Frees the memory. */
void lw__buffer_clear(struct lw__buffer *buffer);
#endif
