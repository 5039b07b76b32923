/* SPDX-License-Identifier: MIT */
/*
 * A cluster (cluster.h) with a gate (proxy.h) in front of each node's port, and one in
 * front of its bus, which are all that it tells of itself: so a node is cut off from the
 * others as a partition does it. Nothing that either side says is heard, not even that
 * it was said; all of it comes late, as TCP has it. Owns the gates. Must not know
 * lockwire.
 *
 * Clients come from 127.0.0.1 and each node from an address of its own, so that a gate
 * knows whom it keeps out.
 *
 * The loop of the test is what carries the bytes: who blocks it for CLUSTER_TIMEOUT_MS
 * has parted all.
 *
 * Happy path: gated_set(3, 3), gated_part(0, true), UNTIL(cluster_is_down_by(0)),
 * cluster_promoted(3), gated_part(0, false), cluster_stand().
 */
#ifndef TEST_GATED_H
#define TEST_GATED_H
#include "cluster.h"

void gated_set(int masters, int replicas);

/* Nothing passes on the bus between this node and all others, or again. Meanwhile it is
 * none of those who must agree. */
void gated_part(int node, bool on);
/* Nor what masters write to their replicas, between it and them. */
void gated_part_streams(int node, bool on);
/* Clients reach this node alone. */
void gated_keep_clients_at(int node, bool on);

#endif
