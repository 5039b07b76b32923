/* SPDX-License-Identifier: MIT */
/*
 * What the tests of clients of a real cluster share: clients at it, names by the node
 * that has them, and a contended hold of each kind. Must not know what becomes of the
 * cluster.
 *
 * Happy path: cluster_set(3, 0, ""), b = client("b"), A = hold_of(client("a"), "A", name,
 * &kinds[0]), B = queue_behind(b, "B", A, &kinds[0]), hand_over(A, B).
 */
#ifndef SERVER_CLUSTER_PLAYERS_H
#define SERVER_CLUSTER_PLAYERS_H
#include "cluster.h"
#include "players.h"

/* As what a lock is held and as what it is waited for. */
struct kind {
    const char *name;
    enum lw_mode holder, waiter;
    uint32_t permits; /* of both, where they share */
};
#define KINDS 5
extern const struct kind kinds[KINDS];

/* Of the whole cluster; it knows the slots. */
struct peer *client(const char *label);
/* The number-th name whose slot this node has; until the call after the next four. */
const char *name_at(int node, int number);
int slot_of(const struct hold *hold);

struct hold *hold_of(struct peer *peer, const char *label, const char *name,
                     const struct kind *kind, uint32_t lease_ms);
/* Asked for, and until it has its place. */
struct hold *queue_behind(struct peer *peer, const char *label, const struct hold *holder,
                          const struct kind *kind);
/* Released, and the one that waits is told by a message. */
void hand_over(struct hold *from, struct hold *to);
/* The same, however it finds out. */
void pass_on(struct hold *from, struct hold *to);
void end(struct hold *hold);
/* By who has its slot now. */
void assert_held(const struct hold *hold);

#endif
