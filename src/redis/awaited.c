/* SPDX-License-Identifier: MIT */
/* The records of who waits. Must not know what a request asks or when it is too late for
 * it. Happy path: reserve, push, count off `remaining` of the oldest, pop, which keeps
 * the record for the next one. Only reserve can find no memory, before anything was sent.
 * A request that waits points at itself as its next, which no list does. */
#include "redis/awaited.h"

#include "base/container_of.h"
#include "redis/link.h"

#include <stdlib.h>

void lw__awaited_init(struct lw__awaited *awaited)
{
    *awaited = (struct lw__awaited){.end = &awaited->first};
}

static void detach(struct lw__record *record)
{
    if (record->request != NULL) {
        record->request->next = NULL;
        record->request->prev = NULL;
        record->request = NULL;
    }
}

struct lw__record *lw__awaited_reserve(struct lw__awaited *awaited)
{
    if (awaited->spare == NULL) {
        awaited->spare = calloc(1, sizeof(*awaited->spare));
    }
    return awaited->spare;
}

void lw__awaited_push(struct lw__awaited *awaited, struct lw__request *request,
                      unsigned replies, int64_t sent_us)
{
    struct lw__record *record = awaited->spare;

    awaited->spare = record->next;
    *record = (struct lw__record){NULL, request, sent_us, replies, 0};
    if (request != NULL) {
        request->next = request;
        request->prev = &record->request;
    }
    *awaited->end = record;
    awaited->end = &record->next;
    awaited->replies += replies;
}

struct lw__record *lw__awaited_last(struct lw__awaited *awaited)
{
    return LW__CONTAINER_OF(struct lw__record, next, awaited->end);
}

struct lw__request *lw__awaited_pop(struct lw__awaited *awaited)
{
    struct lw__record *record = awaited->first;
    struct lw__request *request = record->request;

    awaited->first = record->next;
    if (awaited->first == NULL) {
        awaited->end = &awaited->first;
    }
    awaited->replies -= record->remaining;
    detach(record);
    record->next = awaited->spare;
    awaited->spare = record;
    return request;
}

void lw__awaited_forget(struct lw__request *request)
{
    if (request->prev != NULL && request->next == request) {
        *request->prev = NULL;
        request->next = NULL;
        request->prev = NULL;
    }
}

void lw__awaited_clear(struct lw__awaited *awaited)
{
    struct lw__record *record;

    while (awaited->first != NULL) {
        (void)lw__awaited_pop(awaited);
    }
    while ((record = awaited->spare) != NULL) {
        awaited->spare = record->next;
        free(record);
    }
}
