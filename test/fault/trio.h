/* SPDX-License-Identifier: MIT */
/*
 * A master, its two replicas and the three sentinels that watch over them, all of them
 * real and private to one test. Owns their processes, who leads, and a gate (a proxy) in
 * front of each of the six: what sentinels tell are the gates, so that all that anybody
 * says to anybody goes through one. Clients come from 127.0.0.1, servers and sentinels
 * from other addresses (proxy.h's SERVERS), so that either can be kept out. Must not know
 * lockwire.
 *
 * Two sentinels are a quorum, and half a second of silence is down; where this version
 * of Redis lets them, they tell each other news, and make a replica of a master that was,
 * in less than the usual seconds.
 *
 * The loop of the test is what carries the bytes through the gates: who blocks it for
 * half a second has killed the master.
 *
 * Happy path: trio_open and trio_close around an executable; in each test trio_set(""),
 * clients at trio_url(), server_kill(trio_master()), trio_switched().
 */
#ifndef TEST_TRIO_H
#define TEST_TRIO_H
#include "proxy.h"
#include "sentinel.h"

#define TRIO 3

/* With the stage, for CELLS_RUN. */
int trio_open(void **state);
int trio_close(void **state);

/* The six run, agree with each other, and the first server leads; what is asked of the
 * stage's server is asked of who leads. `args`: of the servers, beside the usual. */
void trio_set(const char *args);
const char *trio_url(void);

/* Who leads, as far as the test has seen. */
int trio_leader(void);
struct server *trio_server(int index);
struct server *trio_master(void);
struct sentinel *trio_sentinel(int index);
struct proxy *trio_gate(int server);
struct proxy *trio_sentinel_gate(int sentinel);

/* Until one leads, two follow it, and all sentinels say the same of them. Nobody must
 * have changed the master since the last trio_switched: where a machine stood still for
 * so long that the sentinels did, the test is played again. */
void trio_stand(void);
/* The same for the last time: it is enough that nobody did. */
void trio_check(void);
/* No sentinel knows of a later change than the last trio_switched. */
bool trio_is_as_before(void);
/* Until all sentinels that run tell another master than the last one, and it is one. */
void trio_switched(void);
/* Until the replicas have all that the leader had written when this was called. (WAIT
 * would have the gates wait, too.) */
void trio_agree(void);
/* The leader takes no writes any more, and its replicas have all that it took. */
void trio_freeze(void);
/* A sentinel promotes a replica while the master is well. */
void trio_fail_over(int sentinel);
/* All of them, or back; `dead`: killed, and started again. */
void trio_sentinels_away(bool dead);
void trio_sentinels_back(void);

/* Nothing passes between the clients and what is behind this gate, or between the other
 * five and it; what was said meanwhile comes late, as TCP has it. */
void trio_part_clients(struct proxy *gate, bool on);
void trio_part_servers(struct proxy *gate, bool on);
/* Connections of clients. */
int trio_clients(int server);

/* A field of INFO as a number, asked by a connection for this alone, since a sentinel
 * ends all others of a server whose role it changes; -1: no answer. */
long long trio_info(int server, const char *section, const char *field);
/* The number under a key, in the same way. */
long long trio_number(int server, const char *key);
/* Whether a command of a stranger's is taken by that server. */
bool trio_takes(int server, const char *command);

#endif
