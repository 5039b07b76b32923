/* SPDX-License-Identifier: MIT */
/* lw_inspect, lw_break and lw_ask_to_yield: report the holders and waiters of a name,
 * force-release its holders, and ask them to release it. The file owns the pending calls.
 * It changes no handle: each holder, also one of this client, learns of a break by a
 * renewal, which a message asks it to send at once, and of a request by a message.
 *
 * lw_inspect parses the reply of inspect.lua (inspect_reply.c), requests the identities
 * of the clients in it (MGET), and calls back. lw_break begins with the same script, then
 * releases the holders that it found, each by its token, so that a later holder keeps the
 * lock. lw_ask_to_yield begins with it as well, then publishes a message for each holder,
 * and counts those that a client received. Nothing is retried: a call ends with a failed
 * link or with an error. lw_break then reports LW_EUNKNOWN if a holder may have been
 * broken.
 *
 * While a slot of a cluster is migrating only commands on a single key are possible. The
 * holders can then still be reported and broken, but the waiters are not reported. */
#include "look/look.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "lockwire.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define MOST_HOLDERS 1000 /* that one lw_break releases, or one lw_ask_to_yield asks */

static struct lw__inspect_call *call_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__inspect_call, command, command);
}

static struct lw__node *node_of(const struct lw__inspect_call *call)
{
    return lw__route_find(call->client->route, call->name, NULL);
}

static unsigned slot_of(const struct lw__inspect_call *call)
{
    return lw__route_slot(call->client->route, call->name);
}

/* Queues the callback. A break that fails after it has released a holder ends with
 * LW_EUNKNOWN. */
static void finish(struct lw__inspect_call *call, int status, const char *why)
{
    if (call->any_broken && (status == LW_ECONN || status == LW_EREDIS)) {
        status = LW_EUNKNOWN;
    }
    lw__escape(why, call->why, sizeof(call->why));
    lw__notify_call(call->client, &call->notice, LW__NOTICE_INSPECTED, status);
}

/* Ends a call whose command was not sent, with the class of the reason. A list ends with
 * its own commands' class: a server that cannot be asked has withheld no lock. */
static void finish_unsent(struct lw__inspect_call *call, const struct lw__node *node,
                          const char *why)
{
    finish(call, call->list != NULL ? LW_ECONN : lw__node_error(node), why);
}

static void send_or_finish(struct lw__inspect_call *call,
                           const struct lw__command_type *type)
{
    if (!lw__node_send_early(node_of(call), &call->command, type, call->one_key)) {
        finish_unsent(call, node_of(call), lw__node_reason(node_of(call)));
    }
}

/* Ends the call if the reply is an error. Returns true if it is. `breaks`: the command
 * releases a holder, and may have been executed in part. */
static bool end_on_error(struct lw__inspect_call *call, const struct lw__reply *reply,
                         bool breaks)
{
    char why[LW_WHY_SIZE];
    const char *text;
    int status;

    if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    }
    text = lw__reply_text(reply, NULL);
    status = lw__classify_status(text);
    if (status == LW_ECONN && breaks && !lw__reply_undone(reply)) {
        status = LW_EUNKNOWN;
    }
    finish(call, status, lw__explain(text, why));
    return true;
}

/* Sends the command again for the name's own key alone, if the reply refuses a script of
 * several keys because the slot is migrating. Returns true if it does. */
static bool retry_one_key(struct lw__inspect_call *call, const struct lw__reply *reply)
{
    if (call->one_key || lw__reply_type(reply) != LW__REPLY_ERROR ||
        !lw__classify_moving(lw__reply_text(reply, NULL))) {
        return false;
    }
    call->one_key = true;
    send_or_finish(call, call->command.type);
    return true;
}

/* Sends a watch's look again without CLIENT CACHING, if the reply to it is an error: the
 * command could not be redirected, because only a first reply decides that. Returns true
 * if it does. */
static bool retry_untracked(struct lw__inspect_call *call, const struct lw__reply *reply)
{
    if (call->watch == NULL || call->untracked ||
        lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    }
    call->untracked = true;
    call->tracked = false;
    send_or_finish(call, call->command.type);
    return true;
}

/* ---- identities of clients ---- */

static void encode_identities(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *call = call_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];
    size_t count = lw__inspect_reply_clients(&call->look, uuids);

    lw__encode_get_identities(out, call->client->holds.prefix, count, uuids);
}

/* The identities are optional: if MGET is not permitted the rest is reported. */
static bool identities_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *call = call_of(command);

    lw__inspect_reply_name_clients(&call->look, reply);
    finish(call, LW_OK, "");
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    if (sent) {
        finish(call_of(command), LW_ECONN, why);
    } else {
        finish_unsent(call_of(command), lw__node_of_command(command), why);
    }
}

