/* SPDX-License-Identifier: MIT */
/* A text that lists the reasons of several servers: "HEAD; a:1: refused; b:2: silent".
 * Each reason gets an equal share of the room that the earlier ones left. Depends on libc
 * alone. */
#ifndef LW_REASONS_H
#define LW_REASONS_H
#include <stddef.h>

struct lw__reasons {
    char *text;
    size_t size, length;
    size_t left; /* reasons that are to come */
};

/* Begins the text with `head`, "" for none, for so many reasons. */
void lw__reasons_begin(struct lw__reasons *reasons, char *text, size_t size,
                       const char *head, size_t count);
/* Adds the reason of a server. "" means that the server has not been asked. A reason may
 * be cut within a UTF-8 character. */
void lw__reasons_add(struct lw__reasons *reasons, const char *server, const char *why);
#endif
