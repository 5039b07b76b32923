/* SPDX-License-Identifier: MIT */
/* Builds the replies that hiredis reads on one connection, and rejects those that would
 * end the process: hiredis asserts that servers keep to the protocol, and that there is
 * memory. Replies are built in the reader's own memory, which the next reply reuses. A
 * reply is rejected if no command awaits it, if it is too long, has too many elements or
 * is nested too deeply, and if RESP2 does not have its type.
 *
 * lw__reader_init, lw__reader_attach; lw__reader_send for each command. When the
 * connection has ended, lw__reader_why; lw__reader_clear once hiredis reads no more. */
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
    /* The connection's callbacks; NULL: every reply is awaited. */
    const redisCallbackList *callbacks;
    size_t max, bytes; /* that one reply may have, and the present one has so far */
    size_t max_elements, elements;
    char why[80];                   /* "" if no reply was rejected */
    struct lw__arena_block *blocks; /* more memory, in addition to `kept` */
    size_t used;                    /* of the newest block, or of `kept` */
    _Alignas(8) char kept[LW__REPLY_KEPT];
};

/* One reply may have `max` bytes, and LW__REPLY_ELEMENTS elements unless max_elements is
 * changed afterwards. */
void lw__reader_init(struct lw__reader *reader, size_t max);
void lw__reader_clear(struct lw__reader *reader);
/* Makes hiredis build its replies with this reader. */
void lw__reader_install(struct lw__reader *reader, redisReader *hiredis);
/* Does the same for a connection, on which replies that no command awaits are rejected.
 */
void lw__reader_attach(struct lw__reader *reader, redisAsyncContext *context);
/* Returns why a reply was rejected, or NULL. */
const char *lw__reader_why(const struct lw__reader *reader);

/* Sends exactly one command, whose reply goes to `fn`. Returns 0, or LW_ENOMEM: then the
 * connection is unusable. */
int lw__reader_send(redisAsyncContext *context, redisCallbackFn *fn, void *data,
                    const char *bytes, size_t length);
/* Sends a command that hiredis must not see: one that subscribes or unsubscribes. */
int lw__reader_send_unseen(redisAsyncContext *context, const char *bytes, size_t length);
/* Passes to `fn`, once, what the server sends next unasked. Returns 0, or LW_ENOMEM. */
int lw__reader_listen(redisAsyncContext *context, redisCallbackFn *fn, void *data);

enum lw__push_kind {
    LW__PUSH_ERROR,
    LW__PUSH_SUBSCRIBED,
    LW__PUSH_UNSUBSCRIBED,
    LW__PUSH_MESSAGE,
    LW__PUSH_INVALIDATION, /* keys have changed that CLIENT TRACKING is about */
    LW__PUSH_INVALID
};
/* Returns what a server has sent on a subscription. Confirmations and messages have the
 * channel, a string, as their second element. */
enum lw__push_kind lw__reader_push_kind(const struct lw__reply *reply);
#endif
