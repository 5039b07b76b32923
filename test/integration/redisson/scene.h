/* SPDX-License-Identifier: MIT */
/* Helpers of the LW_REDISSON tests: requests for "x", and the other side, an RLock of
 * another process, which is played by the commands that it sends.
 *
 * Usual course: two_clients, java_holds("x", 1, 20000), want(...), java_unlocks("x",
 * "0"). */
#ifndef TEST_REDISSON_SCENE_H
#define TEST_REDISSON_SCENE_H
#include "modes/scene.h"

#define CHANNEL "redisson_lock__channel:{x}"
#define HOUR_MS 3600000

/* Requests "x" with these options in mode LW_REDISSON; lease_ms 0 stands for 20 s. */
struct hold *want(struct peer *peer, const char *label,
                  const struct lw_acquire_options *options);
/* Requests "x" without waiting. `take` waits for the grant, and clears the trace. */
struct hold *try_once(struct peer *peer, const char *label);
struct hold *take(struct peer *peer, const char *label);
/* Requests "x" without a time limit. */
struct hold *join_line(struct peer *peer, const char *label);
/* Returns all fields and values of "x" in one line. */
const char *fields(void);

/* Writes a lock that was entered `holds` times; it has no TTL if lease_ms is 0. */
void java_holds(const char *name, int holds, int lease_ms);
/* Deletes the lock and publishes `message`: "0", or that of another version of
 * Redisson. */
void java_unlocks(const char *name, const char *message);
/* Java holds "x", and `count` handles of `a` wait for it, labelled "0", "1" ... Returns
 * when all is quiet: the first one has subscribed, and was refused again. The monitor
 * runs. */
void line_behind_java(struct hold **line, int count);
/* Returns the number of subscribers of a channel. */
long long listeners(const char *channel);
/* Returns the number of requests and releases since monitor_start. */
int scripts_sent(void);

#endif
