/* SPDX-License-Identifier: MIT */
/* lw_inspect and lw_break: who holds a name, who waits for it, and taking it away. Owns
 * the calls on their way. Does not touch any handle: every holder, also one of this
 * client, learns of a break from a renewal, which a message asks for at once.
 *
 * Happy path: inspect.lua's answer (look.c); who the clients in it are (MGET) -> the
 * callback. lw_break takes the first step alone, then releases what it found there, each
 * holder by its token, so that a holder who came meanwhile is left alone. Each call is
 * tried once: no link, no answer or an error ends it, and lw_break says LW_EUNKNOWN where
 * something may have been broken.
 *
 * While a slot of a cluster is on its way only what is about one key is answered: then
 * who holds the name is told and broken all the same, and who waits for it is not seen.
 */
#include "lock/lock_private.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "lockwire.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BROKEN_HOLDERS 1000 /* that one lw_break takes the lock from */

static struct lw__inspect_call *inquiry_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__inspect_call, command, command);
}

static struct lw__node *node_of(const struct lw__inspect_call *inquiry)
{
    return lw__route_find(inquiry->client->route, inquiry->name, NULL);
}

static unsigned slot_of(const struct lw__inspect_call *inquiry)
{
    return lw__route_slot(inquiry->client->route, inquiry->name);
}

/* What ends too early is not "not done" where some of it was. */
static void finish(struct lw__inspect_call *inquiry, int status, const char *why)
{
    if (inquiry->any_broken && (status == LW_ECONN || status == LW_EREDIS)) {
        status = LW_EUNKNOWN;
    }
    lw__escape(why, inquiry->why, sizeof(inquiry->why));
    lw__notify_inspected(inquiry, status);
}

static void send_or_finish(struct lw__inspect_call *inquiry,
                           const struct lw__command_type *type)
{
    if (!lw__node_send_early(node_of(inquiry), &inquiry->command, type)) {
        finish(inquiry, LW_ECONN, lw__node_reason(node_of(inquiry)));
    }
}

static bool is_error(struct lw__inspect_call *inquiry, const struct lw__reply *reply)
{
    int status = LW_EREDIS;
    const char *text;

    if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    }
    text = lw__reply_text(reply, NULL);
    if (inquiry->broken == NULL || lw__reply_undone(reply)) {
        status = lw__classify_status(text);
    } /* else some of it may have been done */
    finish(inquiry, status, text);
    return true;
}

/* In place of a script about several keys that was refused for that: whether it goes on
 * by the one. */
static bool goes_on_alone(struct lw__inspect_call *inquiry, const struct lw__reply *reply,
                          const struct lw__command_type *alone)
{
    if (inquiry->one_key || lw__reply_type(reply) != LW__REPLY_ERROR ||
        !lw__classify_moving(lw__reply_text(reply, NULL))) {
        return false;
    }
    inquiry->one_key = true;
    send_or_finish(inquiry, alone);
    return true;
}

static void put_who(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];
    size_t count = lw__inspect_reply_clients(&inquiry->look, uuids);

    lw__encode_get_identities(out, count, uuids);
}

/* Who they are is an extra: without permission for it the rest is told. */
static bool who_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);

    lw__inspect_reply_name_clients(&inquiry->look, reply);
    finish(inquiry, LW_OK, "");
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    (void)sent;
    finish(inquiry_of(command), LW_ECONN, why);
}

static const struct lw__command_type who_type = {put_who, who_answered, failed,
                                                 .priority = LW__PRIORITY_NEW};

/* In a cluster each stands in a slot of its own. */
static void put_who_one(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];

    (void)lw__inspect_reply_clients(&inquiry->look, uuids);
    lw__encode_get_identity(out, uuids[inquiry->naming]);
}

static void ask_who_next(struct lw__inspect_call *inquiry);

static bool who_one_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);

    lw__inspect_reply_name_client(&inquiry->look, inquiry->naming++, reply);
    ask_who_next(inquiry);
    return true;
}

/* Who one of them is is an extra. */
static void who_one_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);

    (void)why;
    (void)sent;
    inquiry->naming++;
    ask_who_next(inquiry);
}

static const struct lw__command_type who_one_type = {
    put_who_one, who_one_answered, who_one_failed, LW__PRIORITY_NEW, .one_key = true};

static void ask_who_next(struct lw__inspect_call *inquiry)
{
    const char *uuids[LW__INSPECT_ENTRIES];
    size_t count = lw__inspect_reply_clients(&inquiry->look, uuids);
    char key[LW__CLIENT_SIZE];

    for (; inquiry->naming < count; inquiry->naming++) {
        lw__format_client(uuids[inquiry->naming], key);
        if (lw__node_send_early(lw__route_find(inquiry->client->route, key, NULL),
                                &inquiry->command, &who_one_type)) {
            return;
        }
    }
    finish(inquiry, LW_OK, "");
}

