/* SPDX-License-Identifier: MIT */
/*
 * Lives of two clients and their locks, one for each kind of lock. A life must come to
 * its end whatever fails. Each callback is judged: exactly one for each accepted call,
 * none for a refused one, and no two holders unless their modes and owners allow it. This
 * file owns the base, the clients and the handles of the present life. Independent of
 * what fails.
 *
 * Usual course of life_mutex: connect, acquire, wait, be handed the lock, renew, lose,
 * release, close; then nothing is left.
 */
#ifndef TEST_LIFE_H
#define TEST_LIFE_H
#include <stdbool.h>
#include <stdint.h>

/* Returns the number of calls that ended with success; in an undisturbed life all do.
 * wait_ms is the longest wait of each acquisition. */
typedef int life_function(const char *url, int64_t wait_ms);
life_function life_mutex, life_turns, life_readwrite, life_upgrade, life_semaphore,
    life_detached, life_redisson, life_inquiries, life_keep, life_kept_mutex,
    life_several;
/* With a server whose name cannot be resolved: all requests time out. */
life_function life_in_vain;
/* One client acquires one lock, and does nothing else. */
life_function life_small;
/* One client holds a lock while its slot moves elsewhere, until it knows the new node
 * alone. */
life_function life_moved;
/* At a quorum, while life_deletes has other clients take the key: the client repeatedly
 * has only a minority. */
life_function life_minority;
/* In a cluster, where a name's slot may move: called, if not NULL, in the course of a
 * life. No allocation fails during the call. */
enum life_moment {
    LIFE_WANTED, /* the lock is held, and there may be a waiter */
    LIFE_LEFT,   /* the lock was released, or broken */
    LIFE_PASSED  /* the lock was handed over to the waiter, if there was one */
};
extern void (*life_meanwhile)(const char *name, enum life_moment moment);
extern bool life_polls; /* the cluster's waiters poll, without a queue */
/* life_moved waits for this, but not for long; at a quorum lives do that lose a lock */
extern bool (*life_is_settled)(const char *name);
/* At a quorum, since a life does not know the servers. If not NULL, life_deletes is
 * called when a key is deleted, for the servers other than the stage's, and life_granted
 * in the callback of each grant. No allocation fails in either. */
extern void (*life_deletes)(const char *key);
extern void (*life_granted)(const char *name);
/* For clients at rediss://. */
extern struct life_tls {
    const char *ca, *cert, *key;
    /* Called, if not NULL, with each reason for the end of a connection, and with each
     * reason for which a client is refused. */
    void (*judge)(int status, const char *why);
} life_tls;
extern int life_calls; /* the number of calls that were made in the last life */

#endif