static const struct lw__command_type identities_type = {
    encode_identities, identities_replied, .failed = failed};

/* In a cluster each identity is in a slot of its own, and requested by itself. */
static void encode_identity(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *call = call_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];

    (void)lw__inspect_reply_clients(&call->look, uuids);
    lw__encode_get_identity(out, call->client->holds.prefix, uuids[call->naming]);
}

static void request_next_identity(struct lw__inspect_call *call);

static bool identity_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *call = call_of(command);

    lw__inspect_reply_name_client(&call->look, call->naming++, reply);
    request_next_identity(call);
    return true;
}

static void identity_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__inspect_call *call = call_of(command);

    (void)why;
    (void)sent;
    call->naming++;
    request_next_identity(call);
}

static const struct lw__command_type identity_type = {encode_identity, identity_replied,
                                                      .failed = identity_failed};

static void request_next_identity(struct lw__inspect_call *call)
{
    const char *uuids[LW__INSPECT_ENTRIES];
    size_t count = lw__inspect_reply_clients(&call->look, uuids);
    char key[LW__CLIENT_SIZE];

    for (; call->naming < count; call->naming++) {
        lw__format_client(call->client->holds.prefix, uuids[call->naming], key);
        if (lw__node_send_early(lw__route_find(call->client->route, key, NULL),
                                &call->command, &identity_type, true)) {
            return;
        }
    }
    finish(call, LW_OK, "");
}

/* ---- breaking ---- */

/* Never that of LW_REDISSON: such a lock counts as foreign and has no holders here. */
static const struct lw__mode *mode_of_broken(const struct lw__inspect_call *call)
{
    return &call->client->holds.modes[call->look.entries[call->breaking].mode];
}

static void encode_break(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *call = call_of(command);
    const struct lw_inspected *holder = &call->look.entries[call->breaking];
    bool evals = lw__command_evals(command), rw = mode_of_broken(call)->rw;
    struct lw__script_env env =
        lw__node_script_env(lw__node_of_command(command), slot_of(call));

    if (call->one_key) {
        lw__encode_release_one_key(out, evals, call->name, holder->token, rw);
    } else {
        lw__encode_break(out, evals, call->name, holder->token, rw, &env);
    }
}

static void break_next(struct lw__inspect_call *call);

/* Encodes a message to the client of a holder. */
static void put_message(const struct lw__inspect_call *call, char letter,
                        struct lw__buffer *out)
{
    bool sharded = lw__route_is_cluster(call->client->route);

    lw__encode_message(out, letter, call->client->holds.prefix,
                       sharded ? (int)slot_of(call) : LW__NO_SLOT, call->name,
                       call->look.entries[call->hinted].token);
}

/* The hint to the client of a broken holder is published after the server has confirmed
 * the release. Without it the holder learns of the break at its next renewal. */
static void encode_hint(struct lw__command *command, struct lw__buffer *out)
{
    put_message(call_of(command), 'v', out);
}

static bool hint_replied(struct lw__command *command, const struct lw__reply *reply)
{
    (void)reply;
    break_next(call_of(command));
    return true;
}

static void hint_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)why;
    (void)sent;
    break_next(call_of(command));
}

static const struct lw__command_type hint_type = {encode_hint, hint_replied,
                                                  .failed = hint_failed};

static void send_hint(struct lw__inspect_call *call, size_t holder)
{
    call->hinted = holder;
    if (!lw__format_is_token(call->look.entries[holder].token) ||
        !lw__node_send_early(node_of(call), &call->command, &hint_type, true)) {
        break_next(call);
    }
}

static bool decode_broken(const struct lw__inspect_call *call,
                          const struct lw__reply *reply, struct lw__released *ret)
{
    const struct lw__mode *mode = mode_of_broken(call);

    return call->one_key ? lw__decode_released_one_key(reply, mode->rw, ret)
                         : mode->decode_released(reply, ret);
}

static bool break_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *call = call_of(command);
    size_t holder = call->breaking;
    struct lw__released released;

    if (retry_one_key(call, reply) || end_on_error(call, reply, true)) {
        return true;
    }
    if (!decode_broken(call, reply, &released)) {
        return false;
    }
    call->any_broken = call->any_broken || released.released;
    if (!released.again) { /* else more dead waiters must be skipped */
        call->breaking++;
    }
    if (released.released) {
        send_hint(call, holder);
    } else {
        break_next(call);
    }
    return true;
}

static void break_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__inspect_call *call = call_of(command);

    if (sent) {
        finish(call, LW_EUNKNOWN, why);
    } else {
        finish_unsent(call, lw__node_of_command(command), why);
    }
}

