/* SPDX-License-Identifier: MIT */
/* Calls of lw_renew on their way, each by itself. Must not decide what an answer means
 * for the lock; machine.c does. Happy path: lw__renew_new sends; the answer -> RENEWED,
 * and `done`. Without a link, or with an error, `done` is told so and the lock is held as
 * before; what ends the hold ends them. */
#include "lock/renew.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "lock/claim.h"
#include "lock/handle.h"
#include "lock/mode.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <utlist.h>

static struct lw__renew_call *call_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__renew_call, command, command);
}

static void put_call(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__renew_call *call = call_of(command);
    struct lw__claim *claim = call->lock->claim;
    struct lw__renew_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
    };
    struct lw__script_env site =
        lw__node_script_env(lw__node_of_command(command), claim->name->slot);
    int64_t left = call->lock->hold_until_us - lw__now_us();

    if (call->lock->hold_until_us != LW__NEVER &&
        left < (int64_t)call->lease_ms * LW__MS) {
        call->lease_ms = left < LW__MS ? 1 : (uint32_t)(left / LW__MS);
    }
    args.lease_ms = call->lease_ms;
    if (claim->mode->rw && command->type->one_key) {
        lw__encode_rw_keep(out, lw__command_evals(command), &args);
        return;
    }
    claim->mode->encode_renew(out, lw__command_evals(command), 1, &args, &site);
}

static void call_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__renew_call *call = call_of(command);

    (void)sent;
    lw__handle_set_error(call->lock, LW_ECONN, why);
    lw__notify_renewed(call, LW_ECONN);
}

static const struct lw__command_type one_type;

/* By its key alone, where that is all that is answered: the slot is on its way. */
static void call_refused(struct lw__renew_call *call, const char *error)
{
    if (!call->command.type->one_key && lw__classify_moving(error)) {
        call->lock->name->moving = true;
        if (lw__node_send(call->lock->name->node, &call->command, &one_type)) {
            return;
        }
    }
    lw__handle_set_error(call->lock, lw__classify_status(error), error);
    lw__notify_renewed(call, LW_EREDIS);
}

static bool call_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__renew_call *call = call_of(command);
    int64_t sent_us = command->request.sent_us;
    uint32_t lease_ms = call->lease_ms;
    bool renewed;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        call_refused(call, lw__reply_text(reply, NULL));
        return true;
    }
    if (!lw__decode_renewed(reply, 1, &renewed)) {
        return false;
    }
    if (renewed) {
        lw__notify_renewed(call, LW_OK);
    } /* gone: what the claim's loss brings ends this one, too */
    lw__renewal_answered(call->lock->claim, renewed, sent_us, lease_ms);
    return true;
}

static const struct lw__command_type call_type = {put_call, call_answered, call_failed,
                                                  .priority = LW__PRIORITY_RENEW};

static const struct lw__command_type one_type = {put_call, call_answered, call_failed,
                                                 LW__PRIORITY_RENEW, .one_key = true};

int lw__renew_new(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done, void *arg)
{
    struct lw__renew_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return LW_ENOMEM;
    }
    call->lock = lock;
    call->done = done;
    call->arg = arg;
    call->lease_ms = lease_ms;
    DL_APPEND(lock->held.renew_calls, call);
    if (lock->notice.kind == LW__NOTICE_LOST || lock->claim == NULL) {
        lw__notify_renewed(call, LW_ELOST);
    } else if (!lw__node_send(lock->name->node, &call->command,
                              lock->mode->rw ? &call_type : &one_type)) {
        lw__notify_renewed(call, LW_ECONN);
    }
    return 0;
}

void lw__renew_end_all(struct lw_lock *lock, int status)
{
    struct lw__renew_call *call;

    DL_FOREACH(lock->held.renew_calls, call) {
        /* One that is answered but not told yet is pending as well, for the caller. */
        if (call->notice.kind == LW__NOTICE_NONE) {
            lw__node_forget(&call->command);
        }
        lw__notify_renewed(call, status);
    }
}

void lw__renew_free(struct lw__renew_call *call)
{
    struct lw_lock *lock = call->lock;

    lw__notify_cancel(lock->client, &call->notice);
    lw__node_forget(&call->command);
    DL_DELETE(lock->held.renew_calls, call);
    free(call);
}

void lw__renew_free_all(struct lw_lock *lock)
{
    while (lock->told && lock->held.renew_calls != NULL) {
        lw__renew_free(lock->held.renew_calls);
    }
}
