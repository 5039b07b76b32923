/* SPDX-License-Identifier: MIT */
/* A command to a node: a request that is encoded when it is sent, as soon as there is
 * room. */
#ifndef LW_COMMAND_H
#define LW_COMMAND_H
#include "redis/link.h"

#include <stdbool.h>

struct lw__buffer;
struct lw__node;

/* The order in which commands are sent that wait for room. Those of one priority keep
 * their order. */
enum lw__priority {
    LW__PRIORITY_RENEW, /* renews or releases a hold */
    LW__PRIORITY_RETRY, /* a request that was sent before, so that it precedes new ones */
    LW__PRIORITY_NEW,
    LW__PRIORITIES
};

/* Embedded in its owner, which must keep it until its last reply or `failed`, or call
 * lw__node_forget. Until then request.prev is not NULL. */
struct lw__command {
    struct lw__request request; /* its type is the node's; sent by node_send.c */
    const struct lw__command_type *type;
};

struct lw__command_type {
    /* Encodes the command, at the moment of sending. Sets request.expected if it has two
     * replies. */
    void (*encode)(struct lw__command *command, struct lw__buffer *out);
    /* Called for each of its replies, in order. Returns false if the command cannot have
     * this reply. */
    bool (*on_reply)(struct lw__command *command, const struct lw__reply *reply);
    /* There will be no reply. `sent`: the command may have been executed. NULL if the
     * owner learns of it otherwise. */
    void (*failed)(struct lw__command *command, const char *why, bool sent);
    bool node_bound; /* about this node, never redirected to another one */
    /* NOSCRIPT goes to `on_reply` as any other error, and the command is not sent again:
     * the error does not concern its first reply. */
    bool noscript_is_error;
};

/* Returns true if the script's text has to be sent, which the server does not know. */
static inline bool lw__command_evals(const struct lw__command *command)
{
    return command->request.eval;
}
#endif
