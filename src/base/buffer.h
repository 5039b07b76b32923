/* SPDX-License-Identifier: MIT */
/* Bytes that grow. libc only. */
#ifndef LW_BUFFER_H
#define LW_BUFFER_H
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* An allocation that failed sticks, and makes all later puts void. */
struct lw__buffer {
    char *data;
    size_t length, capacity;
    bool failed;
};
/* Room for so many bytes more, at the buffer's end; NULL: an allocation failed. Here, and
 * not in buffer.c, since each word of a command asks for it, and mostly there is room. */
char *lw__buffer_grow(struct lw__buffer *buffer, size_t length);
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
/* Empty, with what it has of memory. */
void lw__buffer_reset(struct lw__buffer *buffer);
/* What it has is a secret, and shall not stay in memory. */
void lw__buffer_wipe(struct lw__buffer *buffer);
void lw__buffer_clear(struct lw__buffer *buffer);
#endif
