/* SPDX-License-Identifier: MIT */
/* What a handle is told of errors, and its memory's end. */
#ifndef LW_HANDLE_H
#define LW_HANDLE_H

struct lw_lock;

/* What lw_lock_errstr says; "": nothing. */
void lw__handle_set_errstr(struct lw_lock *lock, const char *why);
/* Ends its memory if it is freed and no callback of it runs. */
void lw__handle_unref(struct lw_lock *lock);
/* The same at once, of one that no list has. */
void lw__handle_free(struct lw_lock *lock);
#endif
