/* SPDX-License-Identifier: MIT */
/* The commands of a node: at most max_inflight are outstanding, the others wait; scripts
 * are sent by their SHA-1, and after NOSCRIPT with their text; a cluster's node may
 * redirect a command. Independent of what a command is about.
 *
 * lw__node_send encodes the command and hands it to the link; its reply goes to the
 * command's `on_reply`. If the connection is lost, `failed` is called for the commands in
 * flight and for those that wait. An invalid reply ends the connection; the command has
 * failed unless more of its replies are to come. Without memory the connection ends, too.
 *
 * A reply with MOVED or ASK goes to `redirected` in place of `on_reply`, once all replies
 * of the command are in. */
#include "redis/node_private.h"

#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/explain.h"
#include "redis/link.h"
#include "redis/reply.h"
#include "redis/session.h"

#include <string.h>
#include <syslog.h>

/* ---- commands that wait for room ---- */

static struct lw__send_queue *queue_of(struct lw__backlog *backlog,
                                       const struct lw__command *command)
{
    return &backlog->queues[command->request.priority];
}

static void init_backlog(struct lw__backlog *backlog)
{
    for (unsigned i = 0; i < LW__PRIORITIES; i++) {
        backlog->queues[i] = (struct lw__send_queue){NULL, &backlog->queues[i].first};
    }
    backlog->count = 0;
}

/* Adds the command to the queue of its priority. `resent`: with its script's text, before
 * all commands that have not been sent, behind others that are resent, so that requests
 * of one client keep their order. */
static void push(struct lw__backlog *backlog, struct lw__command *command, bool resent)
{
    struct lw__send_queue *queue = queue_of(backlog, command);
    struct lw__request *r = &command->request, **at = resent ? &queue->first : queue->end;

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
        queue->end = &r->next;
    }
}

static void pull(struct lw__backlog *backlog, struct lw__command *command)
{
    struct lw__request *r = &command->request;

    backlog->count--;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in its queue */
    *r->prev = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        queue_of(backlog, command)->end = r->prev;
    }
    r->next = NULL;
    r->prev = NULL;
}

