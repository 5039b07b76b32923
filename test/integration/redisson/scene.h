/* SPDX-License-Identifier: MIT */
/*
 * What the tests of LW_REDISSON share: asking for "x", and the other side, an RLock of
 * another process, played by the commands that it sends. Must not know how the library
 * counts.
 *
 * Happy path: two_clients, java_holds("x", 1, 20000), want(...), java_unlocks("x", "0").
 */
#ifndef TEST_REDISSON_SCENE_H
#define TEST_REDISSON_SCENE_H
#include "modes/scene.h"

#define CHANNEL "redisson_lock__channel:{x}"
#define HOUR_MS 3600000

/* The name is "x"; the mode is filled in, and a lease of 20 s where there is none. */
struct hold *want(struct peer *peer, const char *label,
                  const struct lw_acquire_options *options);
/* The same by an owner (or NULL); and until it is granted, which is taken out of the
 * trace. */
struct hold *want_as(struct peer *peer, const char *label, const char *owner,
                     int64_t wait_ms);
struct hold *take_as(struct peer *peer, const char *label, const char *owner);
/* Without an owner, and waits for ever. */
struct hold *join_line(struct peer *peer, const char *label);
/* All fields and values of "x" in one line. */
const char *fields(void);

/* Entered so often; lease_ms 0: without a TTL. */
void java_holds(const char *name, int holds, int lease_ms);
/* "0", or what another version of Redisson says. */
void java_unlocks(const char *name, const char *message);
/* Java holds "x", so many of a wait for it, labelled "0", "1" ..., and all is quiet: the
 * first one was refused once it listened. The monitor runs. */
void line_behind_java(struct hold **line, int count);
/* How many subscribe to a channel. */
long long listeners(const char *channel);
/* Asks and releases since monitor_start. */
int scripts_sent(void);

#endif
