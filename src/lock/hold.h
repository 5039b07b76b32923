/* SPDX-License-Identifier: MIT */
/* One handle's hold: its beginning, its deadline, its loss. */
#ifndef LW_HOLD_H
#define LW_HOLD_H

struct lw__claim;
struct lw_lock;

/* It holds, and will be told. */
void lw__hold_begin(struct lw__claim *claim, struct lw_lock *lock);
void lw__hold_arm_loss(struct lw_lock *lock); /* its deadline moved */
/* It holds no longer: `reason` as for `lost`. */
void lw__hold_lose(struct lw_lock *lock, int reason);
#endif
