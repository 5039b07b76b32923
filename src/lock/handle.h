/* SPDX-License-Identifier: MIT */
/* One handle: it waits, holds, loses, ends. */
#ifndef LW_HANDLE_H
#define LW_HANDLE_H

#include <stdint.h>

struct lw__claim;
struct lw_lock;

/* It waits for the claim, behind all others or before them. */
void lw__handle_wait(struct lw__claim *claim, struct lw_lock *lock);
void lw__handle_wait_first(struct lw__claim *claim, struct lw_lock *lock);
/* It does not wait any more, and has the claim no longer unless it holds. */
void lw__handle_wait_no_more(struct lw__claim *claim, struct lw_lock *lock);
/* Right after lw_acquire with wait_ms 0: the attempt ends by then, even if neither a
 * reply nor request_timeout_ms has ended it. */
void lw__handle_limit_try(struct lw_lock *lock, int64_t at_us);
/* All who wait for the one wait for the other, which nobody waits for yet. */
void lw__handle_move_waiters(struct lw__claim *from, struct lw__claim *to);
/* Ends a handle that waits no more: `done` will be called with this status. `error` and
 * `why` are for lw_lock_error and lw_lock_errstr, which stay as they are if `why` is
 * NULL. If the status is LW_EBUSY the caller sets `retry_ms` then. */
void lw__handle_finish(struct lw_lock *lock, int status, int error, const char *why);
/* The same without a word. */
void lw__handle_end(struct lw_lock *lock, int status);
/* The same since the name's node is not up. */
void lw__handle_unserved(struct lw_lock *lock, int status);
/* It holds, and will be told. */
void lw__handle_hold(struct lw__claim *claim, struct lw_lock *lock);
/* It was told that it holds. */
void lw__handle_told(struct lw_lock *lock);
/* Its deadline moved, or a warning is due. */
void lw__handle_arm_loss(struct lw_lock *lock);
/* For a caller that has not passed on what `at_risk` was called with so far: calls it
 * with 1 again, later, if the hold is still at risk, and otherwise drops a pending call
 * with 0. For a held handle only. */
void lw__handle_repeat_risk(struct lw_lock *lock);
/* It holds no longer: `reason` as for `lost`. Its calls of lw_renew are to end, too. */
void lw__handle_lose(struct lw_lock *lock, int reason);
/* Sets what lw_lock_error and lw_lock_errstr return; why "": there is no error. */
void lw__handle_set_error(struct lw_lock *lock, int error, const char *why);
/* Sets both to why the name's node is not up, if it is not. */
void lw__handle_note_link(struct lw_lock *lock);
/* Ends its memory if it is freed and no callback of it runs. */
void lw__handle_unref(struct lw_lock *lock);
/* The same at once, of one that no list has. */
void lw__handle_free(struct lw_lock *lock);
#endif
