/* SPDX-License-Identifier: MIT */
/*
 * Clients with the shortest guard time, and the stage's server, which is closed to them
 * until the time that its record has. Independent of what is tested.
 *
 * The shortest guard time is 15 s. Most tests do not wait so long: close_for() writes a
 * record as another client would, so that the gate opens when the test wants. */
#ifndef TEST_GUARD_SCENE_H
#define TEST_GUARD_SCENE_H
#include "guard_record.h"
#include "players.h"

#define GUARD_MS 15000
#define LEASE_MS 3000 /* the longest lease that it allows */

/* Closes the server for `ms` to clients that connect from now on; 0 opens it. */
void close_for(int ms);
void assert_open(void);
void assert_closed(void);
/* Waits until the stage's server has run for longer than the guard time. */
void grow_old(void);

/* Starts a client at this URL. */
struct peer *guarded_at(const char *label, const char *url);
/* Starts a client at the stage's server, and waits until it is ready. */
struct peer *guarded(const char *label);
struct hold *ask_guarded(struct peer *peer, const char *label, const char *name,
                         int64_t wait_ms);
/* Acquires a lock that is free. */
struct hold *take_guarded(struct peer *peer, const char *label, const char *name);
/* Acquires and releases a lock, and checks that the server was never closed to this
 * client. */
void open_at_once(struct peer *peer);

#endif
