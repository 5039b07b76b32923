/* SPDX-License-Identifier: MIT */
/* What a server may say, and what keeps hiredis' asserts out of reach: hiredis trusts
 * that servers keep the protocol and that memory is there, and ends the process where
 * they do not. A guard sits in the reader of one connection. It builds each reply in
 * memory of its own, which the next one takes over, and refuses those that nobody awaits,
 * that are too long, too wide, too deep or of a type that RESP2 has not.
 *
 * Happy path: init, attach; send; when the connection has ended, why; clear once hiredis
 * reads no more. */
#ifndef LW_GUARD_H
#define LW_GUARD_H
#include <hiredis/async.h>
#include <stddef.h>

struct lw__piece;
struct lw__reply;

#define LW__REPLY_ELEMENTS 4096 /* in all arrays of one reply together */
#define LW__REPLY_DEPTH 7       /* arrays in arrays; COMMAND INFO has 6 */
#define LW__REPLY_KEPT 2048     /* bytes of memory for replies that need no allocation */

struct lw__guard {
    const redisCallbackList
        *awaited;      /* the connection's, or NULL: as if somebody waited */
    size_t max, bytes; /* that one reply may take, and this one has */
    size_t max_elements, elements;
    char why[80];             /* "": nothing was refused */
    struct lw__piece *pieces; /* of memory, beside what is kept */
    size_t used;              /* of the newest one, or of what is kept */
    _Alignas(8) char kept[LW__REPLY_KEPT];
};

/* `max`: bytes that one reply may take. */
/* `max` bytes, and LW__REPLY_ELEMENTS, which whoever needs more sets by himself. */
void lw__guard_init(struct lw__guard *guard, size_t max);
void lw__guard_clear(struct lw__guard *guard);
/* From now on it decides what this reader builds. */
void lw__guard_take_reader(struct lw__guard *guard, redisReader *reader);
void lw__guard_attach(struct lw__guard *guard, redisAsyncContext *context);
/* NULL, or why a reply was refused. */
const char *lw__guard_why(const struct lw__guard *guard);

/* Sends one command, which must be one, whose reply goes to `fn`. 0, LW_ENOMEM: the
 * connection is of no use. */
int lw__guard_send(redisAsyncContext *context, redisCallbackFn *fn, void *data,
                   const char *bytes, size_t length);
/* Sends a command of which hiredis shall know nothing: one that subscribes. */
int lw__guard_send_unseen(redisAsyncContext *context, const char *bytes, size_t length);
/* What the server says next, unasked, goes to `fn`, once. 0, LW_ENOMEM. */
int lw__guard_listen(redisAsyncContext *context, redisCallbackFn *fn, void *data);

enum lw__said {
    LW__SAID_ERROR,
    LW__SAID_SUBSCRIBED,
    LW__SAID_UNSUBSCRIBED,
    LW__SAID_MESSAGE,
    LW__SAID_NONSENSE
};
/* What a server says on a subscription. Of the middle two the second element is the
 * channel, a string. */
enum lw__said lw__guard_said(const struct lw__reply *reply);
#endif
