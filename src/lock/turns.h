/* SPDX-License-Identifier: MIT */
/* Whose turn it is among the handles that share a claim. */
#ifndef LW_TURNS_H
#define LW_TURNS_H
#include "lock/claim.h"

#include <stdbool.h>

struct lw__node;

extern const struct lw__claim_events lw__turns_events;
int lw__turns_join(struct lw_lock *lock);    /* 0, LW_ENOMEM */
void lw__turns_let_go(struct lw_lock *lock); /* held: passes on, or releases */
/* Its release goes on, and is told as LW_EUNKNOWN: what comes of it is not awaited. */
void lw__turns_give_up_release(struct lw_lock *lock);
void lw__turns_withdraw(struct lw_lock *lock); /* waiting: leaves */
void lw__turns_timer(void *arg);               /* a lock */
/* Waiters ask at once (behind a sibling's try: when that is over), open releases are
 * sent; `verify`: holds are renewed, since the server may be another one. */
void lw__turns_ask_all(struct lw_client *client, const struct lw__node *node,
                       bool verify);
/* In one slot there, whose messages do not come any more. */
void lw__turns_ask_slot(struct lw_client *client, const struct lw__node *node,
                        unsigned slot);
void lw__turns_lead_all(struct lw_client *client); /* to where slots lead now */
void lw__turns_link_down(struct lw_client *client, const struct lw__node *node);
#endif
