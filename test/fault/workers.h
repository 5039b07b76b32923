/* SPDX-License-Identifier: MIT */
/*
 * Processes that contend for one lock, each with a client of its own and several handles
 * at once, and do with it what the canary needs, unfenced: read a shared number, wait,
 * and write it plus one, or as one of several readers see that nobody did. They do the
 * same with a register that their fences protect (resource.h), for those who judge the
 * history. A hold may also end by a detach: then, mostly, its token is left in the shared
 * page for another process, whose hold goes on where the first one ended, so that the
 * canary watches over the time in between as well. Owns the processes, the shared page
 * and their histories (history.h). Must not know which fault strikes.
 *
 * Happy path: workers_start, UNTIL(workers_grants() > n), workers_stop,
 * workers_lost_updates.
 */
#ifndef TEST_WORKERS_H
#define TEST_WORKERS_H
#include "cells.h"
#include "history.h"

#include <sys/types.h>

#define WORKERS 4
#define HANDLES 3 /* of each, at once */
#define DRIVER WORKERS_MAX
#define WORKERS_MAX 32 /* with those that took a dead one's place */
#define LEASE_MS 600

/* What each asks for, and for how long it holds; 0 in a field: as below. */
struct wishes {
    int64_t wait_ms;          /* 2000 */
    uint32_t lease_ms;        /* LEASE_MS */
    uint32_t claim_ms;        /* 300 */
    uint32_t long_hold_every; /* 16: one in so many takes not 1 to 3 ms, but */
    uint32_t long_hold_ms;    /* 250: it outlasts a renewal */
    uint32_t touch_ms;        /* as long as it lasts: so often, or (0) at its end alone */
    uint32_t detach_every;    /* 0: none; one in so many holds ends by lw_detach */
};

/* They ask as the holder and as the waiter of this cell's way, in turn. `unlocked`: they
 * take the lock for granted, for the test of this test. */
void workers_start(const char *dir, const char *url, struct wishes wishes, bool unlocked);
pid_t workers_pid(int index);
void workers_replace(int index); /* kill -9, and another one in its place */
void workers_fork(void);         /* each forks at its next grant; the child frees all */
void workers_loss(bool begins);  /* declared, for the checker */
/* The same, as it turned out afterwards; by history.h's clock. */
void workers_lost_between(int64_t begin_us, int64_t end_us);
/* They end what they have in hand and close their clients. */
void workers_stop(void);
void workers_kill_all(void);

uint64_t workers_grants(void);
uint64_t workers_forks(void); /* children that freed what they had inherited */
/* Updates that were made and are not in the number: 0 while the lock excludes. */
int64_t workers_lost_updates(void);
/* Readers that saw the number change while they held. */
uint64_t workers_disturbed_reads(void);
/* Where the environment's LOCKWIRE_HISTORY_DIR says so, the history is kept there for
 * other judges, as <test>.jsonl. */
struct verdict workers_check(void);

#endif
