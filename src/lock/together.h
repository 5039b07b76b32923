/* SPDX-License-Identifier: MIT */
/* The holds of one owner, where a mode has handles hold a claim together. */
#ifndef LW_TOGETHER_H
#define LW_TOGETHER_H
#include <stdbool.h>

struct lw__claim;
struct lw_lock;

/* true: its owner has the lock already, or asks for it, and the handle has joined in. */
bool lw__together_join(struct lw_lock *lock);
/* Held, or held longer: who waits enters. */
void lw__together_admit(struct lw__claim *claim);
/* It does not hold by its claim any more, and is told nothing. Alone or not. */
void lw__together_leave(struct lw_lock *lock);
#endif
