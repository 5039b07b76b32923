/* SPDX-License-Identifier: MIT */
/* Commands of a node on their way: room for max_inflight of them, those that wait for it,
 * NOSCRIPT. Must not know what any of them is about. Happy path: lw__node_send writes the
 * command and hands it to the link; its reply goes to the command's `answer`. Where the
 * link goes down, `failed` tells those in flight, and those that wait for room. An answer
 * that no server can give takes the link down, with the command failed unless more of its
 * replies are to come; so does lack of memory. */
#include "redis/node_inside.h"

#include "base/container_of.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/link.h"
#include "redis/reply.h"
#include "redis/session.h"

#include <string.h>

/* ---- those that wait for room ---- */

static struct lw__send_queue *rank_of(struct lw__backlog *backlog,
                                      const struct lw__command *command)
{
    return &backlog->ranks[command->type->priority];
}

static void init_backlog(struct lw__backlog *backlog)
{
    for (unsigned order = 0; order < LW__PRIORITIES; order++) {
        backlog->ranks[order] =
            (struct lw__send_queue){NULL, &backlog->ranks[order].first};
    }
    backlog->count = 0;
}

/* `resent`: before all of its order that were not sent yet. As EVAL it goes behind others
 * of that kind, so that requests of one client keep their order. */
static void push(struct lw__backlog *backlog, struct lw__command *command, bool resent)
{
    struct lw__send_queue *rank = rank_of(backlog, command);
    struct lw__request *r = &command->request, **at = resent ? &rank->first : rank->end;

    while (resent && *at != NULL && (*at)->eval) {
        at = &(*at)->next;
    }
    backlog->count++;
    r->next = *at;
    r->prev = at;
    *at = r;
    if (r->next != NULL) {
        r->next->prev = &r->next;
    } else {
        rank->end = &r->next;
    }
}

static void pull(struct lw__backlog *backlog, struct lw__command *command)
{
    struct lw__request *r = &command->request;

    backlog->count--;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in its rank */
    *r->prev = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        rank_of(backlog, command)->end = r->prev;
    }
    r->next = NULL;
    r->prev = NULL;
}

/* The one to be sent next, of the orders up to this one; NULL: none waits. */
static struct lw__command *next_of(const struct lw__backlog *backlog,
                                   enum lw__priority last)
{
    for (unsigned order = 0; order <= last; order++) {
        if (backlog->ranks[order].first != NULL) {
            return LW__CONTAINER_OF(struct lw__command, request,
                                    backlog->ranks[order].first);
        }
    }
    return NULL;
}

struct lw__node *lw__node_of_command(const struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__node, request_type, command->request.type);
}

/* ---- sending ---- */

static void put_asking(struct lw__command *command, struct lw__buffer *out)
{
    lw__buffer_put(out, "*1\r\n$6\r\nASKING\r\n", 16);
    command->request.second = (uint32_t)out->length;
    command->request.expected = 2;
}

/* On failure the link is going down: the command joins the backlog and fails with it. */
static void send_now(struct lw__node *node, struct lw__command *command)
{
    struct lw__buffer *out = &node->buffer;

    lw__buffer_reset(out);
    command->request.expected = 1;
    if (command->request.asking) {
        put_asking(command, out);
    }
    command->type->encode(command, out);
    if (out->failed) {
        lw__session_fail(&node->commands, lw_strerror(LW_ENOMEM));
    } else if (lw__link_send(node->commands.link, &command->request, out->data,
                             out->length) == 0) {
        node->options.stats->commands += command->request.expected;
        return;
    }
    command->request.sent_us = 0;
    push(&node->backlog, command, false);
}

static bool has_room(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_READY &&
           lw__link_inflight(node->commands.link) < node->options.max_inflight;
}

static void pump(void *arg)
{
    struct lw__node *node = arg;
    struct lw__command *next;

    while ((next = next_of(&node->backlog, LW__PRIORITIES - 1)) != NULL &&
           has_room(node)) {
        pull(&node->backlog, next);
        send_now(node, next);
        if (next->request.sent_us == 0) {
            break;
        }
    }
}

void lw__node_submit(struct lw__node *node, struct lw__command *command,
                     const struct lw__command_type *type)
{
    command->request.type = &node->request_type;
    command->request.sent_us = 0;
    command->type = type;
    command->request.eval = command->request.first_reply_seen = false;
    command->request.redirected = command->request.asking = false;
    command->request.hops = 0;
    if (!has_room(node) ||
        (node->backlog.count > 0 && next_of(&node->backlog, type->priority) != NULL)) {
        push(&node->backlog, command, false);
    } else {
        send_now(node, command);
    }
}

