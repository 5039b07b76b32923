/* SPDX-License-Identifier: MIT */
/*
 * Two real servers that change roles in an orderly way: one leads, the other is its
 * replica, and no write is lost. Connections stay where they are. This file owns the
 * second server (the stage's is the first), and knows which one leads. Independent of
 * lockwire.
 *
 * Usual course: pair_open and pair_close around an executable; in each test pair_set,
 * then pair_fail_over or pair_swap any number of times.
 */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H
#include "server.h"

/* Set up and tear down the stage as well, for CELLS_RUN. The second server's clock is
 * clocks.h's. */
int pair_open(void **state);
int pair_close(void **state);

/* Makes the stage's server lead and the second server follow. The second server's clock
 * is ahead_s seconds ahead. */
void pair_set(int64_t ahead_s);
struct server *pair_leader(void);
struct server *pair_follower(void);
/* Waits until the replication works in the present roles. */
void pair_stand(void);
/* Waits until the follower has received all that the leader has written. */
void pair_agree(void);
/* Calls pair_stand, then sends FAILOVER TO the follower, and waits until it leads. */
void pair_fail_over(void);
/* Does the same by hand, as scripts do: pauses writes, then REPLICAOF NO ONE,
 * REPLICAOF. */
void pair_swap(void);

#endif
