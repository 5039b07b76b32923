/* SPDX-License-Identifier: MIT */
/* What inspect.lua says of a name, as lw_inspect's callers see it. */
#ifndef LW_LOOK_H
#define LW_LOOK_H
#include "lockwire.h"

#include <stddef.h>

struct lw__reply;

#define LW__LOOK_HOLDERS 100 /* that are shown */
#define LW__LOOK_WAITERS 100 /* and as many of each queue */
#define LW__LOOK_ENTRIES (LW__LOOK_HOLDERS + 2 * LW__LOOK_WAITERS)

struct lw__look {
    struct lw_inspection found;
    struct lw_inspected *entries; /* holders, then waiters */
    char *texts, *client_texts;   /* what their strings point into */
};

void lw__look_init(struct lw__look *look, const char *name);
void lw__look_clear(struct lw__look *look);
/* 1, 0: not an answer of ours, LW_ENOMEM. */
int lw__look_read(struct lw__look *look, const struct lw__reply *reply);
/* The tokens of ours among them, which begin with their client's uuid; how many. */
size_t lw__look_clients(const struct lw__look *look, const char *ret[LW__LOOK_ENTRIES]);
/* What MGET answered for these clients; any other answer, or no memory, names nobody. */
void lw__look_name_clients(struct lw__look *look, const struct lw__reply *reply);
/* What GET answered for one of them. */
void lw__look_name_client(struct lw__look *look, size_t which,
                          const struct lw__reply *reply);
#endif