void lw__node_send_redirected(struct lw__node *node, struct lw__command *command,
                              bool asking)
{
    command->request.type = &node->request_type;
    command->request.sent_us = 0;
    command->request.eval = command->request.first_reply_seen = false;
    command->request.redirected = false;
    command->request.asking = asking;
    command->request.hops++;
    push(&node->backlog, command, false); /* we may be within a reply */
    lw__node_make_room(node);
}

/* NOSCRIPT is answered with the script's text, once, and never from within the reply.
 * Said of the first of several replies it means no script: the command is not answered
 * yet. */
static bool send_text_instead(struct lw__node *node, struct lw__command *command,
                              const char *error)
{
    if (lw__command_evals(command) || command->request.expected > 0 ||
        command->type->noscript_is_error || lw__classify(error) != LW__ERR_NOSCRIPT) {
        return false;
    }
    command->request.eval = true;
    command->request.first_reply_seen = false;
    command->request.sent_us = 0;
    node->seed_known = false; /* it may have forgotten all of them */
    push(&node->backlog, command, true);
    lw__defer(node->options.config.loop, &node->pump_call, false);
    return true;
}

void lw__node_make_room(void *arg)
{
    struct lw__node *node = arg;

    if (node->backlog.count > 0) {
        lw__defer(node->options.config.loop, &node->pump_call, false);
    }
}

static void fail(struct lw__command *command, const char *why, bool sent)
{
    if (command->type->failed != NULL) {
        command->type->failed(command, why, sent);
    }
}

/* The connection is of no use, or the map: nobody asks for an answer to tell so. */
static void note_error(struct lw__node *node, const char *error)
{
    if (lw__classify(error) == LW__ERR_LINK) {
        lw__node_fail_link(node, error);
    }
    if (node->options.clustered && lw__classify_down(error)) {
        node->events->unsettled(node->arg, node);
    }
}

static void replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__command *command = LW__CONTAINER_OF(struct lw__command, request, request);
    struct lw__node *node = lw__node_of_command(command);

    lw__node_make_room(node);
    if (node->options.clustered && lw__node_is_redirected(node, command, reply)) {
        return;
    }
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *error = lw__reply_text(reply, NULL);

        if (send_text_instead(node, command, error)) {
            return;
        }
        note_error(node, error);
    } else {
        node->doubted = false;
    }
    if (!command->type->on_reply(command, reply)) {
        const char *why = "the server answered what no server can answer";

        lw__node_fail_link(node, why);
        if (request->expected == 0) {
            fail(command, why, true);
        }
    }
}

static void failed(struct lw__request *request, const char *why)
{
    struct lw__command *command = LW__CONTAINER_OF(struct lw__command, request, request);

    lw__node_of_command(command)->up =
        false; /* `down` follows; nobody shall send meanwhile */
    fail(command, why, true);
}

bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type)
{
    if (!node->up) {
        return false;
    }
    lw__node_submit(node, command, type);
    return true;
}

/* For the first time, or it is there and only its counter is asked for. */
static bool comes_up(const struct lw__node *node)
{
    return node->commands.state == LW__SESSION_CONNECTING ||
           (node->commands.state == LW__SESSION_BACKOFF &&
            node->commands.backoff_ms == 0) ||
           (node->commands.state == LW__SESSION_READY && node->seed.request.prev != NULL);
}

bool lw__node_send_early(struct lw__node *node, struct lw__command *command,
                         const struct lw__command_type *type)
{
    if (!node->up && !(node->options.clustered && comes_up(node))) {
        return false;
    }
    lw__node_submit(node, command, type);
    return true;
}

void lw__node_forget(struct lw__command *command)
{
    struct lw__node *node;

    if (command->request.prev == NULL) {
        return;
    }
    node = lw__node_of_command(command);
    if (lw__node_is_unsent(command)) {
        pull(&node->backlog, command);
    } else if (node->commands.link != NULL) {
        lw__link_forget(node->commands.link, &command->request);
    }
}

bool lw__node_has_room(const struct lw__node *node)
{
    return !node->up || (node->backlog.count == 0 && has_room(node));
}

bool lw__node_is_idle(const struct lw__node *node)
{
    return node->backlog.count == 0 &&
           (node->commands.link == NULL || lw__link_inflight(node->commands.link) == 0);
}

bool lw__node_is_unsent(const struct lw__command *command)
{
    return command->request.prev != NULL && command->request.sent_us == 0;
}

void lw__node_fail_link(struct lw__node *node, const char *why)
{
    node->up = false;
    lw__session_fail(&node->commands, why);
}

void lw__node_fail_waiting(struct lw__node *node, const char *why)
{
    struct lw__command *command;

    while ((command = next_of(&node->backlog, LW__PRIORITIES - 1)) != NULL) {
        pull(&node->backlog, command);
        fail(command, why, false);
    }
}

void lw__node_send_init(struct lw__node *node)
{
    node->request_type = (struct lw__request_type){replied, failed};
    init_backlog(&node->backlog);
    lw__defer_init(&node->pump_call, pump, node);
}
