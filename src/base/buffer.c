/* SPDX-License-Identifier: MIT */
/*
 * A byte buffer: see buffer.h. Happy path: there is room from the last time. Where there
 * is no memory it says so from then on, until it is reset.
 */
#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

static char *grow(struct lw__buffer *buffer, size_t length)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 512;
    char *data;

    while (capacity - buffer->length < length) {
        capacity *= 2;
    }
    data = realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->failed = true;
        return NULL;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return data + buffer->length;
}

char *lw__buffer_reserve(struct lw__buffer *buffer, size_t length)
{
    if (buffer->failed) {
        return NULL;
    }
    if (buffer->capacity - buffer->length >= length) {
        return buffer->data + buffer->length;
    }
    return grow(buffer, length);
}

void lw__buffer_put(struct lw__buffer *buffer, const char *bytes, size_t length)
{
    char *at = lw__buffer_reserve(buffer, length);

    if (at != NULL) {
        memcpy(at, bytes, length);
        buffer->length += length;
    }
}

void lw__buffer_reset(struct lw__buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
}

void lw__buffer_clear(struct lw__buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct lw__buffer){0};
}
