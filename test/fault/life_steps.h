/* SPDX-License-Identifier: MIT */
/*
 * What lives are made of. Owns the base, the clients and the handles of the life that is
 * lived, and judges each callback. Every step goes on with whatever the one before has
 * left: a call that was refused is skipped, one that was accepted is waited for. Must not
 * know in which order they come.
 *
 * Happy path: step_begin, step_connect, step_ask, step_await_result, step_release,
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
    bool reads; /* with other readers */
    struct lw_lock *lock;
    int result, lost, released, renewals; /* renewals: callbacks to come */
    bool at_risk;                         /* as it was told last */
};

extern int64_t step_wait_ms; /* of this life's acquisitions, if they wait at all */

void step_begin(int64_t wait_ms);
void step_connect(const char *url); /* two clients, 0 and 1 */
void step_connect_client(int client, const char *url);
struct player *step_ask(int client, const char *name, struct lw_acquire_options options);
void step_await_result(const struct player *player);
/* Until Redis has it in this queue, or it listens to this channel; or it has its
 * result. */
void step_await_queued(const struct player *player, const char *queue);
void step_await_listener(const struct player *player, const char *channel);
void step_await_risk(const struct player *player); /* or that it does not hold */
void step_renew(struct player *player);
/* Until it does not hold any more, unless the key is there after all. */
void step_await_loss(const struct player *player, const char *key);
void step_lose(struct player *player, const char *key); /* the key is deleted */
void step_delete(const char *key);                      /* see life_deletes */
void step_release(struct player *player);
/* Detached, and adopted by a client, as a player of its own; NULL if the first one does
 * not hold. */
struct player *step_detach_and_adopt(struct player *player, int client,
                                     struct lw_acquire_options options);
void step_await_end(const char *key); /* until Redis has it no longer */
void step_drop(struct player *player);
/* It is kept, lost and gained again, whatever failed on the way, unless nothing can be
 * had any more. */
void step_keep(int client, const char *name, struct lw_acquire_options options);
/* A client acquires "n1", "n2" and "n3" at once, while the holder has "n2"; they are
 * released, acquired again, lost and freed. */
void step_several(int client, struct player *holder);
void step_meanwhile(const char *name, enum life_moment moment);
void step_await_settled(const struct player *player); /* or that it does not hold */
void step_look_and_break(int client, const char *name);
void step_counts(bool good); /* as the answer to a call */
void step_close(void);
int step_end(void); /* returns how many calls were answered well */

#endif
