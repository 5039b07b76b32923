/* SPDX-License-Identifier: MIT */
/* Bytes that grow. libc only. */
#ifndef LW_BUFFER_H
#define LW_BUFFER_H
#include <stdbool.h>
#include <stddef.h>

/* An allocation that failed sticks, and makes all later puts void. */
struct lw__buffer {
    char *data;
    size_t length, capacity;
    bool failed;
};
/* Room for so many bytes more, at the buffer's end; NULL: an allocation failed. */
char *lw__buffer_reserve(struct lw__buffer *buffer, size_t length);
void lw__buffer_put(struct lw__buffer *buffer, const char *bytes, size_t length);
/* Empty, with what it has of memory. */
void lw__buffer_reset(struct lw__buffer *buffer);
void lw__buffer_clear(struct lw__buffer *buffer);
#endif
