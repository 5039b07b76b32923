/* SPDX-License-Identifier: MIT */
/*
 * A cluster (cluster.h) with one gate (proxy.h) in front of each node's port, and another
 * one in front of its bus port. The nodes announce only the gates, so that a node can be
 * cut off from the others as by a network partition: bytes are held back in both
 * directions, also the end of a connection, and are delivered late, as TCP would. This
 * file owns the gates. Independent of lockwire.
 *
 * Clients connect from 127.0.0.1, and each node from an address of its own, by which a
 * gate knows whom to hold back.
 *
 * The test's event loop carries the bytes: if a test blocks it for CLUSTER_TIMEOUT_MS,
 * all nodes are parted.
 *
 * Usual course: gated_set(3, 3), gated_part(0, true), UNTIL(cluster_is_down_by(0)),
 * cluster_promoted(3), gated_part(0, false), cluster_stand().
 */
#ifndef TEST_GATED_H
#define TEST_GATED_H
#include "cluster.h"

void gated_set(int masters, int replicas);

/* Cuts the bus between this node and all others, or restores it. In the meantime the node
 * is not one of those that must agree. */
void gated_part(int node, bool on);
/* Does the same with the replication streams between this node and the others. */
void gated_part_streams(int node, bool on);
/* Lets clients reach this node alone, or all nodes again. */
void gated_keep_clients_at(int node, bool on);

#endif