/* Where it is Redisson's it is a stranger's, and not among the holders. */
static const struct lw__mode *mode_of_broken(const struct lw__inspect_call *inquiry)
{
    return &inquiry->client->modes[inquiry->look.entries[inquiry->breaking].mode];
}

static void put_break(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    const struct lw_inspected *holder = &inquiry->look.entries[inquiry->breaking];
    bool evals = lw__command_evals(command), rw = mode_of_broken(inquiry)->rw;
    struct lw__script_env site =
        lw__node_script_env(lw__node_of_command(command), slot_of(inquiry));

    if (inquiry->one_key) {
        lw__encode_break_alone(out, evals, inquiry->name, holder->token, rw);
    } else {
        lw__encode_break(out, evals, inquiry->name, holder->token, rw, &site);
    }
}

static void break_next(struct lw__inspect_call *inquiry);

/* The hint to the holder that was broken. It is published only after the server has
 * confirmed the release, and best effort: without it the holder finds out at its next
 * renewal. */
static void put_hint(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    bool sharded = lw__route_is_cluster(inquiry->client->route);

    lw__encode_verify(out, sharded ? (int)slot_of(inquiry) : -1, inquiry->name,
                      inquiry->look.entries[inquiry->hinted].token);
}

static bool hint_answered(struct lw__command *command, const struct lw__reply *reply)
{
    (void)reply;
    break_next(inquiry_of(command));
    return true;
}

static void hint_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)why;
    (void)sent;
    break_next(inquiry_of(command));
}

static const struct lw__command_type hint_type = {put_hint, hint_answered, hint_failed,
                                                  LW__PRIORITY_NEW, .one_key = true};

static void hint_to(struct lw__inspect_call *inquiry, size_t holder)
{
    inquiry->hinted = holder;
    if (!lw__format_is_token(inquiry->look.entries[holder].token) ||
        !lw__node_send_early(node_of(inquiry), &inquiry->command, &hint_type)) {
        break_next(inquiry);
    }
}

static bool decode_broken(const struct lw__inspect_call *inquiry,
                          const struct lw__reply *reply, struct lw__released *ret)
{
    const struct lw__mode *mode = mode_of_broken(inquiry);
    bool good = inquiry->one_key && !mode->rw ? lw__decode_fast_released(reply, ret)
                                              : mode->decode_released(reply, ret);

    if (inquiry->one_key) {
        ret->again = false; /* nobody behind it is looked at */
    }
    return good;
}

static void break_failed(struct lw__command *command, const char *why, bool sent);
static bool break_answered(struct lw__command *command, const struct lw__reply *reply);

static const struct lw__command_type break_alone_type = {
    put_break, break_answered, break_failed, LW__PRIORITY_NEW, .one_key = true};

static bool break_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    size_t holder = inquiry->breaking;
    struct lw__released answer;

    if (goes_on_alone(inquiry, reply, &break_alone_type) || is_error(inquiry, reply)) {
        return true;
    }
    if (!decode_broken(inquiry, reply, &answer)) {
        return false;
    }
    inquiry->any_broken = inquiry->any_broken || answer.released;
    if (!answer.again) { /* else more dead heads are to be passed over first */
        inquiry->breaking++;
    }
    if (answer.released) {
        hint_to(inquiry, holder);
    } else {
        break_next(inquiry);
    }
    return true;
}

static void break_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);

    finish(inquiry, sent ? LW_EUNKNOWN : LW_ECONN, why);
}

static const struct lw__command_type break_type = {
    put_break, break_answered, break_failed, .priority = LW__PRIORITY_NEW};

/* An empty token of a hold stands for all that are too long to be named (inspect.lua),
 * and so is nobody's. */
static bool is_meant(const struct lw__inspect_call *inquiry,
                     const struct lw_inspected *holder)
{
    if (inquiry->token == NULL) {
        return true;
    }
    return lw__format_token_matches(inquiry->token, holder->token) &&
           (*holder->token || holder->mode == LW_MUTEX);
}

static void break_next(struct lw__inspect_call *inquiry)
{
    const struct lw_inspection *found = &inquiry->look.found;

    while (inquiry->breaking < found->holder_count &&
           !is_meant(inquiry, &inquiry->look.entries[inquiry->breaking])) {
        inquiry->breaking++;
    }
    if (inquiry->breaking < found->holder_count) {
        send_or_finish(inquiry, inquiry->one_key ? &break_alone_type : &break_type);
    } else if (inquiry->any_broken) {
        finish(inquiry, LW_OK, "");
    } else if (*found->stranger) {
        finish(inquiry, LW_ENOTHELD, "the key is a stranger's, and is not touched");
    } else {
        finish(inquiry, LW_ENOTHELD,
               inquiry->token != NULL ? "that token does not hold it"
                                      : "nobody holds it");
    }
}