static const struct lw__command_type break_type = {encode_break, break_replied,
                                                   .failed = break_failed};

/* Returns true if the call is to break this holder. The empty token in a read-write lock
 * represents all that are too long to be reported (inspect.lua): only NULL selects it. */
static bool is_selected(const struct lw__inspect_call *call,
                        const struct lw_inspected *holder)
{
    if (call->token == NULL) {
        return true;
    }
    return lw__format_token_matches(call->token, holder->token) &&
           (*holder->token || holder->mode == LW_MUTEX);
}

/* Ends a call that found no holder, or none that was to be broken. */
static void finish_not_held(struct lw__inspect_call *call)
{
    if (*call->look.found.foreign) {
        finish(call, LW_ENOTHELD, "the key was not written by lockwire; left unchanged");
    } else {
        finish(call, LW_ENOTHELD,
               call->token != NULL ? "the token does not hold the lock"
                                   : "the lock is not held");
    }
}

static void break_next(struct lw__inspect_call *call)
{
    const struct lw_inspection *found = &call->look.found;

    while (call->breaking < found->holder_count &&
           !is_selected(call, &call->look.entries[call->breaking])) {
        call->breaking++;
    }
    if (call->breaking < found->holder_count) {
        send_or_finish(call, &break_type);
    } else if (call->any_broken) {
        finish(call, LW_OK, "");
    } else {
        finish_not_held(call);
    }
}

/* ---- asking to yield ---- */

static void encode_request(struct lw__command *command, struct lw__buffer *out)
{
    put_message(call_of(command), 'y', out);
}

static void ask_next(struct lw__inspect_call *call);

/* The reply is the number of connections that received the message. */
static bool request_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *call = call_of(command);

    if (end_on_error(call, reply, false)) {
        return true;
    }
    if (lw__reply_type(reply) != LW__REPLY_INTEGER) {
        return false;
    }
    call->reached += lw__reply_integer(reply) > 0;
    call->hinted++;
    ask_next(call);
    return true;
}

static const struct lw__command_type request_type = {encode_request, request_replied,
                                                     .failed = failed};

/* Sends the message for the next holder whose token is of lockwire, or ends the call. */
static void ask_next(struct lw__inspect_call *call)
{
    const struct lw_inspection *found = &call->look.found;

    while (call->hinted < found->holder_count &&
           !lw__format_is_token(call->look.entries[call->hinted].token)) {
        call->hinted++;
    }
    if (call->hinted < found->holder_count) {
        if (!lw__node_send_early(node_of(call), &call->command, &request_type, true)) {
            finish_unsent(call, node_of(call), lw__node_reason(node_of(call)));
        }
    } else if (found->holder_total > 0) {
        finish(call, LW_OK, "");
    } else {
        finish_not_held(call);
    }
}

/* ---- inspecting ---- */

static void encode_inspect(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *call = call_of(command);
    bool acts = call->broken != NULL || call->yielded != NULL;
    bool may_track = call->watch != NULL && !call->untracked && !call->one_key &&
                     !command->request.asking;

    if (may_track && lw__node_track(lw__node_of_command(command), slot_of(call), out)) {
        command->request.second = (uint32_t)out->length;
        command->request.expected = 2;
    }
    lw__encode_inspect(out, lw__command_evals(command), call->client->holds.prefix,
                       call->name, call->one_key,
                       acts ? MOST_HOLDERS : LW__INSPECT_HOLDERS,
                       acts ? 0 : LW__INSPECT_WAITERS);
}

static bool inspect_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *call = call_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];
    int status;

    if (command->request.expected > 0) { /* the reply to CLIENT CACHING */
        call->tracked = lw__reply_type(reply) != LW__REPLY_ERROR;
        return true;
    }
    lw__node_endpoint(lw__node_of_command(command), call->server);
    call->look.found.server = call->server;
    if (retry_untracked(call, reply) || retry_one_key(call, reply) ||
        end_on_error(call, reply, false)) {
        return true;
    }
    status = lw__inspect_reply_read(&call->look, reply);
    if (status == 0) {
        return false;
    }
    if (status < 0) {
        finish(call, status, "");
    } else if (call->broken != NULL) {
        break_next(call);
    } else if (call->yielded != NULL) {
        ask_next(call);
    } else if (lw__route_is_cluster(call->client->route)) {
        request_next_identity(call);
    } else if (lw__inspect_reply_clients(&call->look, uuids) > 0) {
        send_or_finish(call, &identities_type);
    } else {
        finish(call, LW_OK, "");
    }
    return true;
}

static const struct lw__command_type inspect_type = {encode_inspect, inspect_replied,
                                                     .failed = failed};

