/* SPDX-License-Identifier: MIT */
/*
 * A real Redis Cluster, private to one test: owns its nodes' processes and ports, and
 * which slots move where. Must not know lockwire. What cannot be done fails the running
 * test with a text.
 *
 * Nodes are numbered: masters first, then replicas, the first one the first master's.
 * Each listens at a port of 127.0.0.1, which nobody else is given while it is down, and
 * at the one 10,000 above, for the others. A node that is killed and started again has
 * the same address and the same id, and no keys, unless `args` had it keep them.
 *
 * To kill, to stop and to thaw a node there are server.h's functions on cluster_server().
 * Who is silent for CLUSTER_TIMEOUT_MS is called down by the others, so a test that gives
 * its nodes no time has a master replaced; cluster_check() has it played again.
 *
 * With LOCKWIRE_TLS in the environment clients come over TLS, to ports of their own, and
 * nodes speak it with each other (server.h; Redis 7 and later).
 *
 * Happy path: cluster_set(3, 3, ""), slot = cluster_slot("name"), cluster_move(slot, 1),
 * server_kill(cluster_server(1)), cluster_promoted(4).
 */
#ifndef TEST_CLUSTER_H
#define TEST_CLUSTER_H
#include "server.h"

#include <stdbool.h>

#define CLUSTER_MOST 8 /* nodes, those that were added or forgotten as well */
#define CLUSTER_SLOTS 16384
#define CLUSTER_TIMEOUT_MS 1000

/* Until all nodes agree and call the cluster well; it ends with the test. `replicas` is 0
 * or as many as masters. `args`: of redis-server, beside the usual ones. */
void cluster_set(int masters, int replicas, const char *args);

/* All of them masters at another address of this machine than 127.0.0.1. */
void cluster_set_at(const char *address, int masters, const char *args);

/* The same, but each node tells of itself other ports than those where it listens, and
 * comes from another address. (What stands there leads to it.) */
struct cluster_told {
    int port, bus_port;
    char from[24];
};
typedef struct cluster_told cluster_teller(int node, int port, int bus_port);
void cluster_set_told(int masters, int replicas, const char *args,
                      cluster_teller *teller);

/* Before Redis 7.0 there are no channels of slots, so that nobody has a place in a queue:
 * then the test is skipped. */
void cluster_need_places(void);

int cluster_count(void);
struct server *cluster_server(int node);
int cluster_port(int node);
/* By which nodes name a node among each other, and reach it to MIGRATE: what it tells, or
 * that of clients over TLS, if there are such, since Redis 7.0 tells them no other. */
int cluster_main_port(int node);
const char *cluster_address(int node); /* host:port, as nodes tell it without TLS */
const char *cluster_id(int node);
/* Where clients find every node, between commas. */
const char *cluster_hosts(void);
const char *cluster_url(void); /* with redis-cluster:// or rediss-cluster:// */
/* Of the nodes, that which has this port; -1: none. */
int cluster_at(int port);

/* ---- whose a slot is ---- */

int cluster_slot(const char *key); /* as a node computes it */
/* Whom this node takes for the slot's master; -1: nobody it has heard of. */
int cluster_owner_by(int node, int slot);
/* The same of all that run, as soon as they say the same. */
int cluster_owner(int slot);
/* What the test asks of the stage's server is asked of who has that slot now; until the
 * cluster ends. */
void cluster_ask_owner(int slot);
/* Until all that run say the same of roles, slots and links; no more than that. */
void cluster_agree(void);
/* Until they also call the cluster well, and each replica has its master. */
void cluster_stand(void);
/* Plays the test again, unless all slots are where they were after the start and after
 * what was done here. */
void cluster_check(void);

/* ---- slots move ---- */

/* Step by step. From here on, keys that the owner lacks are asked for at `to`. */
void cluster_begin(int slot, int to);
/* So many keys of the slot go to `to`, or all that there are: -1. */
void cluster_carry(int slot, int to, int count);
void cluster_carry_key(const char *key, int to);
/* `to` is told first, the owner next: there is always one. Returns when all agree. */
void cluster_end(int slot, int to);
/* All of these at once. */
void cluster_move(int slot, int to);
/* As one step of the servers' own, with all its keys; false: this version has none. */
bool cluster_move_whole(int slot, int to);

/* ---- nodes that do not hear of each other ---- */

/* It is none of those who must agree, or is again. */
void cluster_leave_out(int node, bool on);
/* It calls the cluster down. */
bool cluster_is_down_by(int node);
/* The first one takes the second one for dead, not only by its own opinion. */
bool cluster_has_failed(int by, int node);

/* ---- nodes come, go and change their roles ---- */

/* `how`: "" (the master agrees), "FORCE" (the other masters do), "TAKEOVER" (nobody is
 * asked). Returns when the replica calls itself a master. */
void cluster_fail_over(int replica, const char *how);
/* Until all that run take this node for a master, and the cluster for well. */
void cluster_promoted(int node);
/* An empty master more, known to all; its number. */
int cluster_add(void);
/* All others forget one that has no slots; it ends. */
void cluster_forget(int node);
/* A further node that no other knows, and that knows no other: it has these slots and
 * serves them. It is not among cluster_hosts(). Returns its number. */
int cluster_add_alone(int first, int last);

#endif
