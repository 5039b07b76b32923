/* SPDX-License-Identifier: MIT */
/*
 * Who waits for which reply of one connection: a ring of slots, oldest first. A slot
 * outlives its request, so that the replies to one that was forgotten are counted off.
 * Allocates only while it grows.
 */
#ifndef LW_INFLIGHT_H
#define LW_INFLIGHT_H
#include "link.h"

struct lw__slot {
    struct lw__request *request; /* NULL: forgotten, or a subscription's confirmation */
    int64_t sent_us;
    unsigned remaining; /* replies still to come */
    bool confirmation;
};

struct lw__inflight {
    struct lw__slot *slots;
    size_t first, count, size; /* size: a power of two */
    size_t replies;            /* still to come, in all slots */
};

int lw__inflight_reserve(struct lw__inflight *inflight); /* one more. 0, LW_ENOMEM */
/* Needs a reserved slot. request->prev points into the slot while it is there. */
void lw__inflight_push(struct lw__inflight *inflight, struct lw__request *request,
                       unsigned replies, int64_t sent_us);
struct lw__slot *lw__inflight_oldest(struct lw__inflight *inflight); /* NULL: empty */
/* Takes the oldest slot out; its request, if anybody still waits. */
struct lw__request *lw__inflight_pop(struct lw__inflight *inflight);
void lw__inflight_forget(struct lw__inflight *inflight, struct lw__request *request);
void lw__inflight_clear(struct lw__inflight *inflight); /* forgets all, frees its memory */
#endif
