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
#include <stdint.h>

/* Returns how many calls were answered with success; every one in an undisturbed life.
 * wait_ms: how long each acquisition waits at most. */
typedef int life_function(const char *url, int64_t wait_ms);
life_function life_mutex, life_turns, life_readwrite, life_upgrade, life_semaphore,
    life_redisson, life_inquiries;
/* A server whose name cannot be resolved: nothing but waiting in vain. */
life_function life_in_vain;
/* One client that takes one lock, and nothing else. */
life_function life_small;
/* Of clients at rediss://. */
extern struct life_tls {
    const char *ca, *cert, *key;
    /* Called, if not NULL, with each reason that a connection ends for or a client is
     * refused with. */
    void (*judge)(int status, const char *why);
} life_tls;
extern int life_calls; /* how many were made in the last life */

#endif
