/* SPDX-License-Identifier: MIT */
/* Replies by which a cluster's node sends a command elsewhere: MOVED, ASK, and what came
 * of an ASKING. Must not know where that is. Happy path: the first reply says so, the
 * last one is in, `redirected`. */
#include "redis/node_inside.h"

#include "base/escape.h"
#include "redis/cluster_parse.h"
#include "redis/reply.h"

#include <string.h>

void lw__node_reject_command(struct lw__command *command, const char *why)
{
    if (command->type->failed != NULL) {
        command->type->failed(command, why, false);
    }
}

/* The answer to ASKING says nothing, but where that is refused: then the command was sent
 * on once more, or refused for that, which does not tell why; or done, if the slot has
 * come meanwhile. */
static bool take_preface(struct lw__node *node, struct lw__command *command,
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
    node->events->unsettled(node->arg, node); /* is it there still? */
    lw__node_reject_command(command, node->first_error);
    return true;
}

/* A slot that is on its way has some keys there, and some here: of one key alone it can
 * be said where it would be. */
static bool is_redirect(const struct lw__command *command, const struct lw__reply *reply,
                        struct lw__redirect *ret)
{
    const char *text = lw__reply_text(reply, NULL);

    return lw__reply_type(reply) == LW__REPLY_ERROR &&
           lw__cluster_parse_redirect(text, strlen(text), ret) &&
           (!ret->ask || command->type->one_key);
}

/* By what is about the node itself it is told as well that the node is no master now,
 * where nothing else is sent. */
static void note_moved(struct lw__node *node, const struct lw__command *command,
                       const struct lw__reply *reply)
{
    struct lw__redirect redirect;

    if (is_redirect(command, reply, &redirect) && !redirect.ask) {
        node->events->unsettled(node->arg, node);
    }
}

/* The first of its replies decides: what comes behind it is of no meaning, and then it is
 * handed on as a whole. */
bool lw__node_is_redirected(struct lw__node *node, struct lw__command *command,
                            const struct lw__reply *reply)
{
    struct lw__request *r = &command->request;

    if (take_preface(node, command, reply)) {
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
