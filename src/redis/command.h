/* SPDX-License-Identifier: MIT */
/* What is sent to a node and answered: a request that is written when there is room. */
#ifndef LW_COMMAND_H
#define LW_COMMAND_H
#include "redis/link.h"

#include <stdbool.h>

struct lw__buffer;
struct lw__node;

/* Who goes first when commands have to wait for room; among themselves in order. */
enum lw__priority {
    LW__PRIORITY_RENEW, /* keeps what is held, or lets go of it */
    LW__PRIORITY_RETRY, /* asks once more, and so came before those that never did */
    LW__PRIORITY_NEW,
    LW__PRIORITIES
};

/* Embedded in its owner, who keeps it until it is answered or failed, or forgets it;
 * until then request.prev is not NULL. */
struct lw__command {
    struct lw__request request; /* type: the node's; its sender is node_send.c */
    const struct lw__command_type *type;
};

struct lw__command_type {
    /* Writes the command as it is wanted at the moment of sending; sets
     * request.expected where two replies are to come. */
    void (*encode)(struct lw__command *command, struct lw__buffer *out);
    /* Each of its replies, in order. false: no server can have answered that. */
    bool (*on_reply)(struct lw__command *command, const struct lw__reply *reply);
    /* No answer will come. sent: it may have been executed. NULL: who asked knows. */
    void (*failed)(struct lw__command *command, const char *why, bool sent);
    enum lw__priority priority;
    bool node_bound; /* it is about this node, and of no use at another one */
    bool one_key;
    bool noscript_is_error; /* NOSCRIPT, which says nothing of its first reply, is told as
                               any error */
};

/* The server does not know the script: its text is to be sent. */
static inline bool lw__command_evals(const struct lw__command *command)
{
    return command->request.eval;
}
#endif
