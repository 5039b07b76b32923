/* SPDX-License-Identifier: MIT */
/* lw_inspect and lw_break, and what lw_list looks at: the calls on their way. */
#ifndef LW_INSPECT_H
#define LW_INSPECT_H
#include "lock/notify.h"
#include "redis/command.h"
#include "redis/inspect_reply.h"

#include <stdbool.h>
#include <stddef.h>

struct lw__list;

struct lw__inquiry {
    struct lw__command command;
    struct lw__notice notice;
    struct lw__inquiry *next, *prev; /* all of the client */
    struct lw_client *client;
    lw_inspect_cb *inspected; /* or */
    lw_break_cb *broken;      /* or */
    struct lw__list *list;    /* list.c's own */
    void *arg;
    char *name, *token; /* token: the only one to break, or NULL */
    struct lw__inspect_reply look;
    size_t naming;   /* in a cluster, the client who is asked for */
    size_t breaking; /* the holder whose release is in flight */
    size_t hinted;   /* the broken holder whose client is asked to verify */
    bool alone;      /* the slot is on its way: only the name's own key is looked at */
    bool any_broken;
    char why[LW__WHY_MAX], server[LW__TEXT_MAX];
};

/* For a list. NULL: no memory. */
struct lw__inquiry *lw__inspect_for(struct lw_client *client, const char *name,
                                    struct lw__list *list);
void lw__inspect_free(struct lw__inquiry *inquiry);
void lw__inspect_close(struct lw_client *client); /* all end with LW_ECLOSED */
#endif
