/* SPDX-License-Identifier: MIT */
/*
 * A real Redis Cluster, private to one test. Owns its nodes' processes and ports, and
 * moves slots. Independent of lockwire. A step that fails makes the running test fail
 * with a text.
 *
 * Nodes are numbered: masters first, then replicas; the first replica is the first
 * master's. Each node listens at a port of 127.0.0.1, which stays reserved while the node
 * is down, and for the other nodes at the port 10,000 above. A node that is killed and
 * started again has the same address and the same id. It has no keys, unless `args` made
 * it store them.
 *
 * To kill, stop and thaw a node, use server.h's functions on cluster_server(). The nodes
 * declare a node down that is silent for CLUSTER_TIMEOUT_MS, so a test on a slow machine
 * may see a master replaced; cluster_check() then repeats the test.
 *
 * With LOCKWIRE_TLS in the environment clients connect by TLS, to ports of their own, and
 * nodes use TLS among each other (server.h; Redis 7 and later).
 *
 * Usual course: cluster_set(3, 3, ""), slot = cluster_slot("name"), cluster_move(slot,
 * 1), server_kill(cluster_server(1)), cluster_promoted(4).
 */
#ifndef TEST_CLUSTER_H
#define TEST_CLUSTER_H
#include "server.h"

#include <stdbool.h>

#define CLUSTER_MOST 8 /* nodes, including those that were added or forgotten */
#define CLUSTER_SLOTS 16384
#define CLUSTER_TIMEOUT_MS 1000

/* Starts a cluster, and returns when all nodes agree and report it as ok. It ends with
 * the test. `replicas` is 0 or equal to `masters`. `args` are further arguments of
 * redis-server. */
void cluster_set(int masters, int replicas, const char *args);

/* The same with masters only, at another address of this machine than 127.0.0.1. */
void cluster_set_at(const char *address, int masters, const char *args);

/* The same, but each node announces other ports than those at which it listens, and
 * connects from another address. (The test must forward from the announced ports to the
 * node.) */
struct cluster_told {
    int port, bus_port;
    char from[24];
};
typedef struct cluster_told cluster_teller(int node, int port, int bus_port);
void cluster_set_told(int masters, int replicas, const char *args,
                      cluster_teller *teller);

/* Skips the test before Redis 7.0, which has no sharded channels, so that no waiter has a
 * place in a queue. */
void cluster_need_places(void);
/* Returns false there. */
bool cluster_has_places(void);

int cluster_count(void);
struct server *cluster_server(int node);
int cluster_port(int node);
/* Returns the port by which nodes name this node among each other, and connect to it for
 * MIGRATE: the announced one, else the port for TLS clients if there is one, since Redis
 * 7.0 announces no other. */
int cluster_main_port(int node);
const char *cluster_address(int node); /* host:port, as nodes announce it without TLS */
const char *cluster_id(int node);
/* Returns the addresses of all nodes for clients, separated by commas. */
const char *cluster_hosts(void);
const char *cluster_url(void); /* with redis-cluster:// or rediss-cluster:// */
/* Returns the node that has this port, or -1. */
int cluster_at(int port);

/* ---- the owner of a slot ---- */

int cluster_slot(const char *key); /* as a node computes it */
/* Returns the slot's master according to this node, or -1 if it knows none. */
int cluster_owner_by(int node, int slot);
/* Returns the slot's master as soon as all running nodes agree on it. */
int cluster_owner(int slot);
/* Sends the test's own commands for the stage's server to the present owner of this slot
 * instead, until the cluster ends. */
void cluster_ask_owner(int slot);
/* Waits until all running nodes agree on roles, slots and links, report the cluster as
 * ok, and each replica has its master. */
void cluster_stand(void);
/* Repeats the test, unless all slots have the owners that they had after the start
 * and after the moves made here. */
void cluster_check(void);

/* ---- slots move ---- */

/* The steps of a move. From this one on, the owner redirects to `to` for keys that it
 * lacks. */
void cluster_begin(int slot, int to);
/* Moves `count` keys of the slot to `to`, or all of them if it is -1. */
void cluster_carry(int slot, int to, int count);
void cluster_carry_key(const char *key, int to);
/* Makes `to` the owner; `to` is informed first, the old owner next, so that there is
 * always an owner. Returns when all agree. */
void cluster_end(int slot, int to);
/* All these steps. */
void cluster_move(int slot, int to);
/* Moves the slot with all its keys by the servers' own command. Returns false if this
 * version has none. */
bool cluster_move_whole(int slot, int to);

/* ---- nodes that do not hear from each other ---- */

/* Excludes the node from those that must agree, or includes it again. */
void cluster_leave_out(int node, bool on);
/* Returns true if the node reports the cluster as down. */
bool cluster_is_down_by(int node);
/* Returns true if `by` takes `node` for failed, and not only by its own opinion. */
bool cluster_has_failed(int by, int node);

/* ---- nodes come, go and change their roles ---- */

/* `how`: "" (the master agrees), "FORCE" (the other masters do), "TAKEOVER" (without
 * anyone's consent). Returns when the replica reports that it is a master. */
void cluster_fail_over(int replica, const char *how);
/* Waits until all running nodes take this one for a master, and report the cluster as
 * ok. */
void cluster_promoted(int node);
/* Adds an empty master that all others know. Returns its number. */
int cluster_add(void);
/* Makes all others forget a node without slots, and ends it. */
void cluster_forget(int node);
/* Adds a node that no other knows, and that knows no other. It has these slots and serves
 * them. It is not among cluster_hosts(). Returns its number. */
int cluster_add_alone(int first, int last);

#endif
