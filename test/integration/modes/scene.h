/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the re-entrant modes share: asking as a reader or a writer, and what
 * the server then has, as one readable line. Owns the check that a read-write hash agrees
 * with itself: every count with the holds, each owner's number, the key's TTL with the
 * longest hold. Must know the hash's fields; no other test of the library does.
 *
 * Happy path: enter(a, "A", "r", "anna", 0); EXPECT("A granted"); HOLDS("x", "read
 * anna=1").
 */
#ifndef TEST_MODES_SCENE_H
#define TEST_MODES_SCENE_H
#include "players.h"

/* Started by two_clients, ready. */
extern struct peer *a, *b;
void two_clients(void);

/* kind: "r" or "w"; with permits "r3". owner may be NULL. The name is always "x". */
struct hold *enter(struct peer *peer, const char *label, const char *kind,
                   const char *owner, int64_t wait_ms);
/* The same, lease and flags chosen, too; options->mode, owner and permits are filled
 * in. */
struct hold *enter_with(struct peer *peer, const char *label, const char *kind,
                        const char *owner, struct lw_acquire_options *options);
/* enter, and waits for the grant, which is taken out of the trace. */
struct hold *get_in(struct peer *peer, const char *label, const char *kind,
                    const char *owner);
/* let_go, and waits for its callback, which must tell `status`. */
void get_out(struct hold *hold, int status);

/* The hash in words: "" (no key), or mode, then `owner=reads` in order, then
 * `owner*writes`: "write anna=1 anna*2". Fails the test where the hash does not agree
 * with itself. */
const char *holds_of(const char *name);
#define HOLDS(name, words) assert_string_equal(holds_of(name), words)

/* Waits until so many stand in the queue of readers and writers of "x". */
void wait_rw_queued(long long members);
long long rw_queue_length(void);
/* What this handle believes is not more than what the server has. */
void assert_entered(const struct hold *hold);

#endif
