/* SPDX-License-Identifier: MIT */
/* Who waits for which reply of one connection: records, oldest first. hiredis hands them
 * back with the replies. A record outlives its request, so that the replies to one that
 * was forgotten are counted off. Allocates only while more wait than ever before. */
#ifndef LW_AWAITED_H
#define LW_AWAITED_H
#include <stddef.h>
#include <stdint.h>

struct lw__request;

struct lw__record {
    struct lw__record *next;
    struct lw__request *request; /* NULL: forgotten, or a subscription's confirmation */
    int64_t sent_us;
    unsigned remaining; /* replies still to come */
    unsigned left;      /* what a confirmation says is no more listened to; 0: none */
};

struct lw__awaited {
    struct lw__record *first, **end, *spare;
    size_t replies; /* still to come, to all of them */
};

void lw__awaited_init(struct lw__awaited *awaited);
void lw__awaited_clear(struct lw__awaited *awaited); /* forgets all, frees its memory */
/* One that can be pushed, and until then is as good as not there. NULL: no memory. */
struct lw__record *lw__awaited_reserve(struct lw__awaited *awaited);
/* `request` NULL: a confirmation. */
void lw__awaited_push(struct lw__awaited *awaited, struct lw__request *request,
                      unsigned replies, int64_t sent_us);
/* The one that was pushed last, while it is there. */
struct lw__record *lw__awaited_last(struct lw__awaited *awaited);
/* Takes the oldest out, which must be there; its request, if anybody still waits. */
struct lw__request *lw__awaited_pop(struct lw__awaited *awaited);
/* No effect on a request that waits nowhere, or in a list of somebody else's. */
void lw__awaited_forget(struct lw__request *request);
#endif
