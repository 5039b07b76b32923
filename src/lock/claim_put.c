/* SPDX-License-Identifier: MIT */
/* What a claim says to the server, written at the moment of sending, by the terms of the
 * handles that wait for it then. Must not know what is answered. Lack of memory is the
 * buffer's to tell. */
#include "lock/claim_inside.h"

#include "base/buffer.h"
#include "lock/claim.h"
#include "lock/hints.h"
#include "lock/machine.h"
#include "lock/mode.h"
#include "lock/terms.h"
#include "loop/loop.h"
#include "redis/encode.h"
#include "redis/node.h"

struct lw__token lw__claim_token(const struct lw__claim *claim)
{
    return (struct lw__token){claim->client->uuid, claim->n, claim->window_ms};
}

/* At the node that is asked, which may be another than the name's so far. */
static bool wants_to_join(const struct lw__claim *claim)
{
    struct lw__node *node = lw__node_of_command(&claim->command);

    if (claim->machine.abandoned || !lw__terms_wants_place(claim)) {
        return false;
    }
    lw__node_subscribe(node, claim->name->slot);
    return lw__node_is_bound(node, claim->name->slot);
}

/* In `room`; NULL where its mode asks for no more than the name. */
static const struct lw__rw *rw_of(const struct lw__claim *claim, struct lw__rw *room)
{
    *room = (struct lw__rw){claim->mode->write, claim->permits, claim->owner};
    return claim->mode->rw ? room : NULL;
}

/* The lease to ask for: what goes out is what the machine will count the answer by. */
uint32_t lw__claim_ask_lease_ms(struct lw__claim *claim)
{
    int64_t lease_us = lw__terms_lease_us(claim);

    if (lease_us != claim->machine.lease_us || claim->machine.handed_us != 0) {
        struct lw__input input = {.event = LW__EV_ASKED, .asked = {lease_us}};

        (void)lw__machine_step(&claim->machine, &input);
    }
    return (uint32_t)(claim->machine.lease_us / LW__MS);
}

void lw__claim_put_try(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);
    bool fence = lw__terms_wants_fence(claim);

    claim->named = true;
    claim->set_done = claim->set_answered = claim->set_failed = false;
    claim->numbers = fence ? 1 : 0;
    command->request.expected = fence ? 2 : 1;
    lw__encode_try(out, claim->name->text, &token, lw__claim_ask_lease_ms(claim));
    command->request.second = (uint32_t)out->length;
    if (fence) {
        lw__node_encode_fence(command, claim->name->slot, out);
    }
}

/* A token that may queue is a padded one, from the first time that it is sent. */
static void name_token(struct lw__claim *claim)
{
    if (!claim->named && claim->mode->tries) {
        claim->n |= LW__PADDED;
    }
    claim->named = true;
}

void lw__claim_put_acquire(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token previous = {claim->client->uuid, claim->previous_n,
                                 claim->previous_window_ms};
    bool joins = wants_to_join(claim);
    struct lw__rw rw;
    struct lw__acquire_args args = {
        .name = claim->name->text,
        .previous = claim->machine.turning ? &previous : NULL,
        .rw = rw_of(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .ticket = claim->machine.ticket,
        .wait = joins,
        .keep = joins && lw__hints_keep(claim->client, claim->name),
        .fence = lw__terms_wants_fence(claim),
    };

    name_token(claim);
    args.token = lw__claim_token(claim);
    args.lease_ms = lw__claim_ask_lease_ms(claim);
    claim->asked_to_join = args.wait;
    claim->numbers = args.fence ? 16 : 0;
    claim->mode->encode_acquire(out, lw__command_evals(command), &args);
}

void lw__claim_put_drop(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);

    claim->drop = lw__node_fast_release(lw__node_of_command(command));
    claim->mode->encode_drop(out, lw__command_evals(command), claim->drop,
                             claim->name->text, &token);
}

void lw__claim_put_release(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__rw rw;
    struct lw__release_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
        .rw = rw_of(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
    };

    claim->mode->encode_release(out, lw__command_evals(command), &args);
}