/* Returns the command to be sent next, of the priorities up to `last`, or NULL. */
static struct lw__command *next_of(const struct lw__backlog *backlog,
                                   enum lw__priority last)
{
    for (unsigned i = 0; i <= (unsigned)last; i++) {
        if (backlog->queues[i].first != NULL) {
            return LW__CONTAINER_OF(struct lw__command, request,
                                    backlog->queues[i].first);
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

/* On failure the connection is ending: the command joins the backlog and fails with it.
 */
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

static void submit(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type, enum lw__priority priority,
                   bool one_key)
{
    command->request.type = &node->request_type;
    command->request.sent_us = 0;
    command->type = type;
    command->request.eval = command->request.first_reply_seen = false;
    command->request.redirected = command->request.asking = false;
    command->request.one_key = one_key;
    command->request.hops = 0;
    command->request.priority = (uint8_t)priority;
    if (!has_room(node) ||
        (node->backlog.count > 0 && next_of(&node->backlog, priority) != NULL)) {
        push(&node->backlog, command, false);
    } else {
        send_now(node, command);
    }
}

void lw__node_send_own(struct lw__node *node, struct lw__command *command,
                       const struct lw__command_type *type)
{
    submit(node, command, type, LW__PRIORITY_RENEW, false);
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

/* ---- replies ---- */

static void fail(struct lw__command *command, const char *why, bool sent)
{
    if (command->type->failed != NULL) {
        command->type->failed(command, why, sent);
    }
}

void lw__node_reject_command(struct lw__command *command, const char *why)
{
    fail(command, why, false);
}

/* Takes the reply to ASKING, which precedes the command's own. If ASKING is refused the
 * command is redirected again, or refused for that reason, which its own reply does not
 * tell; or it is executed, if the slot has arrived in the meantime. Returns true if the
 * reply has been dealt with. */
static bool take_asking(struct lw__node *node, struct lw__command *command,
                        const struct lw__reply *reply)
{
    if (!command->request.asking) {
        return false;
    }
    if (command->request.expected > 0) {
        lw__escape(lw__reply_type(reply) == LW__REPLY_ERROR ? lw__reply_text(reply, NULL)
                                                            : "",
                   node->first_error, sizeof(node->first_error));
        return true;
    }
    if (node->first_error[0] == '\0' || lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    }
    node->events->slot_unsettled(node->arg, node); /* is the slot still there? */
    lw__node_reject_command(command, node->first_error);
    return true;
}

/* A slot that is migrating has some of its keys at either node: only for a command with
 * one key ASK says where the key would be. */
static bool is_redirect(const struct lw__command *command, const struct lw__reply *reply,
                        struct lw__redirect *ret)
{
    const char *text = lw__reply_text(reply, NULL);

    return lw__reply_type(reply) == LW__REPLY_ERROR &&
           lw__cluster_parse_redirect(text, strlen(text), ret) &&
           (!ret->ask || command->request.one_key);
}

/* A command that is about the node itself stays there, but MOVED says that the node is no
 * master any more, which nothing else may show. */
static void note_moved(struct lw__node *node, const struct lw__command *command,
                       const struct lw__reply *reply)
{
    struct lw__redirect redirect;

    if (is_redirect(command, reply, &redirect) && !redirect.ask) {
        node->events->slot_unsettled(node->arg, node);
    }
}

/* Returns true if the reply belongs to a command that is redirected, which its first
 * reply decides. The others have no meaning; with the last one the command goes to
 * `redirected`. */
static bool is_redirected(struct lw__node *node, struct lw__command *command,
                          const struct lw__reply *reply)
{
    struct lw__request *r = &command->request;

    if (take_asking(node, command, reply)) {
        return true;
    }
    if (command->type->node_bound) {
        note_moved(node, command, reply);
        return false;
    }
    if (!r->first_reply_seen && is_redirect(command, reply, &node->redirect)) {
        r->redirected = true;
    }
    r->first_reply_seen = true;
    if (r->redirected && r->expected == 0) {
        node->events->redirected(node->arg, node, command, &node->redirect);
        return true;
    }
    return r->redirected;
}

/* After NOSCRIPT the script's text is sent, once, and never from within the reply. A
 * first reply of several is not a script's. */
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
    node->seed_known = false; /* it may have lost all of them */
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

/* Users read an error without its place in a script, which tells a developer most. */
static void log_place(const struct lw__node *node, const struct lw__reply *reply)
{
    const char *error = lw__reply_error(reply);

    if (strstr(error, "user_script:") != NULL) {
        lw__log(node->options.config.log, LOG_DEBUG, "error of a script: %s", error);
    }
}

/* The error may be about the connection, or about the slot map, whatever the command. */
static void note_error(struct lw__node *node, const char *error)
{
    char why[LW_WHY_SIZE];

    if (lw__classify(error) == LW__ERR_LINK) {
        lw__node_fail_link(node, lw__explain(error, why));
    }
    if (node->options.clustered && lw__classify_down(error)) {
        node->events->slot_unsettled(node->arg, node);
    }
}

static void replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__command *command = LW__CONTAINER_OF(struct lw__command, request, request);
    struct lw__node *node = lw__node_of_command(command);

    lw__node_make_room(node);
    if (node->options.clustered && is_redirected(node, command, reply)) {
        return;
    }
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *error = lw__reply_text(reply, NULL);

        if (send_text_instead(node, command, error)) {
            return;
        }
        log_place(node, reply);
        note_error(node, error);
    } else {
        node->deprioritized = false;
    }
    if (!command->type->on_reply(command, reply)) {
        const char *why = "invalid reply: the server sent something this command cannot "
                          "return";

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
        false; /* `down` follows; nothing may be sent before */
    fail(command, why, true);
}

bool lw__node_send(struct lw__node *node, struct lw__command *command,
                   const struct lw__command_type *type, enum lw__priority priority,
                   bool one_key)
{
    if (!node->up || node->options.inert) {
        return false;
    }
    submit(node, command, type, priority, one_key);
    return true;
}

/* Returns true in the node's first attempt, and while its fence counter is being set. */
static bool comes_up(const struct lw__node *node)
{
    return lw__session_is_connecting(&node->commands) ||
           (node->commands.state == LW__SESSION_BACKOFF &&
            node->commands.backoff_ms == 0) ||
           (node->commands.state == LW__SESSION_READY && node->seed.request.prev != NULL);
}

bool lw__node_send_early(struct lw__node *node, struct lw__command *command,
                         const struct lw__command_type *type, bool one_key)
{
    if (!node->up && !(node->options.clustered && comes_up(node))) {
        return false;
    }
    submit(node, command, type, LW__PRIORITY_NEW, one_key);
    return true;
}

void lw__node_forget(struct lw__command *command)
{
    if (command->request.prev == NULL) {
        return;
    }
    if (lw__node_is_unsent(command)) {
        pull(&lw__node_of_command(command)->backlog, command);
    } else {
        lw__link_forget(&command->request);
    }
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
