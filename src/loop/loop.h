/* SPDX-License-Identifier: MIT */
/* The host's event loop as the rest of the library sees it, with timer.h, defer.h and
 * lookup.h. Outside this directory only the adapter (redis/wire.c) uses libevent. Every
 * callback from libevent first runs the timers that are due, so that deadlines are
 * checked before anything is believed, and does nothing in a forked child of the process
 * that made the loop. */
#ifndef LW_LOOP_H
#define LW_LOOP_H
#include "loop/defer.h"

#include <stdbool.h>

struct event_base;

int lw__loop_new(struct event_base *base, struct lw__loop **ret); /* 0, LW_ENOMEM */
struct event_base *lw__loop_base(struct lw__loop *loop);
/* The libevent priority of its events, 0 (the most urgent) unless it is set: 0, LW_EINVAL
 * where the base does not have it. Those of links take it when they are made. */
int lw__loop_set_priority(struct lw__loop *loop, int priority);
int lw__loop_priority(const struct lw__loop *loop);
int lw__loop_priorities(const struct lw__loop *loop); /* how many the base has */
/* Around what is called by an event that is not the loop's own: runs the timers that are
 * due, which may free the caller. False: the loop itself is gone, and is not left. */
bool lw__loop_enter(struct lw__loop *loop);
/* The same for what follows in that event, and at once: no timer runs. */
void lw__loop_enter_again(struct lw__loop *loop);
void lw__loop_leave(struct lw__loop *loop);
/* All links and lookups must be gone; timers and deferred calls still set are
 * forgotten. May be called from any callback of the loop, and in a forked child. NULL is
 * fine. */
void lw__loop_free(struct lw__loop *loop);

/* Returns true in a forked child of the process that made the loop. */
bool lw__loop_is_child(const struct lw__loop *loop);
/* Returns true in a forked child that may share the kernel's set of watched descriptors
 * with its parent, where what libevent has registered must not be deleted. */
bool lw__loop_shares_set(const struct lw__loop *loop);
/* Called first in each callback from libevent. Returns true in a forked child, where the
 * callback must do nothing else: the loop may be gone. */
bool lw__loop_skips(struct lw__loop *loop);
/* `fn` is called once in a forked child that dispatches the base, to free the loop and
 * all that uses it. */
void lw__loop_on_child(struct lw__loop *loop, lw__call_fn *fn, void *arg);

/* The file that names the servers, /etc/resolv.conf; a test leads elsewhere. */
const char **lw__loop_resolv_conf(struct lw__loop *loop);
#endif
