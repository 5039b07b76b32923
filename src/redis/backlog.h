/* SPDX-License-Identifier: MIT */
/*
 * Commands that wait for room on the link, in ranks by their order (command.h), first
 * come first served in each. Needs no memory: a command's request is its link in the
 * rank. Must not know when there is room.
 */
#ifndef LW_BACKLOG_H
#define LW_BACKLOG_H
#include "redis/command.h"

#include <stdbool.h>
#include <stddef.h>

struct lw__backlog {
    struct lw__rank {
        struct lw__request *first, **end;
    } ranks[LW__ORDERS];
    size_t count; /* in all ranks: mostly 0, and asked for at each command and reply */
};

void lw__backlog_init(struct lw__backlog *backlog);
/* `resent`: before all of its order that were not sent yet. */
void lw__backlog_push(struct lw__backlog *backlog, struct lw__command *command,
                      bool resent);
void lw__backlog_pull(struct lw__backlog *backlog, struct lw__command *command);
/* The one to be sent next, of the orders up to this one; NULL: none waits. */
struct lw__command *lw__backlog_next(const struct lw__backlog *backlog,
                                     enum lw__order last);
#endif
