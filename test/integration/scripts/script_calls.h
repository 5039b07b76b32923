/* SPDX-License-Identifier: MIT
 *
 * Owns: the fixture of the tests of single scripts (one server, emptied for each, two
 * live clients a and b), and the scripts' calls in short form, on the name "n" for the
 * mutex and "rw" for the read-write lock. Must not know: which test asks.
 *
 * Happy path: SCRIPT_TEST() in the list, then calls and what they must have answered.
 * Leases and windows are long: nothing ends by itself, however slow the machine is. */
#ifndef SCRIPT_CALLS_H
#define SCRIPT_CALLS_H

#include "script_server.h"

#include <limits.h>
#include <stdint.h>

#define KEYS "n", "lockwire:2:queue:{n}", "lockwire:fence"
#define QUEUE "lockwire:2:queue:{n}"
#define RW_KEYS "rw", "lockwire:2:rwqueue:{rw}", "lockwire:fence"
#define RW_QUEUE "lockwire:2:rwqueue:{rw}"
#define LEASE 600000
#define WINDOW 60000
#define NO_TICKET (-1LL)

extern struct script_server server;
extern struct script_client a, b;

int start_server(void **state);
int stop_server(void **state);
int empty_server(void **state);
int both_silent(void **state);
/* empty_server, and tokens of a, b, a and b, whose windows differ. */
int four_tokens(void **state);
extern char t1[80], t2[80], t3[80], t4[80];

#define SCRIPT_TEST(name) cmocka_unit_test_setup_teardown(name, empty_server, both_silent)
#define TOKENS_TEST(name) cmocka_unit_test_setup_teardown(name, four_tokens, both_silent)

/* The word by which the scripts are told how to write a message (format.h). */
#if LONG_MAX > INT32_MAX /* of the server's Lua, which is this machine's */
#define NUMBERS "%d " SCRIPT_SERVER_ID
#else
#define NUMBERS "%.0f " SCRIPT_SERVER_ID
#endif
/* The word that releases and renewals have instead while the guard is closed: no lock is
 * granted. */
#define CLOSED "- "
/* The one that release, rw_release and rw_renew send; NUMBERS at the start of each test.
 */
extern const char *script_numbers;
/* `how` of mutex_acquire.lua, valid for the next 16 calls; `wait` is 2 where the queue
 * shall live on as well. */
const char *script_how(int wait, long long ticket, int want_fence);
/* The same with the lease, for mutex_acquire. */
const char *script_how_long(const char *how, long long lease);
/* The limit of waiters that script_how and rw_acquire pass on; 0, as at the start of each
 * test: none. */
extern int script_limit;
#define FULL (-2)     /* the position of a token that was refused by that limit */
#define NOT_TOLD (-2) /* the remaining ms */
/* What mutex_acquire answered as numbers: {1, fence} or {0, remaining ms, position,
 * ticket, server time us, again}, and the type of a stranger as text; of mutex_turn, with
 * the old token's release (0, 1) in front. */
struct script_answer mutex_answer(struct script_answer answer, bool turn);

/* The mutex "n". */
struct script_answer acquire(const char *token, int lease, int wait, long long ticket);
long long release(const char *token);
long long drop(const char *token);        /* released, without a look at the queue */
long long drop_anyway(const char *token); /* marked or not: its slot moves */
struct script_answer turn(const char *old, const char *token, const char *wait);
/* Detaches the mutex of this token; adopts it for a new token. */
long long detach(const char *token, long long lease);
struct script_answer adopt(const char *old, const char *token, int lease);
void assert_holder(const char *token); /* marked or not */
void assert_marked(const char *token);
void assert_unmarked(const char *token);
void assert_free(void);
void expire(void);

/* The read-write lock "rw": kind is "r" or "w", `r3` means three permits. */
struct script_answer rw_acquire(const char *token, const char *kind, const char *owner,
                                int wait, long long ticket);
/* A grant's answer in the form of a mutex': {1, fence}. */
struct script_answer rw_asked(struct script_answer answer);
/* {released, left, again} */
struct script_answer rw_release(const char *token, const char *kind, const char *owner);
long long rw_renew(const char *token, int lease);
/* The same of the name alone: its slot moves. */
struct script_answer rw_release_one_key(const char *token);
long long rw_keepalive(const char *token, int lease);
long long rw_detach(const char *token, long long lease);
/* {number}, or -1 or -2; `asker` is "r A", "w " ...; the owner is the answer's text. */
struct script_answer rw_adopt(const char *old, const char *token, int lease,
                              const char *asker);
/* Released, with so many holds of the owner left. */
void rw_released(struct script_answer answer, long long left);
/* Read holds, owners that read, write holds. */
void assert_counts(int reads, int readers, int writes);
/* Lets the hold's own lease be over, as if its client had died. */
void rw_end(const char *token);

/* Both kinds: granted returns the number. Refused at this place, returns the ticket. */
long long granted(struct script_answer answer);
long long refused(struct script_answer answer, long long position);

#endif
