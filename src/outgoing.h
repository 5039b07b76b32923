/* SPDX-License-Identifier: MIT */
/*
 * Bytes on their way out of one connection: gathered here, written as the socket takes
 * them. Allocates only while it grows.
 */
#ifndef LW_OUTGOING_H
#define LW_OUTGOING_H
#include <stddef.h>

struct lw__outgoing {
    char *bytes;
    size_t begin, end, size; /* what is still to be written: from begin to end */
};

/* Room for `length` more. 0, LW_ENOMEM. */
int lw__outgoing_reserve(struct lw__outgoing *out, size_t length);
/* Needs reserved room. */
void lw__outgoing_add(struct lw__outgoing *out, const char *bytes, size_t length);
/* One write to the socket. 0, or the errno that ends the connection. */
int lw__outgoing_write(struct lw__outgoing *out, int fd);
void lw__outgoing_clear(struct lw__outgoing *out);
#endif
