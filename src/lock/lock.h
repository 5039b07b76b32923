/* SPDX-License-Identifier: MIT */
/* The calls on a handle: its options, what a client's end does to one. */
#ifndef LW_LOCK_H
#define LW_LOCK_H

struct lw_acquire_options;
struct lw_client;
struct lw_lock;

/* Copies the options given (may be NULL) into `ret`, with defaults filled in. Returns 0,
 * or LW_EINVAL with an explanation in errbuf. */
int lw__lock_options(struct lw_client *client, const struct lw_acquire_options *given,
                     struct lw_acquire_options *ret);

void lw__lock_make_inert(struct lw_lock *lock); /* its client goes */
void lw__lock_close(struct lw_lock *lock);      /* its client closes */
#endif
