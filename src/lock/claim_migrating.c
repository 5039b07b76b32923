/* SPDX-License-Identifier: MIT */
/* What a claim says while its slot is on its way from one node of a cluster to another.
 * Some keys are here then and some there, so that only what is about one key is answered:
 * a script of several never is. Must not know where the slot leads.
 *
 * Happy path: a script was told so; the name is SET by itself, or is the claim's already;
 * then a number is drawn, and it is granted; a read-write lock is not. A release takes
 * its hold away, whoever waits: their places move with the slot, and until that has
 * arrived they ask from time to time. */
#include "lock/lock_private.h"

#include "base/buffer.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <string.h>

#define BEHIND 3 /* in the queue: it polls as one without a place */
#define POLL_MS                                                                          \
    50 /* as if so little were left of the lease: for whom another one holds */

static bool say(struct lw__claim *claim, const struct lw__command_type *type)
{
    return lw__node_send(claim->name->node, &claim->command, type);
}

/* ---- asking ---- */

static void put_number(struct lw__command *command, struct lw__buffer *out)
{
    lw__node_encode_fence(command, lw__claim_of(command)->name->slot, out);
}

/* Without a number it is granted by a script, as soon as one is answered. */
static void number_unanswered(struct lw__command *command, const char *why, bool sent)
{
    (void)sent; /* the SET was done */
    lw__claim_no_reply(command, why, true);
}

static bool number_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__input input = {.event = LW__EV_NOT_GRANTED,
                              .sent_us = claim->asking.set_us,
                              .not_granted.set_done = true};
    uint64_t number;

    if (!lw__node_read_fence(command, claim->name->slot, reply, &number)) {
        return false;
    }
    if (number > 0) {
        claim->fences_drawn = 1;
        lw__claim_granted(claim, number, claim->asking.set_us);
    } else if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_server_error(claim, lw__reply_text(reply, NULL), false); /* SET was */
    } else if (!command->request.seeds_fence ||
               !lw__claim_without_fence(claim, (uint64_t)lw__reply_integer(reply))) {
        lw__claim_step(claim, &input);
    }
    return true;
}

static const struct lw__command_type number_type = {
    put_number, number_answered, number_unanswered, LW__PRIORITY_RENEW, .one_key = true};

/* The name is ours by a command that was sent then. */
static void has_name(struct lw__claim *claim, int64_t sent_us)
{
    if (!lw__handles_want_fence(claim)) {
        lw__claim_granted(claim, 0, sent_us);
        return;
    }
    claim->asking.set_us = sent_us;
    if (!say(claim, &number_type)) {
        lw__claim_no_reply(&claim->command, "", true);
    }
}

static void put_set(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);

    claim->token_sent = true;
    claim->fences_drawn = 0;
    lw__encode_try(out, claim->name->text, &token, lw__claim_lease_ms(claim));
}

/* Somebody else has it: soon again, whether it has a place or none. */
static void refused(struct lw__claim *claim)
{
    struct lw__input input = {
        .event = LW__EV_QUEUED,
        .sent_us = claim->command.request.sent_us,
        .queued = {.remaining_ms = POLL_MS,
                   .position = claim->machine.maybe_in_redis ? BEHIND : -1,
                   .ticket = claim->machine.ticket}};

    claim->asking.remaining_ms = POLL_MS;
    lw__claim_step(claim, &input);
}

/* It may be ours: the answer to an earlier SET was lost, or it was handed over. */
static void put_own(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__renew_args args = {claim->name->text, lw__claim_token(claim),
                                  lw__claim_lease_ms(claim)};

    lw__encode_renew(out, lw__command_evals(command), 1, &args, NULL);
}

static bool own_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    bool ours;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
    } else if (!lw__decode_renewed(reply, 1, &ours)) {
        return false;
    } else if (ours) {
        has_name(claim, command->request.sent_us);
    } else {
        refused(claim);
    }
    return true;
}

static const struct lw__command_type own_type = {
    put_own, own_answered, lw__claim_no_reply, LW__PRIORITY_RENEW, .one_key = true};

static bool set_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    enum lw__reply_type type = lw__reply_type(reply);

    if (type == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
    } else if (type == LW__REPLY_NIL) {
        if (!claim->machine.maybe_in_redis || !say(claim, &own_type)) {
            refused(claim);
        }
    } else if (type != LW__REPLY_STATUS ||
               strcmp(lw__reply_text(reply, NULL), "OK") != 0) {
        return false;
    } else {
        has_name(claim, command->request.sent_us);
    }
    return true;
}

static const struct lw__command_type set_type = {
    put_set, set_answered, lw__claim_no_reply, LW__PRIORITY_NEW, .one_key = true};

/* (In a cluster there are no turns, so that there is no token before to let go of.) */
static bool ask(struct lw__claim *claim, const char *error)
{
    return lw__classify_moving(error) && claim->mode->plain_set &&
           !claim->machine.unwanted && say(claim, &set_type);
}

/* ---- letting go ---- */

static void put_drop(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);

    lw__encode_leave(out, lw__command_evals(command), claim->name->text, &token,
                     claim->mode->rw);
}

static bool drop_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__input input = {.event = LW__EV_RELEASED,
                              .sent_us = command->request.sent_us};
    struct lw__released answer = {0};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
        return true;
    }
    if (!(claim->mode->rw ? lw__decode_rw_released : lw__decode_fast_released)(reply,
                                                                               &answer)) {
        return false;
    }
    input.released.released = answer.released;
    input.released.holds_left = answer.holds_left;
    lw__claim_step(claim, &input);
    return true;
}

static const struct lw__command_type drop_type = {
    put_drop, drop_answered, lw__claim_no_reply, LW__PRIORITY_RENEW, .one_key = true};

static bool release(struct lw__claim *claim, const char *error)
{
    return lw__classify_moving(error) && say(claim, &drop_type);
}

const struct lw__one_key_ops lw__claim_migrating_ops = {ask, release};
