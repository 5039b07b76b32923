/* SPDX-License-Identifier: MIT */
/* What a server may say, and what keeps hiredis' asserts out of reach: hiredis trusts
 * that servers keep the protocol and that memory is there, and ends the process where
 * they do not. A guard sits in the reader of one connection. It builds each reply in
 * memory of its own, which the next one takes over, and refuses those that nobody awaits,
 * that are too long, too wide, too deep or of a type that RESP2 has not.
 *
 * Happy path: init, attach; send; when the connection has ended, why; clear once hiredis
 * reads no more. */
#ifndef LW_READER_H
#define LW_READER_H
#include <hiredis/async.h>
#include <stddef.h>

struct lw__arena_block;
struct lw__reply;

#define LW__REPLY_ELEMENTS 4096 /* in all arrays of one reply together */
#define LW__REPLY_DEPTH 7       /* arrays in arrays; COMMAND INFO has 6 */
#define LW__REPLY_KEPT 2048     /* bytes of memory for replies that need no allocation */

struct lw__reader {
    const redisCallbackList
        *awaited;      /* the connection's, or NULL: as if somebody waited */
    size_t max, bytes; /* that one reply may take, and this one has */
    size_t max_elements, elements;
    char why[80];                   /* "": nothing was refused */
    struct lw__arena_block *pieces; /* of memory, beside what is kept */
    size_t used;                    /* of the newest one, or of what is kept */
    _Alignas(8) char kept[LW__REPLY_KEPT];
};

/* `max`: bytes that one reply may take. */
/* `max` bytes, and LW__REPLY_ELEMENTS, which whoever needs more sets by himself. */
void lw__reader_init(struct lw__reader *guard, size_t max);
void lw__reader_clear(struct lw__reader *guard);
/* From now on it decides what this reader builds. */
void lw__reader_install(struct lw__reader *guard, redisReader *reader);
void lw__reader_attach(struct lw__reader *guard, redisAsyncContext *context);
/* NULL, or why a reply was refused. */
const char *lw__reader_why(const struct lw__reader *guard);

/* Sends one command, which must be one, whose reply goes to `fn`. 0, LW_ENOMEM: the
 * connection is of no use. */
int lw__reader_send(redisAsyncContext *context, redisCallbackFn *fn, void *data,
                    const char *bytes, size_t length);
/* Sends a command of which hiredis shall know nothing: one that subscribes. */
int lw__reader_send_unseen(redisAsyncContext *context, const char *bytes, size_t length);
/* What the server says next, unasked, goes to `fn`, once. 0, LW_ENOMEM. */
int lw__reader_listen(redisAsyncContext *context, redisCallbackFn *fn, void *data);

enum lw__push_kind {
    LW__PUSH_ERROR,
    LW__PUSH_SUBSCRIBED,
    LW__PUSH_UNSUBSCRIBED,
    LW__PUSH_MESSAGE,
    LW__PUSH_INVALID
};
/* What a server says on a subscription. Of the middle two the second element is the
 * channel, a string. */
enum lw__push_kind lw__reader_push_kind(const struct lw__reply *reply);
#endif
