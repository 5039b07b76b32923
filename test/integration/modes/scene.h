/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of the re-entrant modes: requests of readers and writers, and the
 * server's state as one readable line. Checks that a read-write hash agrees with itself:
 * each count with the holds, each owner's fencing token, the key's TTL with the longest
 * hold. Depends on the fields of the hash.
 *
 * Usual course: enter(a, "A", "r", "anna", 0); EXPECT("A granted"); HOLDS("x", "read
 * anna=1"). */
#ifndef TEST_MODES_SCENE_H
#define TEST_MODES_SCENE_H
#include "players.h"

/* Started by two_clients, which waits until they are ready. */
extern struct peer *a, *b;
void two_clients(void);

/* Requests "x". `kind` is "r" or "w", or "r3" for three permits; `owner` may be NULL. */
struct hold *enter(struct peer *peer, const char *label, const char *kind,
                   const char *owner, int64_t wait_ms);
/* The same with these options, in which mode, owner and permits are filled in. */
struct hold *enter_with(struct peer *peer, const char *label, const char *kind,
                        const char *owner, struct lw_acquire_options *options);
/* Calls enter, and waits for the grant, which it takes out of the trace. */
struct hold *get_in(struct peer *peer, const char *label, const char *kind,
                    const char *owner);
/* Calls release_hold, and waits for its callback, which must have this status. */
void get_out(struct hold *hold, int status);

/* Returns the hash in words: "" if there is no key, or the mode, then `owner=reads` and
 * `owner*writes`, sorted: "write anna*2 anna=1". Fails the test if the hash does not
 * agree with itself. */
const char *holds_of(const char *name);
#define HOLDS(name, words) assert_string_equal(holds_of(name), words)

/* Waits until the queue of readers and writers of "x" has this many members. */
void wait_rw_queued(long long members);
long long rw_queue_length(void);
/* Asserts that the handle's remaining time is not longer than the server's. */
void assert_entered(const struct hold *hold);

#endif
