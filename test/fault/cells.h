/* SPDX-License-Identifier: MIT */
/*
 * The fault table, cell by cell: for each fault, what its owner, its waiter and its
 * release are promised. Owns what the cells have in common: the ways in which they are
 * played, the scene before the fault and the judgement after it. Must not know any fault.
 *
 *   owner   O1   told `lost` no later than D = sent + lease - drift
 *           O2   verified at once when the connection is back; and O1
 *   waiter  W1   acquires as soon as it can find out that the lock is free
 *           W2   is told LW_ETIMEOUT at its own deadline
 *
 * A way says as what the lock is held and as what it is waited for: a mutex with turns
 * off and on (then a second handle of the waiting client stands behind the first), a
 * writer behind a writer, a writer behind a reader, readers behind a writer, a semaphore
 * of one, Redisson's.
 *
 * Names of tests: <fault>__<owner|waiter|release>_<promise>__<way>. An executable's
 * arguments: names of ways, or "smoke": each cell in one way, the ways taken in turn;
 * none: all.
 *
 * Happy path: CELL(server_stopped__owner_O1) { own(...); server_pause(...);
 * expect_O1(...); }
 */
#ifndef TEST_CELLS_H
#define TEST_CELLS_H
#include "players.h"
#include "proxy.h"

#include <string.h>

#define LONG_MS 60000 /* a lease that neither ends in a test nor is renewed by itself */
#define SHORT_MS 1500 /* one that does */
#define REQUEST_MS 1000

struct way {
    const char *name;
    enum lw_mode holder, waiter;
    uint32_t permits, turns;
    bool sibling;      /* the waiting client has a second handle */
    const char *words; /* the holder's and the waiter's in a process's orders */
    const char *waiter_words;
};
extern const struct way *way; /* of this test */
extern bool smoke;            /* it should be short */

struct cell {
    const char *name;
    void (*function)(void);
    bool ours; /* not in Redisson's way, whose format is not ours to mend */
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

/* A client with short time-outs, and both of its connections up. */
struct peer *client_at(const char *label, const char *url);
/* Asks for `x` as this way's holder, or as its waiter, does. */
struct hold *ask_to_hold(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms);
struct hold *ask_to_wait(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms);
/* It holds `x`. */
struct hold *own(struct peer *peer, uint32_t lease_ms);
/* `holder` (any other client) holds `x`, `waiter` stands in the queue: B, maybe C. */
struct hold *stand_behind(struct peer *waiter, struct hold *holder, int64_t wait_ms);
/* Until so many requests stand in Redis' queue for `x`; Redisson's has none: until they
 * listen. */
void wait_in_line(long long members);

/* `owner` leaves `x` in Redis for keep_ms. */
void leave_detached(struct hold *owner, uint32_t keep_ms);
/* Adopts `x` from the token of `earlier`, which holds no more. */
struct hold *ask_to_adopt(struct peer *peer, const struct hold *earlier, int64_t wait_ms,
                          uint32_t lease_ms);
/* Returns true if Redis has `x` under this token. */
bool is_held_by(const char *token);

/* How late something may be seen on this machine, as it was until now. */
int64_t late_ms(void);
/* lost, no later than the lease after `since_ms`, when it could be renewed at last. */
void expect_O1(struct hold *owner, int64_t since_ms, uint32_t lease_ms);
/* lost with LW_ENOTHELD long before it would renew by itself. */
void expect_O2(struct hold *owner);
/* Verified anew by its client, and still held. */
void expect_kept(struct hold *owner, uint64_t renewed_before);
/* All waiters are granted, one after the other. */
void expect_W1(struct hold *waiter);
void expect_W2(struct hold *waiter, int64_t wait_ms);
void expect_released(struct hold *owner, int status);
/* The adopter holds, with a larger fencing token than `earlier`, whose token is gone. */
void expect_adopted(struct hold *adopter, const struct hold *earlier);
/* Its adoption ended with `status`. */
void expect_not_adopted(struct hold *adopter, int status);
/* W1, and no waiter was granted before end_ms. */
void expect_W1_after(struct hold *waiter, int64_t end_ms);

#endif
