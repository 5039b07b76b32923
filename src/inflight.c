/* SPDX-License-Identifier: MIT */
/*
 * The ring of slots. Must not know what a request asks or when it is too late for it.
 * Happy path: reserve, push, count off `remaining` in the oldest, pop.
 */
#include "inflight.h"

#include "lockwire.h"

#include <stdlib.h>

static struct lw__slot *slot_at(const struct lw__inflight *inflight, size_t index)
{
    return &inflight->slots[(inflight->first + index) & (inflight->size - 1)];
}

static void attach(struct lw__slot *slot)
{
    if (slot->request != NULL) {
        slot->request->next = NULL;
        slot->request->prev = &slot->request;
    }
}

static void detach(struct lw__slot *slot)
{
    if (slot->request != NULL) {
        slot->request->prev = NULL;
        slot->request = NULL;
    }
}

int lw__inflight_reserve(struct lw__inflight *inflight)
{
    size_t size = inflight->size > 0 ? inflight->size * 2 : 16;
    struct lw__slot *slots;

    if (inflight->count < inflight->size) {
        return 0;
    }
    slots = calloc(size, sizeof(*slots));
    if (slots == NULL) {
        return LW_ENOMEM;
    }
    for (size_t i = 0; i < inflight->count; i++) {
        slots[i] = *slot_at(inflight, i);
        attach(&slots[i]);
    }
    free(inflight->slots);
    inflight->slots = slots;
    inflight->first = 0;
    inflight->size = size;
    return 0;
}

void lw__inflight_push(struct lw__inflight *inflight, struct lw__request *request,
                       unsigned replies, int64_t sent_us)
{
    struct lw__slot *slot = slot_at(inflight, inflight->count++);

    *slot = (struct lw__slot){request, sent_us, replies, request == NULL};
    attach(slot);
    inflight->replies += replies;
}

struct lw__slot *lw__inflight_oldest(struct lw__inflight *inflight)
{
    return inflight->count > 0 ? slot_at(inflight, 0) : NULL;
}

struct lw__request *lw__inflight_pop(struct lw__inflight *inflight)
{
    struct lw__slot *slot = slot_at(inflight, 0);
    struct lw__request *request = slot->request;

    detach(slot);
    inflight->replies -= slot->remaining;
    inflight->first = (inflight->first + 1) & (inflight->size - 1);
    inflight->count--;
    return request;
}

void lw__inflight_forget(struct lw__inflight *inflight, struct lw__request *request)
{
    uintptr_t at = (uintptr_t)request->prev, begin = (uintptr_t)inflight->slots;

    /* Elsewhere, `prev` belongs to the list of whoever has the request now. */
    if (at >= begin && at < begin + inflight->size * sizeof(*inflight->slots)) {
        *request->prev = NULL;
        request->prev = NULL;
    }
}

void lw__inflight_clear(struct lw__inflight *inflight)
{
    while (inflight->count > 0) {
        (void)lw__inflight_pop(inflight);
    }
    free(inflight->slots);
    *inflight = (struct lw__inflight){NULL, 0, 0, 0, 0};
}
