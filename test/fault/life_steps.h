/* SPDX-License-Identifier: MIT */
/*
 * The steps that lives consist of. This file owns the base, the clients and the handles
 * of the present life, and judges each callback. Each step continues from what the
 * previous one has left: a refused call is skipped, the callback of an accepted one is
 * waited for. Independent of the order of the steps.
 *
 * Usual course: step_begin, step_connect, step_ask, step_await_result, step_release,
 * step_drop, step_close, step_end.
 */
#ifndef TEST_LIFE_STEPS_H
#define TEST_LIFE_STEPS_H
#include "life.h"

#include <lockwire.h>
#include <stdbool.h>

#define PENDING 1000

struct player {
    const char *name, *owner;
    bool reads; /* together with other readers */
    struct lw_lock *lock;
    int result, lost, released, renewals; /* renewals: callbacks outstanding */
    bool at_risk;                         /* as reported last */
};

extern int64_t step_wait_ms; /* of this life's acquisitions, if they wait at all */

void step_begin(int64_t wait_ms);
void step_connect(const char *url); /* two clients, 0 and 1 */
void step_connect_client(int client, const char *url);
struct player *step_ask(int client, const char *name, struct lw_acquire_options options);
void step_await_result(const struct player *player);
/* Waits until the request is in this queue in Redis, or listens to this channel; or until
 * it has its result. */
void step_await_queued(const struct player *player, const char *queue);
void step_await_listener(const struct player *player, const char *channel);
void step_await_risk(const struct player *player); /* or until it holds no longer */
void step_renew(struct player *player);
/* Waits until the hold is lost, or until the key exists after all. */
void step_await_loss(const struct player *player, const char *key);
void step_lose(struct player *player, const char *key); /* the key is deleted */
void step_delete(const char *key);                      /* see life_deletes */
void step_release(struct player *player);
/* Detaches the lock, and has a client adopt it as a player of its own. Returns NULL if
 * the first player does not hold it. */
struct player *step_detach_and_adopt(struct player *player, int client,
                                     struct lw_acquire_options options);
void step_await_end(const char *key); /* waits until the key is gone */
void step_drop(struct player *player);
/* Keeps a lock, which is gained, lost and gained again whatever fails on the way, unless
 * all allocations fail. */
void step_keep(int client, const char *name, struct lw_acquire_options options);
/* Acquires "n1", "n2" and "n3" at once while the holder has "n2". They are released,
 * acquired again, lost and freed. */
void step_several(int client, struct player *holder);
void step_meanwhile(const char *name, enum life_moment moment);
void step_await_settled(const struct player *player); /* or until it holds no longer */
void step_look_and_break(int client, const char *name);
/* Watches the name, until a callback came. */
void step_watch(int client, const char *name);
void step_end_watch(void);
void step_counts(bool good); /* counts a call by whether it went well */
void step_close(void);
int step_end(void); /* returns the number of calls that went well */

#endif
