/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of clients of a real cluster: clients, names that belong to a node,
 * and a contended hold of each kind. Independent of what happens to the cluster.
 *
 * Usual course: cluster_set(3, 0, ""), b = client("b"), A = hold_of(client("a"), "A",
 * name, &kinds[0]), B = queue_behind(b, "B", A, &kinds[0]), hand_over(A, B).
 */
#ifndef SERVER_CLUSTER_PLAYERS_H
#define SERVER_CLUSTER_PLAYERS_H
#include "cluster.h"
#include "players.h"

/* A kind of lock: the modes of its holder and of its waiter. */
struct kind {
    const char *name;
    enum lw_mode holder, waiter;
    uint32_t permits; /* of both, if they share */
};
#define KINDS 5
extern const struct kind kinds[KINDS];

/* Starts a client of the whole cluster, and waits until it knows the slots. The second
 * one has asked_to_yield: on_asked. */
struct peer *client(const char *label);
struct peer *client_that_is_asked(const char *label, uint32_t request_timeout_ms);
/* Returns the number-th name whose slot this node owns; valid until the call after the
 * next four. */
const char *name_at(int node, int number);
int slot_of(const struct hold *hold);

struct hold *hold_of(struct peer *peer, const char *label, const char *name,
                     const struct kind *kind, uint32_t lease_ms);
/* Requests the lock, and waits until the request is in the queue. */
struct hold *queue_behind(struct peer *peer, const char *label, const struct hold *holder,
                          const struct kind *kind);
/* Releases `from`, and checks that a message hands the lock over to `to`. */
void hand_over(struct hold *from, struct hold *to);
/* The same, however the waiter finds out. */
void pass_on(struct hold *from, struct hold *to);
void end(struct hold *hold);
/* Checks the hold at the node that owns its slot now. */
void assert_held(const struct hold *hold);

#endif
