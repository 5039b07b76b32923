/* SPDX-License-Identifier: MIT */
/*
 * Lives of two clients and their locks, one for each kind of lock, which must come to
 * their end whatever fails: owns the base, the clients and the handles of that life, and
 * the judgement of each callback (exactly one for each call that was accepted, none for
 * one that was refused, no two holders but those whose modes and owners allow it). Must
 * not know what fails.
 *
 * Happy path: life_mutex: connect, acquire, wait, be handed the lock, renew, lose,
 * release, close; then nothing is left.
 */
#ifndef TEST_LIFE_H
#define TEST_LIFE_H
#include <stdbool.h>
#include <stdint.h>

/* Returns how many calls were answered with success; every one in an undisturbed life.
 * wait_ms: how long each acquisition waits at most. */
typedef int life_function(const char *url, int64_t wait_ms);
life_function life_mutex, life_turns, life_readwrite, life_upgrade, life_semaphore,
    life_detached, life_redisson, life_inquiries, life_keep, life_kept_mutex,
    life_several;
/* A server whose name cannot be resolved: nothing but waiting in vain. */
life_function life_in_vain;
/* One client that takes one lock, and nothing else. */
life_function life_small;
/* One that holds while its name goes elsewhere, until that is all it knows of. */
life_function life_moved;
/* At a quorum, while life_deletes has others take the key: it has a minority, again and
 * again. */
life_function life_minority;
/* In a cluster, where a name's slot may move: called, if not NULL, in the midst of a
 * life, in which nothing of it fails. */
enum life_moment {
    LIFE_WANTED, /* it is held, and perhaps waited for */
    LIFE_LEFT,   /* it was released, or broken */
    LIFE_PASSED  /* to who waited, if somebody did */
};
extern void (*life_meanwhile)(const char *name, enum life_moment moment);
extern bool life_polls;               /* who waits there has no place in a queue */
extern bool (*life_is_settled)(void); /* what life_moved waits for, but not for long */
/* At a quorum, whose servers a life does not know. If not NULL, life_deletes is called
 * when a key is deleted, for the servers other than the stage's, and life_granted in the
 * callback of each grant. Nothing fails in either. */
extern void (*life_deletes)(const char *key);
extern void (*life_granted)(const char *name);
/* Of clients at rediss://. */
extern struct life_tls {
    const char *ca, *cert, *key;
    /* Called, if not NULL, with each reason that a connection ends for or a client is
     * refused with. */
    void (*judge)(int status, const char *why);
} life_tls;
extern int life_calls; /* how many were made in the last life */

#endif
