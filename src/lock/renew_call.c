/* SPDX-License-Identifier: MIT */
/* The calls of lw_renew, each with a command of its own. Independent of the renewals that
 * a client sends by itself (renewal.c).
 *
 * A call is sent at once, and a reply that the lease was extended completes it with
 * LW_OK. If the link is down, or the server replies with an error, the call fails, and
 * the hold goes on. The end of the hold completes all its calls. */
#include "lock/lock_private.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <utlist.h>

static struct lw__renew_call *call_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__renew_call, command, command);
}

static void encode_call(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__renew_call *call = call_of(command);
    struct lw__claim *claim = call->lock->claim;
    struct lw__renew_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
    };
    struct lw__script_env env =
        lw__node_script_env(lw__node_of_command(command), claim->name->slot);
    int64_t left = call->lock->extras->hold_until_us - lw__now_us();

    if (call->lock->extras->hold_until_us != LW__NEVER &&
        left < (int64_t)call->lease_ms * LW__MS) {
        call->lease_ms = left < LW__MS ? 1 : (uint32_t)(left / LW__MS);
    }
    args.lease_ms = call->lease_ms;
    if (claim->mode->rw && command->request.one_key) {
        lw__encode_rw_keepalive(out, lw__command_evals(command), &args);
        return;
    }
    claim->mode->encode_renew(out, lw__command_evals(command), 1, &args, &env);
}

static void call_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__renew_call *call = call_of(command);

    (void)sent;
    lw__handle_set_error(call->lock, LW_ECONN, why);
    lw__notify_renewed(call, LW_ECONN);
}

static bool send_call(struct lw__renew_call *call, bool one_key);

/* If the slot is migrating, sends the command again for the lock's key alone. */
static void call_refused(struct lw__renew_call *call, const char *error)
{
    char why[LW_WHY_SIZE];

    if (!call->command.request.one_key &&
        lw__name_note_renewal(call->lock->name, error) && send_call(call, true)) {
        return;
    }
    lw__handle_set_error(call->lock, lw__classify_status(error), lw__explain(error, why));
    lw__notify_renewed(call, lw__classify_status(error));
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
    } /* else the loss of the claim completes the call */
    lw__renewal_answered(call->lock->claim, renewed, sent_us, lease_ms);
    return true;
}

static bool send_call(struct lw__renew_call *call, bool one_key)
{
    static const struct lw__command_type type = {encode_call, call_answered,
                                                 .failed = call_failed};

    return lw__node_send(call->lock->name->node, &call->command, &type,
                         LW__PRIORITY_RENEW, one_key);
}

int lw__renew_call_start(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                         void *arg)
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
    } else if (!lw__renewal_may_extend(lock->claim)) {
        lw__handle_set_error(lock, LW_ECONN, lw__renewal_not_extended);
        lw__notify_renewed(call, LW_ECONN);
    } else if (lock->claim->extras->votes != NULL) {
        if (!lock->client->holds.votes->renew(lock->claim, lease_ms)) {
            lw__notify_renewed(call, LW_ECONN);
        }
    } else if (!send_call(call, !lock->mode->rw)) {
        lw__notify_renewed(call, LW_ECONN);
    }
    return 0;
}

void lw__renew_call_end_all(struct lw_lock *lock, int status)
{
    struct lw__renew_call *call;

    DL_FOREACH(lock->held.renew_calls, call) {
        /* A call that was answered but not delivered is pending for its caller, too. */
        if (call->notice.kind == LW__NOTICE_NONE) {
            lw__node_forget(&call->command);
        }
        lw__notify_renewed(call, status);
    }
}

void lw__renew_call_free(struct lw__renew_call *call)
{
    struct lw_lock *lock = call->lock;

    lw__notify_cancel(lock->client, &call->notice);
    lw__node_forget(&call->command);
    DL_DELETE(lock->held.renew_calls, call);
    free(call);
}

void lw__renew_call_free_all(struct lw_lock *lock)
{
    while (lock->delivered && lock->held.renew_calls != NULL) {
        lw__renew_call_free(lock->held.renew_calls);
    }
}
