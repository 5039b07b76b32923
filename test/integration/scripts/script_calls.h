/* SPDX-License-Identifier: MIT
 *
 * The fixture of the tests of single scripts (one server, emptied for each test, and two
 * live clients a and b), and the scripts' calls in short form, on the name "n" for the
 * mutex and "rw" for the read-write lock.
 *
 * A test is listed with SCRIPT_TEST(), and consists of calls and their expected replies.
 * Leases and windows are long, so that nothing expires by itself on a slow machine. */
#ifndef SCRIPT_CALLS_H
#define SCRIPT_CALLS_H

#include "script_server.h"

#include <limits.h>
#include <stdint.h>

#define KEYS "n", "lockwire:2:queue:{n}", "lockwire:fence"
#define QUEUE "lockwire:2:queue:{n}"
#define HOLDER "lockwire:2:holder:{n}"
#define RW_KEYS "rw", "lockwire:2:rwqueue:{rw}", "lockwire:fence"
#define RW_QUEUE "lockwire:2:rwqueue:{rw}"
#define LEASE 600000
#define ABOUT "2000 app host 7 root" /* what a client knows of a hold */
#define WINDOW 60000
#define NO_TICKET (-1LL)

extern struct script_server server;
extern struct script_client a, b;

int start_server(void **state);
int stop_server(void **state);
int empty_server(void **state);
int both_silent(void **state);
/* Calls empty_server, and makes tokens of a, b, a and b with different windows. */
int four_tokens(void **state);
extern char t1[80], t2[80], t3[80], t4[80];

#define SCRIPT_TEST(name) cmocka_unit_test_setup_teardown(name, empty_server, both_silent)
#define TOKENS_TEST(name) cmocka_unit_test_setup_teardown(name, four_tokens, both_silent)

/* The argument that defines the format of messages (format.h). */
#if LONG_MAX > INT32_MAX /* also in the server's Lua, on this machine */
#define NUMBERS "%d " SCRIPT_SERVER_ID
#else
#define NUMBERS "%.0f " SCRIPT_SERVER_ID
#endif
/* The argument that releases and renewals have instead while the guard is closed, so that
 * no lock is granted. */
#define CLOSED "- "
/* The argument that release, rw_release and rw_renew send; NUMBERS at the start of each
 * test. */
extern const char *script_numbers;
/* Returns the `how` of mutex_acquire.lua, valid for the next 16 calls. `wait` is 2 to
 * extend the queue's TTL, too. */
const char *script_how(int wait, long long ticket, int want_fence);
/* The same with the lease, for mutex_acquire. */
const char *script_how_long(const char *how, long long lease);
/* The limit of waiters that script_how and rw_acquire send; 0, as at the start of each
 * test, for none. */
extern int script_limit;
#define FULL (-2)     /* the position of a token that was refused by that limit */
#define NOT_TOLD (-2) /* the remaining ms, if the reply does not contain them */
/* Converts a reply of mutex_acquire to numbers: {1, fence} or {0, remaining ms, position,
 * ticket, server time us, again}, and the type of a foreign key as text. */
struct script_answer mutex_answer(struct script_answer answer);

/* The mutex "n". */
struct script_answer acquire(const char *token, int lease, int wait, long long ticket);
long long release(const char *token);
long long drop(const char *token);        /* a fast release, without reading the queue */
long long drop_anyway(const char *token); /* marked or not, since its slot moves */
/* Detaches the mutex from its token; adopts it for a new token. */
long long detach(const char *token, long long lease);
long long detach_one_key(const char *token, long long lease); /* its slot moves */
/* The same with a description of the hold. */
long long detach_described(const char *token, long long lease, const char *about);
struct script_answer adopt_described(const char *old, const char *token, int lease,
                                     const char *about);
long long release_described(const char *token);
/* Describes the hold of a token: of the mutex, and of the read-write lock. */
long long describe(const char *token, const char *about);
long long rw_describe(const char *token, const char *about);
struct script_answer adopt(const char *old, const char *token, int lease);
void assert_holder(const char *token); /* marked or not */
void assert_marked(const char *token);
void assert_unmarked(const char *token);
void assert_free(void);
void expire(void);

/* The read-write lock "rw": kind is "r" or "w", `r3` means three permits. */
struct script_answer rw_acquire(const char *token, const char *kind, const char *owner,
                                int wait, long long ticket);
/* Converts the reply for a grant to the form of a mutex's: {1, fence}. */
struct script_answer rw_asked(struct script_answer answer);
/* {released, left, again} */
struct script_answer rw_release(const char *token, const char *kind, const char *owner);
long long rw_renew(const char *token, int lease);
/* The same with the lock's key alone, since its slot moves. */
struct script_answer rw_release_one_key(const char *token);
long long rw_keepalive(const char *token, int lease);
long long rw_detach(const char *token, long long lease);
long long rw_detach_one_key(const char *token, long long lease);
long long rw_detach_described(const char *token, long long lease, const char *about);
struct script_answer rw_adopt_described(const char *old, const char *token, int lease,
                                        const char *asker, const char *about);
/* {fencing token}, or -1 or -2; `asker` is "r A", "w " ...; the owner is the reply's
 * text. */
struct script_answer rw_adopt(const char *old, const char *token, int lease,
                              const char *asker);
/* Queues a request of a process that then ends. */
void rw_queue_dead(const char *kind, const char *owner, int position);
/* Asserts a release that leaves `left` holds of the owner. */
void rw_released(struct script_answer answer, long long left);
/* Asserts the number of read holds, of owners that read, and of write holds. */
void assert_counts(int reads, int readers, int writes);
/* Ends the hold's own lease, as if its client had died. */
void rw_end(const char *token);

/* Returns the first number of a reply of `count`. Fails for an error, or another count.
 */
long long first_of(struct script_answer answer, int count);
/* For both kinds. granted returns the fencing token. refused asserts the position and
 * returns the ticket. */
long long granted(struct script_answer answer);
long long refused(struct script_answer answer, long long position);

#endif
