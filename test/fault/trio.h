/* SPDX-License-Identifier: MIT */
/*
 * A master, its two replicas and three sentinels that monitor them, all of them real and
 * private to one test. There is a gate (a proxy) in front of each of the six, and they
 * announce the gates' addresses, so that all traffic goes through a gate. Clients connect
 * from 127.0.0.1, servers and sentinels from other addresses (proxy.h's SERVERS), so that
 * a gate can hold back either. This file owns the processes and the gates, and knows
 * which server leads. Independent of lockwire.
 *
 * Two sentinels are a quorum, and a server that is silent for half a second is down. If
 * this version of Redis allows it, the sentinels exchange news, and make the former
 * master a replica, sooner than after the usual seconds.
 *
 * The test's event loop carries the bytes through the gates: if a test blocks it for half
 * a second, the master counts as down.
 *
 * Usual course: trio_open and trio_close around an executable; in each test trio_set(""),
 * clients at trio_url(), server_kill(trio_master()), trio_switched().
 */
#ifndef TEST_TRIO_H
#define TEST_TRIO_H
#include "proxy.h"
#include "sentinel.h"

#define TRIO 3

/* Set up and tear down the stage as well, for CELLS_RUN. */
int trio_open(void **state);
int trio_close(void **state);

/* Starts the six, and waits until they agree that the first server leads. Queries for the
 * stage's server go to the leading one. `args` are further arguments of the servers. */
void trio_set(const char *args);
const char *trio_url(void);

/* Returns the server that leads, as far as the test has seen. */
int trio_leader(void);
struct server *trio_server(int index);
struct server *trio_master(void);
struct sentinel *trio_sentinel(int index);
struct proxy *trio_gate(int server);
struct proxy *trio_sentinel_gate(int sentinel);

/* Waits until one server leads, two follow it, and all sentinels report these roles. If
 * the master has changed since the last trio_switched, because the machine stalled for so
 * long that the sentinels replaced it, the test is played again. */
void trio_stand(void);
/* Like trio_stand at the end of a test: only checks that the master has not changed. */
void trio_check(void);
/* Returns true if no sentinel knows of a change later than the last trio_switched. */
bool trio_is_as_before(void);
/* Waits until all running sentinels report a new master, and it is one. */
void trio_switched(void);
/* Waits until the replicas have all that the leader had written when this was called.
 * (WAIT would block the loop, and so the gates.) */
void trio_agree(void);
/* Pauses writes at the leader, and waits until its replicas have all earlier ones. */
void trio_freeze(void);
/* Has a sentinel promote a replica while the master works. */
void trio_fail_over(int sentinel);
/* Stops all sentinels, or brings them back; `dead`: killed, and started again. */
void trio_sentinels_away(bool dead);
void trio_sentinels_back(void);

/* Holds back all traffic between the clients and the server or sentinel behind this gate,
 * or between it and the other five. Held traffic is delivered late, as TCP would. */
void trio_part_clients(struct proxy *gate, bool on);
void trio_part_servers(struct proxy *gate, bool on);
/* Returns the number of connections of clients. */
int trio_clients(int server);

/* Returns a field of INFO as a number, or -1 if there is no answer. It uses a connection
 * of its own, since a server whose role a sentinel changes closes all others. */
long long trio_info(int server, const char *section, const char *field);
/* Returns the number stored under a key, in the same way. */
long long trio_number(int server, const char *key);
/* Returns true if the server accepts a command from a client that is not ours. */
bool trio_takes(int server, const char *command);

#endif
