/* SPDX-License-Identifier: MIT */
/* The host's event loop as the rest of the library sees it, with timer.h, defer.h and
 * lookup.h. No other room but the link's adapter (redis/wire.c) uses libevent. Every
 * entry from libevent first runs the timers that are due, so that deadlines are looked at
 * before anything is believed. */
#ifndef LW_LOOP_H
#define LW_LOOP_H
#include <stdbool.h>

struct lw__loop;

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
 * forgotten. May be called from any callback of the loop. NULL is fine. */
void lw__loop_free(struct lw__loop *loop);
/* In a forked child, in place of lw__loop_free: the same, without touching what the
 * parent's kernel objects know (epoll is shared), before or after the child's
 * event_reinit. Only a look-up under way is left to the child's base. */
void lw__loop_abandon(struct lw__loop *loop);

/* The file that names the servers, /etc/resolv.conf; a test leads elsewhere. */
const char **lw__loop_resolv_conf(struct lw__loop *loop);
#endif