static void put_inspect(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);

    lw__encode_inspect(out, lw__command_evals(command), inquiry->name, inquiry->one_key,
                       inquiry->broken != NULL ? BROKEN_HOLDERS : LW__INSPECT_HOLDERS,
                       inquiry->broken != NULL ? 0 : LW__INSPECT_WAITERS);
}

static bool inspect_answered(struct lw__command *command, const struct lw__reply *reply);

static const struct lw__command_type inspect_alone_type = {
    put_inspect, inspect_answered, failed, LW__PRIORITY_NEW, .one_key = true};

static bool inspect_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inspect_call *inquiry = inquiry_of(command);
    const char *uuids[LW__INSPECT_ENTRIES];
    int status;

    lw__node_endpoint(lw__node_of_command(command), inquiry->server);
    inquiry->look.found.server = inquiry->server;
    if (goes_on_alone(inquiry, reply, &inspect_alone_type) || is_error(inquiry, reply)) {
        return true;
    }
    status = lw__inspect_reply_read(&inquiry->look, reply);
    if (status == 0) {
        return false;
    }
    if (status < 0) {
        finish(inquiry, status, "");
    } else if (inquiry->broken != NULL) {
        break_next(inquiry);
    } else if (lw__route_is_cluster(inquiry->client->route)) {
        ask_who_next(inquiry);
    } else if (lw__inspect_reply_clients(&inquiry->look, uuids) > 0) {
        send_or_finish(inquiry, &who_type);
    } else {
        finish(inquiry, LW_OK, "");
    }
    return true;
}

static const struct lw__command_type inspect_type = {
    put_inspect, inspect_answered, failed, .priority = LW__PRIORITY_NEW};

void lw__inspect_free(struct lw__inspect_call *inquiry)
{
    struct lw_client *client = inquiry->client;

    if (client != NULL) {
        lw__notify_cancel(client, &inquiry->notice);
        lw__node_forget(&inquiry->command);
        DL_DELETE(client->inspect_calls, inquiry);
    }
    free(inquiry->name);
    free(inquiry->token);
    lw__inspect_reply_clear(&inquiry->look);
    free(inquiry);
}

void lw__inspect_close(struct lw_client *client)
{
    struct lw__inspect_call *inquiry;

    DL_FOREACH(client->inspect_calls, inquiry) {
        lw__node_forget(&inquiry->command);
        if (inquiry->notice.kind == LW__NOTICE_NONE) {
            finish(inquiry, LW_ECLOSED, "");
        }
    }
}

/* NULL: no memory. */
static struct lw__inspect_call *make(struct lw_client *client, const char *text,
                                     const char *token)
{
    struct lw__inspect_call *inquiry = calloc(1, sizeof(*inquiry));

    if (inquiry == NULL) {
        return NULL;
    }
    inquiry->name = strdup(text);
    inquiry->token = token != NULL ? strdup(token) : NULL;
    if (inquiry->name == NULL || (token != NULL && inquiry->token == NULL)) {
        lw__inspect_free(inquiry);
        return NULL;
    }
    lw__inspect_reply_init(&inquiry->look, inquiry->name);
    inquiry->client = client;
    DL_APPEND(client->inspect_calls, inquiry);
    return inquiry;
}

struct lw__inspect_call *lw__inspect_for(struct lw_client *client, const char *name,
                                         struct lw__list *list)
{
    struct lw__inspect_call *inquiry = make(client, name, NULL);

    if (inquiry != NULL) {
        inquiry->list = list;
        send_or_finish(inquiry, &inspect_type);
    }
    return inquiry;
}

static int ask(struct lw_client *client, const char *text, const char *token,
               lw_inspect_cb *inspected, lw_break_cb *broken, void *arg)
{
    struct lw__inspect_call *inquiry;
    int status;

    if (inspected == NULL && broken == NULL) {
        lw__options_explain(client, "done is NULL");
        return LW_EINVAL;
    }
    status = lw__name_check(client, text);
    if (status != 0) {
        return status;
    }
    inquiry = make(client, text, token);
    if (inquiry == NULL) {
        lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    inquiry->inspected = inspected;
    inquiry->broken = broken;
    inquiry->arg = arg;
    send_or_finish(inquiry, &inspect_type);
    return 0;
}

int lw_inspect(struct lw_client *client, const char *name, lw_inspect_cb *done, void *arg)
{
    return ask(client, name, NULL, done, NULL, arg);
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

int lw_break(struct lw_client *client, const char *name, const char *token,
             lw_break_cb *done, void *arg)
{
    return ask(client, name, token, NULL, done, arg);
}
