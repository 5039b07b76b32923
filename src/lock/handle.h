/* SPDX-License-Identifier: MIT */
/* One handle: it waits, holds, loses, ends. */
#ifndef LW_HANDLE_H
#define LW_HANDLE_H

struct lw__claim;
struct lw_lock;

/* It waits for the claim, behind all others or before them. */
void lw__handle_wait(struct lw__claim *claim, struct lw_lock *lock);
void lw__handle_wait_first(struct lw__claim *claim, struct lw_lock *lock);
/* It does not wait any more, and has the claim no longer unless it holds. */
void lw__handle_wait_no_more(struct lw__claim *claim, struct lw_lock *lock);
/* All who wait for the one wait for the other, which nobody waits for yet. */
void lw__handle_move_waiters(struct lw__claim *from, struct lw__claim *to);
/* The end of one that waits no more: `done` will be called with this; why may be NULL.
 * Where it is LW_EBUSY the caller sets `retry_ms` then. */
void lw__handle_finish(struct lw_lock *lock, int status, const char *why);
/* It holds, and will be told. */
void lw__handle_hold(struct lw__claim *claim, struct lw_lock *lock);
/* It was told that it holds. */
void lw__handle_told(struct lw_lock *lock);
/* Its deadline moved, or a warning is due. */
void lw__handle_arm_loss(struct lw_lock *lock);
/* It holds no longer: `reason` as for `lost`. Its calls of lw_renew are to end, too. */
void lw__handle_lose(struct lw_lock *lock, int reason);
/* What lw_lock_errstr says; "": nothing. */
void lw__handle_set_errstr(struct lw_lock *lock, const char *why);
/* Ends its memory if it is freed and no callback of it runs. */
void lw__handle_unref(struct lw_lock *lock);
/* The same at once, of one that no list has. */
void lw__handle_free(struct lw_lock *lock);
#endif
