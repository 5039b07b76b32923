/* SPDX-License-Identifier: MIT */
/* The life of a claim, one token in Redis. Must not know how handles share it (turns.c
 * does), nor what its machine says is to be done (claim_step.c). Without memory there is
 * no claim, and nothing is asked for; once there is one its steps need none. A hand-over
 * that finds none for its token makes one to give it back, or leaves it to expire. */
#include "lock/claim.h"

#include "base/heap.h"
#include "lock/mode.h"
#include "lock/name.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static void timer_due(void *arg)
{
    lw__claim_event(arg, LW__EV_DUE);
}

/* `lease_ms`: to begin with. */
static struct lw__claim *make(struct lw_client *client, struct lw__name *name,
                              const struct lw__mode *mode, uint64_t n, uint32_t window_ms,
                              uint32_t lease_ms)
{
    struct lw__claim *claim = client->free_claims;

    if (claim != NULL) {
        client->free_claims = claim->next;
        client->free_claim_count--;
    } else if ((claim = malloc(sizeof(*claim))) == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(client->loop, 1) != 0) {
        goto fail;
    }
    if (lw__heap_reserve(&client->renewals.due, 1) != 0) {
        goto fail_reserved;
    }
    memset(claim, 0, sizeof(*claim));
    claim->client = client;
    claim->name = name;
    claim->mode = mode;
    claim->n = n;
    claim->window_ms = window_ms;
    lw__machine_init(&claim->machine, (int64_t)window_ms * LW__MS,
                     (int64_t)lease_ms * LW__MS);
    lw__timer_init(&claim->timer, timer_due, claim);
    lw__name_keep(name);
    DL_APPEND(name->claims, claim);
    client->open_claims++;
    return claim;

fail_reserved:
    lw__timer_unreserve(client->loop, 1);
fail:
    free(claim);
    return NULL;
}

struct lw__claim *lw__claim_new(struct lw_client *client, const struct lw_lock *lock)
{
    struct lw__claim *claim = make(client, lock->name, lock->mode, ++client->next_n,
                                   lock->window_ms, lock->lease_ms);

    if (claim == NULL) {
        return NULL;
    }
    if (lock->owner != NULL && (claim->owner = strdup(lock->owner)) == NULL) {
        lw__claim_free(claim);
        return NULL;
    }
    claim->permits = lock->permits;
    return claim;
}

void lw__claim_free(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;

    lw__node_forget(&claim->command);
    lw__timer_cancel(client->loop, &claim->timer);
    lw__timer_unreserve(client->loop, 1);
    lw__heap_unreserve(&client->renewals.due, 1);
    DL_DELETE(claim->name->claims, claim);
    lw__name_put(client, claim->name);
    free(claim->owner);
    client->open_claims--;
    if (client->free_claim_count == LW__POOLED) {
        free(claim);
        return;
    }
    client->free_claim_count++;
    claim->next = client->free_claims;
    client->free_claims = claim;
}

void lw__claim_turn(struct lw__claim *claim)
{
    struct lw__input input = {.event = LW__EV_TURN};

    claim->previous_n = claim->n;
    claim->previous_window_ms = claim->window_ms;
    claim->n = ++claim->client->next_n;
    claim->named = false;
    claim->verify = false;
    if (claim->waiting != NULL) {
        claim->window_ms = claim->waiting->window_ms;
    }
    input.turn.window_us = (int64_t)claim->window_ms * LW__MS;
    lw__claim_step(claim, &input);
}

void lw__claim_give_back(struct lw_client *client, const struct lw__message *message)
{
    /* the script of shared holds releases either kind */
    const struct lw__mode *mode = &client->modes[message->rw ? LW_SHARED : LW_MUTEX];
    struct lw__name *name = lw__name_get(client, message->name);
    struct lw__claim *claim;

    if (name == NULL) {
        return;
    }
    claim = make(client, name, mode, message->token.n, message->token.window_ms,
                 message->token.window_ms);
    lw__name_put(client, name);
    if (claim != NULL) {
        lw__claim_event(claim, LW__EV_RELEASE);
    }
}
