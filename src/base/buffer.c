/* SPDX-License-Identifier: MIT */
/* A growing array of bytes: see buffer.h. Usually it has room from its last use. After a
 * failed allocation it has none until it is reset. */
#include "base/buffer.h"

#include "base/wipe.h"

#include <stdlib.h>
#include <string.h>

char *lw__buffer_grow(struct lw__buffer *buffer, size_t length)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : 512;
    char *data;

    if (buffer->failed) {
        return NULL;
    }
    while (capacity - buffer->length < length) {
        capacity *= 2;
    }
    data = realloc(buffer->data, capacity);
    if (data == NULL) { /* leave no room for later puts */
        buffer->failed = true;
        buffer->length = buffer->capacity;
        return NULL;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return data + buffer->length;
}

void lw__buffer_reset(struct lw__buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
}

void lw__buffer_wipe(struct lw__buffer *buffer)
{
    if (buffer->data != NULL) {
        lw__wipe(buffer->data, buffer->length);
    }
}

void lw__buffer_clear(struct lw__buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct lw__buffer){0};
}
