/* SPDX-License-Identifier: MIT */
/*
 * Two real servers that change roles in good order: one leads, the other is its replica,
 * and no write is lost on the way. Owns the second server (the stage's is the first) and
 * who leads. Connections stay where they are. Must not know lockwire.
 *
 * Happy path: around an executable pair_open and pair_close; in each test pair_set, then
 * pair_fail_over or pair_swap as often as it likes.
 */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H
#include "server.h"

/* With the stage, for CELLS_RUN. The second server's clock is clocks.h's. */
int pair_open(void **state);
int pair_close(void **state);

/* The stage's server leads, the second one follows, and its clock is ahead by so much. */
void pair_set(int64_t ahead_s);
struct server *pair_leader(void);
struct server *pair_follower(void);
/* Until the present roles stand: the follower hears what the leader does. */
void pair_stand(void);
/* Until all that the leader has written has come to its follower. */
void pair_agree(void);
/* pair_stand, then FAILOVER TO the follower, until it leads. */
void pair_fail_over(void);
/* The same by hand, as scripts do it: writes wait, REPLICAOF NO ONE, REPLICAOF. */
void pair_swap(void);

#endif