/* ---- calls ---- */

void lw__inspect_take_out(struct lw__inspect_call *call)
{
    DL_DELETE(call->client->inspect_calls, call);
    call->client = NULL;
}

void lw__inspect_stop(struct lw__inspect_call *call)
{
    lw__notify_cancel(call->client, &call->notice);
    lw__node_forget(&call->command);
}

void lw__inspect_clear(struct lw__inspect_call *call)
{
    free(call->name);
    free(call->token);
    lw__inspect_reply_clear(&call->look);
}

void lw__inspect_free(struct lw__inspect_call *call)
{
    if (call->client != NULL) {
        lw__inspect_stop(call);
        lw__inspect_take_out(call);
    }
    lw__inspect_clear(call);
    free(call);
}

void lw__inspect_close(struct lw_client *client)
{
    struct lw__inspect_call *call;

    DL_FOREACH(client->inspect_calls, call) {
        lw__node_forget(&call->command);
        if (call->notice.kind == LW__NOTICE_NONE) {
            finish(call, LW_ECLOSED, "");
        }
    }
}

int lw__inspect_init(struct lw__inspect_call *call, struct lw_client *client,
                     const char *name)
{
    call->name = malloc(LW__NAME_SIZE);
    if (call->name == NULL) {
        return LW_ENOMEM;
    }
    (void)lw__format_name(client->holds.prefix, name, call->name);
    lw__inspect_reply_init(&call->look, call->name + client->holds.prefix_length);
    call->client = client;
    return 0;
}

void lw__inspect_look(struct lw__inspect_call *call)
{
    lw__inspect_reply_init(&call->look, call->name + call->client->holds.prefix_length);
    call->naming = 0;
    call->one_key = call->untracked = call->tracked = false;
    send_or_finish(call, &inspect_type);
}

/* Returns NULL if memory is short. */
static struct lw__inspect_call *new_call(struct lw_client *client, const char *text,
                                         const char *token)
{
    struct lw__inspect_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return NULL;
    }
    call->token = token != NULL ? strdup(token) : NULL;
    if ((token != NULL && call->token == NULL) ||
        lw__inspect_init(call, client, text) != 0) {
        lw__inspect_clear(call);
        free(call);
        return NULL;
    }
    DL_APPEND(client->inspect_calls, call);
    return call;
}

struct lw__inspect_call *lw__inspect_for(struct lw_client *client, const char *name,
                                         struct lw__list *list)
{
    struct lw__inspect_call *call = new_call(client, name, NULL);

    if (call != NULL) {
        call->list = list;
        send_or_finish(call, &inspect_type);
    }
    return call;
}

/* The callback of a call: one of these is set. */
struct callback {
    lw_inspect_cb *inspected;
    lw_break_cb *broken;
    lw_yield_cb *yielded;
};

static int start_call(struct lw_client *client, const char *text, const char *token,
                      struct callback done, void *arg)
{
    struct lw__inspect_call *call;
    int status;

    if (done.inspected == NULL && done.broken == NULL && done.yielded == NULL) {
        lw__options_explain(client, "done is NULL");
        return LW_EINVAL;
    }
    status = lw__options_check_call(client, text);
    if (status == 0) {
        status = lw__options_check_single(client);
    }
    if (status != 0) {
        return status;
    }
    call = new_call(client, text, token);
    if (call == NULL) {
        lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    call->inspected = done.inspected;
    call->broken = done.broken;
    call->yielded = done.yielded;
    call->arg = arg;
    send_or_finish(call, &inspect_type);
    return 0;
}

int lw_inspect(struct lw_client *client, const char *name, lw_inspect_cb *done, void *arg)
{
    return start_call(client, name, NULL, (struct callback){.inspected = done}, arg);
}

int lw_break(struct lw_client *client, const char *name, const char *token,
             lw_break_cb *done, void *arg)
{
    return start_call(client, name, token, (struct callback){.broken = done}, arg);
}

int lw_ask_to_yield(struct lw_client *client, const char *name, lw_yield_cb *done,
                    void *arg)
{
    return start_call(client, name, NULL, (struct callback){.yielded = done}, arg);
}

const struct lw_inspected *lw_inspection_holder(const struct lw_inspection *inspection,
                                                size_t index)
{
    const struct lw_inspected *holders = inspection->holders_;

    return index < inspection->holder_count ? &holders[index] : NULL;
}

const struct lw_inspected *lw_inspection_waiter(const struct lw_inspection *inspection,
                                                size_t index)
{
    const struct lw_inspected *waiters = inspection->waiters_;

    return index < inspection->waiter_count ? &waiters[index] : NULL;
}
