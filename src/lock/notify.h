/* SPDX-License-Identifier: MIT */
/* The callbacks that are to be made, in two queues. Calls nobody; deliver.c does. */
#ifndef LW_NOTIFY_H
#define LW_NOTIFY_H
#include "base/escape.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct lw__inquiry;
struct lw__list;
struct lw__renew_call;
struct lw_client;
struct lw_lock;

enum lw__notice_kind {
    LW__NOTICE_NONE,
    LW__NOTICE_DONE, /* of lw_acquire */
    LW__NOTICE_LOST,
    LW__NOTICE_RISK, /* `at_risk`, with the status 1 or 0 */
    LW__NOTICE_RELEASED,
    LW__NOTICE_LATER, /* later.c */
    LW__NOTICE_RENEWED,
    LW__NOTICE_INQUIRED, /* lw_inspect, lw_break */
    LW__NOTICE_LISTING,  /* lw_list has come further */
    LW__NOTICE_LISTED,   /* it has ended */
    LW__NOTICE_LINK,
    LW__NOTICE_CREDENTIALS,
    LW__NOTICE_CLOSED
};

/* A callback to be made; embedded in what it is about. */
struct lw__notice {
    struct lw__notice *next, *prev; /* utlist */
    int status;
    uint8_t kind; /* enum lw__notice_kind; NONE: not queued */
    bool urgent;  /* in which queue */
};

struct lw__link_notice {
    struct lw__notice notice;
    int up;
    char why[LW__WHY_MAX];
};

struct lw__notify {
    struct lw__notice *urgent; /* losses, and what must come right after them */
    struct lw__notice *normal;
    struct lw__deferred call;
};

/* `deliver` is called from the loop, with the client, when there is something. */
void lw__notify_init(struct lw_client *client, lw__call_fn *deliver);
/* Queues the lock's next callback, in place of one that is queued. */
void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status);
void lw__notify_renewed(struct lw__renew_call *call, int status);
void lw__notify_inquiry(struct lw__inquiry *inquiry, int status);
void lw__notify_list(struct lw__list *list, enum lw__notice_kind kind, int status);
void lw__notify_link(struct lw_client *client, int up, const char *why);
void lw__notify_credentials(struct lw_client *client);
void lw__notify_closed(struct lw_client *client);
void lw__notify_cancel(struct lw_client *client, struct lw__notice *notice);
/* The one that comes next; NULL: none. It stays queued. */
struct lw__notice *lw__notify_first(const struct lw_client *client);
/* There are more, and others shall have a turn of the loop. */
void lw__notify_again(struct lw_client *client);
void lw__notify_clear(struct lw_client *client); /* forgets all that is queued */
#endif
