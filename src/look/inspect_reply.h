/* SPDX-License-Identifier: MIT */
/* The reply of inspect.lua about one name, in the form that lw_inspect hands out. */
#ifndef LW_INSPECT_REPLY_H
#define LW_INSPECT_REPLY_H
#include "lockwire.h"

#include <stddef.h>

struct lw__reply;

/* At most as many holders, and waiters of each queue, are shown. */
#define LW__INSPECT_HOLDERS 100
#define LW__INSPECT_WAITERS 100
#define LW__INSPECT_ENTRIES (LW__INSPECT_HOLDERS + 2 * LW__INSPECT_WAITERS)

struct lw__inspect_reply {
    struct lw_inspection found;
    struct lw_inspected *entries; /* holders, then waiters */
    char *texts, *client_texts;   /* memory of the strings in entries */
};

void lw__inspect_reply_init(struct lw__inspect_reply *result, const char *name);
void lw__inspect_reply_clear(struct lw__inspect_reply *result);
/* Returns 1, 0 if the reply cannot be inspect.lua's, or LW_ENOMEM. */
int lw__inspect_reply_read(struct lw__inspect_reply *result,
                           const struct lw__reply *reply);
/* Fills in the tokens of the entries that belong to lockwire clients, and returns their
 * number. A token begins with the uuid of its client. */
size_t lw__inspect_reply_clients(const struct lw__inspect_reply *result,
                                 const char *ret[LW__INSPECT_ENTRIES]);
/* Adds the clients' identities to these entries, from the reply to MGET. Has no effect if
 * the reply is another one, or without memory. */
void lw__inspect_reply_name_clients(struct lw__inspect_reply *result,
                                    const struct lw__reply *reply);
/* The same for the entry with the index `which` among these, from the reply to GET. */
void lw__inspect_reply_name_client(struct lw__inspect_reply *result, size_t which,
                                   const struct lw__reply *reply);
#endif
