/* SPDX-License-Identifier: MIT */
/*
 * Processes that contend for one lock, each with a client of its own and several handles
 * at once. A holder uses the unfenced canary: it reads a shared number, waits, and writes
 * the number plus one; a reader checks that the number has not changed. It does the same
 * with a register that fencing tokens protect (resource.h), for the checkers of the
 * history. A hold may also end by a detach. Then its token is mostly left in the shared
 * page for another process, whose hold continues the first one, so that the canary covers
 * the time in between as well. This file owns the processes, the shared page and their
 * histories (history.h). Independent of the fault that strikes.
 *
 * Usual course: workers_start, UNTIL(workers_grants() > n), workers_stop,
 * workers_lost_updates.
 */
#ifndef TEST_WORKERS_H
#define TEST_WORKERS_H
#include "cells.h"
#include "history.h"

#include <sys/types.h>

#define WORKERS 4
#define HANDLES 3 /* of each process, at once */
#define DRIVER WORKERS_MAX
#define WORKERS_MAX 32 /* including the processes that replace dead ones */
#define LEASE_MS 600

/* What each process requests, and for how long it holds. A field that is 0 means: */
struct wishes {
    int64_t wait_ms;          /* 2000 */
    uint32_t lease_ms;        /* LEASE_MS */
    uint32_t claim_ms;        /* 300 */
    uint32_t long_hold_every; /* 16: one in so many holds is long, others 1 to 3 ms */
    uint32_t long_hold_ms;    /* 250: a long hold, longer than a renewal interval */
    uint32_t touch_ms;        /* interval of uses while it lasts; 0: at its end only */
    uint32_t detach_every;    /* 0: none; one in so many holds ends by lw_detach */
};

/* Starts the processes, which request the lock in the holder's and in the waiter's mode
 * of this cell's way, in turn. With `unlocked` they do not lock at all, so that the
 * checks must fail. */
void workers_start(const char *dir, const char *url, struct wishes wishes, bool unlocked);
pid_t workers_pid(int index);
void workers_replace(int index); /* kill -9, and starts another one */
void workers_fork(void);         /* each forks at its next grant; the child frees all */
void workers_loss(bool begins);  /* records the beginning or end of a loss of state */
/* Records a loss that is known only afterwards; by history.h's clock. */
void workers_lost_between(int64_t begin_us, int64_t end_us);
/* Has the processes finish their present operations and close their clients. */
void workers_stop(void);
void workers_kill_all(void);

uint64_t workers_grants(void);
uint64_t workers_forks(void); /* children that freed what they had inherited */
/* Returns the number of updates that were made but are missing from the shared number: 0
 * if the lock excludes. */
int64_t workers_lost_updates(void);
/* Returns the number of readers that saw the number change while they held. */
uint64_t workers_disturbed_reads(void);
/* Checks the history. If LOCKWIRE_HISTORY_DIR is set in the environment, the history is
 * stored there for other checkers, as <test>.jsonl. */
struct verdict workers_check(void);

#endif
