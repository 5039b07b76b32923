/* SPDX-License-Identifier: MIT */
/* The calls on a handle: what a client's end does to one. */
#ifndef LW_LOCK_H
#define LW_LOCK_H

struct lw_lock;

void lw__lock_make_inert(struct lw_lock *lock); /* its client goes */
void lw__lock_close(struct lw_lock *lock);      /* its client closes */
#endif
