/* SPDX-License-Identifier: MIT */
/* lw_list: the calls on their way. */
#ifndef LW_LIST_H
#define LW_LIST_H
#include "base/escape.h"
#include "lock/notify.h"
#include "lockwire.h"
#include "redis/command.h"
#include "redis/resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW__LIST_LOOKS 8 /* at names, at once */

struct lw__inquiry;

struct lw__list {
    struct lw__command command; /* the next step of SCAN */
    struct lw__notice notice;   /* of how far it is, or its end */
    struct lw__list *next, *prev;
    struct lw_client *client; /* NULL: it is gone, or done with */
    lw_found_cb *found;
    lw_listed_cb *done;
    void *arg;
    char *pattern; /* or NULL */
    struct lw_listing listing;
    uint64_t keys_before; /* of the servers before this one */
    char cursor[LW__DIGITS];
    unsigned link;     /* of the server that is scanned: the cursor is of that process */
    char *names;       /* that the step found, each with its NUL */
    const char *name;  /* the next one of them to be looked at */
    size_t names_left; /* from there on */
    size_t looking;
    struct lw__inquiry *looks[LW__LIST_LOOKS]; /* NULL: free */
    bool over, in_callback;
    char why[LW__WHY_MAX];
    unsigned map; /* the cluster's that is waited for; 0: none is */
    bool checked; /* by a fresh one: no slot that is done was elsewhere */
    unsigned slots;
    unsigned scans[]; /* how it stands about each slot (list.c) */
};

/* One of its inquiries is answered: whether there is a lock to be told of. Then
 * lw__list_told follows, else lw__list_go_on. */
bool lw__list_looked(struct lw__list *list, struct lw__inquiry *inquiry, int status);
void lw__list_go_on(struct lw__list *list);
/* After `found`: the caller had enough, or not; and may have ended anything. */
void lw__list_told(struct lw__list *list, bool stops);
void lw__list_free(struct lw__list *list);
/* Names lead elsewhere, or nowhere. */
void lw__list_led(struct lw_client *client);
/* No map of this number was to be had, or none at all: what waits for it ends. */
void lw__list_unmapped(struct lw_client *client, unsigned map, const char *why);
void lw__list_close(struct lw_client *client); /* all end with LW_ECLOSED */
#endif
