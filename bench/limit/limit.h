/* SPDX-License-Identifier: MIT */
/*
 * The limits: the cost of the usual ways of locking, with only hiredis. Each family of
 * them is one file; main() in limit.c chooses.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H
#include "measure.h"

#include <event2/event.h>

/* U: every slot has its own key; variants plain, hash, fence, pipelined, connections,
 * and delifeq, delifeq-fence for servers with a command that compares and deletes. */
uint64_t limit_uncontended(struct event_base *base,
                           const struct measure_options *options);
/* D, L, N: the release hands over the lock; variants handover, turns. */
uint64_t limit_handover(struct event_base *base, const struct measure_options *options);
/* D, L, N: the release publishes, then the waiters race; variants race, herd. */
uint64_t limit_race(struct event_base *base, const struct measure_options *options);

/* Ends event_base_dispatch after options->seconds. */
void limit_stop_after(struct event_base *base, const struct measure_options *options);
/* Calls `then` after `us`; at once if it is 0. */
void limit_later(struct event_base *base, unsigned us, void (*then)(void *arg),
                 void *arg);
#endif
