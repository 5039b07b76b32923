/* SPDX-License-Identifier: MIT */
/*
 * The output buffer of a connection. Must not know what the bytes say.
 * Happy path: reserve, add, write until end is 0.
 */
#include "outgoing.h"

#include "dial.h"
#include "lockwire.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A buffer that had to grow beyond this is given back when it is empty. */
#define KEPT ((size_t)256 * 1024)

int lw__outgoing_reserve(struct lw__outgoing *out, size_t length)
{
    size_t used = out->end - out->begin, size = out->size;
    char *bytes;

    if (out->size - out->end >= length) {
        return 0;
    }
    if (length > SIZE_MAX / 4 - used) {
        return LW_ENOMEM;
    }
    if (used > 0) {
        memmove(out->bytes, out->bytes + out->begin, used);
    }
    out->begin = 0;
    out->end = used;
    while (size < used + length) {
        size = size > 0 ? size * 2 : 4096;
    }
    bytes = size > out->size ? realloc(out->bytes, size) : out->bytes;
    if (bytes == NULL) {
        return LW_ENOMEM;
    }
    out->bytes = bytes;
    out->size = size;
    return 0;
}

void lw__outgoing_add(struct lw__outgoing *out, const char *bytes, size_t length)
{
    if (length > 0) {
        memcpy(out->bytes + out->end, bytes, length);
        out->end += length;
    }
}

int lw__outgoing_write(struct lw__outgoing *out, int fd)
{
    ssize_t written = 0;

    if (out->end > out->begin) {
        written = lw__dial_write(fd, out->bytes + out->begin, out->end - out->begin);
    }
    if (written < 0) {
        return errno == EAGAIN ? 0 : errno;
    }
    out->begin += (size_t)written;
    if (out->begin == out->end) {
        out->begin = out->end = 0;
        if (out->size > KEPT) {
            lw__outgoing_clear(out);
        }
    }
    return 0;
}

void lw__outgoing_clear(struct lw__outgoing *out)
{
    free(out->bytes);
    *out = (struct lw__outgoing){NULL, 0, 0, 0};
}
