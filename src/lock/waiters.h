/* SPDX-License-Identifier: MIT */
/* The handles that wait for a claim, in order of arrival. */
#ifndef LW_WAITERS_H
#define LW_WAITERS_H

struct lw__claim;
struct lw_lock;

void lw__waiters_append(struct lw__claim *claim, struct lw_lock *lock);
void lw__waiters_prepend(struct lw__claim *claim, struct lw_lock *lock);
/* It does not wait any more, and has the claim no longer unless it holds. */
void lw__waiters_remove(struct lw__claim *claim, struct lw_lock *lock);
/* Moves all of them to another claim, that nobody waits for. */
void lw__waiters_move(struct lw__claim *from, struct lw__claim *to);
/* A waiting handle's end: `done` will be called with this; why may be NULL. */
void lw__waiters_finish(struct lw_lock *lock, int status, const char *why);
#endif
