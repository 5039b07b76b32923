/* SPDX-License-Identifier: MIT */
/* What inspect.lua says of a name, as lw_inspect's callers see it. */
#ifndef LW_INSPECT_REPLY_H
#define LW_INSPECT_REPLY_H
#include "lockwire.h"

#include <stddef.h>

struct lw__reply;

#define LW__INSPECT_HOLDERS 100 /* that are shown */
#define LW__INSPECT_WAITERS 100 /* and as many of each queue */
#define LW__INSPECT_ENTRIES (LW__INSPECT_HOLDERS + 2 * LW__INSPECT_WAITERS)

struct lw__inspect_reply {
    struct lw_inspection found;
    struct lw_inspected *entries; /* holders, then waiters */
    char *texts, *client_texts;   /* what their strings point into */
};

void lw__inspect_reply_init(struct lw__inspect_reply *look, const char *name);
void lw__inspect_reply_clear(struct lw__inspect_reply *look);
/* 1, 0: not an answer of ours, LW_ENOMEM. */
int lw__inspect_reply_read(struct lw__inspect_reply *look, const struct lw__reply *reply);
/* The tokens of ours among them, which begin with their client's uuid; how many. */
size_t lw__inspect_reply_clients(const struct lw__inspect_reply *look,
                                 const char *ret[LW__INSPECT_ENTRIES]);
/* What MGET answered for these clients; any other answer, or no memory, names nobody. */
void lw__inspect_reply_name_clients(struct lw__inspect_reply *look,
                                    const struct lw__reply *reply);
/* What GET answered for one of them. */
void lw__inspect_reply_name_client(struct lw__inspect_reply *look, size_t which,
                                   const struct lw__reply *reply);
#endif
