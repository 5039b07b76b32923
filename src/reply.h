/* SPDX-License-Identifier: MIT */
/*
 * From a connection's bytes to replies, with bounds on what a server may make us build:
 * bytes of one reply, its elements, its depth, RESP2's types only. reply.c is the only
 * user of hiredis; link.h declares the view of a reply that the rest of the library has.
 *
 * Happy path: lw__reader_new, then feed what was read and take replies until there is
 * none.
 */
#ifndef LW_REPLY_H
#define LW_REPLY_H
#include "link.h"

#define LW__REPLY_ELEMENTS 4096 /* in all arrays of one reply together */
#define LW__REPLY_DEPTH 6       /* arrays in arrays */

struct lw__reader;

/* `max`: bytes that one reply may take. NULL: no memory. */
struct lw__reader *lw__reader_new(size_t max);
void lw__reader_free(struct lw__reader *reader); /* NULL is fine */
int lw__reader_feed(struct lw__reader *reader, const char *bytes, size_t length);
/* 1: a reply, to be freed; 0: not before more bytes come; LW_EREDIS: the bytes make no
 * legal reply, and none will come any more; `why` (size LW__WHY) tells. */
int lw__reader_next(struct lw__reader *reader, struct lw__reply **ret, char *why);
void lw__reply_free(struct lw__reply *reply);
#endif
