/* SPDX-License-Identifier: MIT */
/*
 * The cells of the fault table: for each fault, what is promised to the owner, to the
 * waiter and about the release. This file has what the cells share: the ways in which
 * they are played, the scene before the fault, and the checks after it. Independent of
 * the faults.
 *
 *   owner   O1   `lost` is called no later than D = sent + lease - drift
 *           O2   the hold is verified as soon as the connection is back; and O1
 *   waiter  W1   acquires the lock as soon as it can find out that it is free
 *           W2   fails with LW_ETIMEOUT at its own deadline
 *
 * A way is a pair of modes, the holder's and the waiter's: a mutex with local turns off
 * and on (then a second handle of the waiting client stands behind the first), a writer
 * behind a writer, a writer behind a reader, readers behind a writer, a semaphore with
 * one permit, and Redisson's lock. In two of the ways all clients have a prefix.
 *
 * Names of tests: <fault>__<owner|waiter|release>_<promise>__<way>. The arguments of an
 * executable are names of ways; or "smoke", which plays each cell in one way, a different
 * one for each cell in turn; without arguments each cell is played in all ways.
 *
 * Usual course: CELL(server_stopped__owner_O1) { own(...); server_pause(...);
 * expect_O1(...); }
 */
#ifndef TEST_CELLS_H
#define TEST_CELLS_H
#include "players.h"
#include "proxy.h"

#include <string.h>

#define LONG_MS 60000 /* a lease that a test neither outlasts nor sees renewed */
#define SHORT_MS 1500 /* a lease that is renewed or expires in a test */
#define REQUEST_MS 1000

struct way {
    const char *name;
    enum lw_mode holder, waiter;
    uint32_t permits, turns;
    bool sibling;       /* the waiting client has a second handle */
    const char *prefix; /* of all clients, or NULL */
    const char *words;  /* the two modes, in orders to a process */
    const char *waiter_words;
};
extern const struct way *way; /* of the present test */
extern bool smoke;            /* the tests should be short */

struct cell {
    const char *name;
    void (*function)(void);
    bool ours; /* not played in Redisson's way, whose format is not ours to change */
};
#define CELL(name) static void name(void)
#define PLAY(name)                                                                       \
    {                                                                                    \
#name, name, false                                                               \
    }
#define PLAY_OURS(name)                                                                  \
    {                                                                                    \
#name, name, true                                                                \
    }
#define CELLS_RUN(cells, words, open, close)                                             \
    cells_run(cells, sizeof(cells) / sizeof(*(cells)), words, open, close)
/* `words` ends with NULL, as argv + 1 does. Returns how many tests failed. */
int cells_run(const struct cell *cells, size_t count, char *const *words,
              int (*open)(void **state), int (*close)(void **state));

/* Returns a client with short time-outs, after both of its connections are up. */
struct peer *client_at(const char *label, const char *url);
/* Requests `x` in the holder's mode of this way, or in the waiter's. */
struct hold *ask_to_hold(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms);
struct hold *ask_to_wait(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms);
/* Acquires `x`, and waits for the grant. */
struct hold *own(struct peer *peer, uint32_t lease_ms);
/* Queues `waiter` for `x`, which `holder` (of any other client) holds: hold B, and in
 * some ways C. */
struct hold *stand_behind(struct peer *waiter, struct hold *holder, int64_t wait_ms);
/* Waits until `members` requests are in the queue for `x` in Redis. Redisson's locks have
 * no queue: waits until the waiter has subscribed to the channel. */
void wait_in_line(long long members);

/* Detaches `owner`, which leaves `x` locked in Redis for keep_ms. */
void leave_detached(struct hold *owner, uint32_t keep_ms);
/* Adopts `x` by the token of `earlier`, which holds it no longer. */
struct hold *ask_to_adopt(struct peer *peer, const struct hold *earlier, int64_t wait_ms,
                          uint32_t lease_ms);
/* Returns true if `x` is held by this token in Redis. */
bool is_held_by(const char *token);

/* Returns by how much an event may be late on this machine, by the lags seen so far. */
int64_t late_ms(void);
/* Expects that the hold is lost at the latest one lease after `since_ms`, when it could
 * be renewed for the last time. */
void expect_O1(struct hold *owner, int64_t since_ms, uint32_t lease_ms);
/* Expects that the hold is lost with LW_ENOTHELD long before its next scheduled
 * renewal. */
void expect_O2(struct hold *owner);
/* Expects that the client renews the hold once more, and still holds the lock. */
void expect_kept(struct hold *owner, uint64_t renewed_before);
/* Expects that all waiters are granted the lock, one after the other. */
void expect_W1(struct hold *waiter);
void expect_W2(struct hold *waiter, int64_t wait_ms);
void expect_released(struct hold *owner, int status);
/* Expects that the adopter holds the lock with a larger fencing token than `earlier`, and
 * that the token of `earlier` is gone. */
void expect_adopted(struct hold *adopter, const struct hold *earlier);
/* Expects that the adoption ended with `status`. */
void expect_not_adopted(struct hold *adopter, int status);
/* Like expect_W1; no waiter may have been granted the lock before end_ms. */
void expect_W1_after(struct hold *waiter, int64_t end_ms);

#endif
