/* SPDX-License-Identifier: MIT */
/* How a mutex is acquired whose slot is migrating from one node of a cluster to another.
 * The name's keys are on both nodes then, so that only commands of a single key are
 * executed, but no script of several. Independent of where the slot goes, and of how the
 * hold is released (claim.c).
 *
 * If a script fails for that reason, the name's key is SET, or verified to be the claim's
 * already; then a fencing token is drawn, and the claim is granted. */
#include "hold/hold.h"

#include "base/buffer.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <string.h>

/* If another owner holds the lock, the claim polls as if this were left of the lease, and
 * this were its place in the queue, if it has one: as often as a claim without a place.
 */
#define POLL_MS 50
#define PLACE 3

static bool send_command(struct lw__claim *claim, const struct lw__command_type *type,
                         enum lw__priority priority)
{
    return lw__node_send(claim->name->node, &claim->command, type, priority, true);
}

/* ---- acquiring ---- */

static void encode_fence(struct lw__command *command, struct lw__buffer *out)
{
    lw__node_encode_fence(command, lw__claim_of(command)->name->slot, out);
}

/* Without a fencing token a claim is not granted until a script is executed again. */
static void fence_not_answered(struct lw__command *command, const char *why, bool sent)
{
    (void)sent; /* the SET was executed in any case */
    lw__claim_no_reply(command, why, true);
}

static bool fence_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__input input = {.event = LW__EV_NOT_GRANTED,
                              .sent_us = claim->asking.sent_us,
                              .not_granted.set_done = true};
    uint64_t fence;

    if (!lw__node_read_fence(command, claim->name->slot, reply, &fence)) {
        return false;
    }
    if (fence > 0) {
        lw__claim_granted(claim, fence, 1, claim->asking.sent_us);
    } else if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_server_error(claim, lw__reply_text(reply, NULL), false); /* SET done */
    } else if (!command->request.seeds_fence ||
               !lw__claim_without_fence(claim, (uint64_t)lw__reply_integer(reply))) {
        lw__claim_step(claim, &input);
    }
    return true;
}

static const struct lw__command_type fence_type = {encode_fence, fence_answered,
                                                   .failed = fence_not_answered};

/* The name is ours, by a command that was sent at sent_us. */
static void name_acquired(struct lw__claim *claim, int64_t sent_us)
{
    if (!lw__claim_terms(claim).fence) {
        lw__claim_granted(claim, 0, 0, sent_us);
        return;
    }
    lw__claim_note_set(claim, sent_us);
    if (!send_command(claim, &fence_type, LW__PRIORITY_RENEW)) {
        lw__claim_no_reply(&claim->command, "", true);
    }
}

static void encode_set(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__terms terms = lw__claim_terms(claim);

    lw__claim_put_set(claim, out, &terms);
}

/* Another owner holds the lock. */
static void busy(struct lw__claim *claim)
{
    struct lw__input input = {
        .event = LW__EV_QUEUED,
        .sent_us = claim->command.request.sent_us,
        .queued = {.remaining_ms = POLL_MS,
                   .position = claim->machine.maybe_in_redis ? PLACE : -1,
                   .ticket = claim->machine.ticket}};

    lw__claim_step(claim, &input);
}

/* The name may be ours: the reply to an earlier SET was lost, or the lock was handed
 * over. */
static void encode_extend(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__renew_args args = {
        claim->name->text, lw__claim_token(claim),
        lw__claim_lease_ms(claim, lw__claim_terms(claim).lease_us)};

    lw__encode_renew(out, lw__command_evals(command), 1, &args, NULL);
}

static bool extend_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    bool ours;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
    } else if (!lw__decode_renewed(reply, 1, &ours)) {
        return false;
    } else if (ours) {
        name_acquired(claim, command->request.sent_us);
    } else {
        busy(claim);
    }
    return true;
}

static const struct lw__command_type extend_type = {encode_extend, extend_answered,
                                                    .failed = lw__claim_no_reply};

static bool set_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    enum lw__reply_type type = lw__reply_type(reply);

    if (type == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
    } else if (type == LW__REPLY_NIL) {
        if (!claim->machine.maybe_in_redis ||
            !send_command(claim, &extend_type, LW__PRIORITY_RENEW)) {
            busy(claim);
        }
    } else if (type != LW__REPLY_STATUS ||
               strcmp(lw__reply_text(reply, NULL), "OK") != 0) {
        return false;
    } else {
        name_acquired(claim, command->request.sent_us);
    }
    return true;
}

static const struct lw__command_type set_type = {encode_set, set_answered,
                                                 .failed = lw__claim_no_reply};

bool lw__claim_migrating_acquire(struct lw__claim *claim, const char *error)
{
    return lw__classify_moving(error) && !claim->machine.unwanted &&
           send_command(claim, &set_type, LW__PRIORITY_NEW);
}
