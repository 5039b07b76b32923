/* SPDX-License-Identifier: MIT */
/* One token in Redis at a time, by its machine: a turn has the next one take its place.
 */
#ifndef LW_CLAIM_H
#define LW_CLAIM_H
#include "lock/machine.h"
#include "redis/format.h"

#include <stdbool.h>

struct lw__by_key;
struct lw__claim;
struct lw_client;
struct lw_lock;

/* How the claim's handles learn what became of it. */
struct lw__claim_events {
    void (*granted)(struct lw__claim *claim);
    void (*busy)(struct lw__claim *claim);
    void (*failed)(struct lw__claim *claim, int status);
    /* An error and its class, for lw_lock_errstr and lw_lock_error. */
    void (*said)(struct lw__claim *claim, int status, const char *text);
    /* The outcome is unknown; the claim goes on by itself. */
    void (*open)(struct lw__claim *claim, int status, const char *why);
    void (*released)(struct lw__claim *claim, int status);
    void (*lost)(struct lw__claim *claim);
    void (*renewed)(struct lw__claim *claim, bool sure);
    void (*ended)(struct lw__claim *claim); /* frees it */
};

/* In the mode of the handle, for its name and owner. NULL: no memory. */
struct lw__claim *lw__claim_new(struct lw_client *client, const struct lw_lock *lock);
/* No renewal of it may be due or in flight. */
void lw__claim_free(struct lw__claim *claim);
void lw__claim_step(struct lw__claim *claim, struct lw__input *input);
void lw__claim_event(struct lw__claim *claim, enum lw__event event); /* of no arguments */
/* A fresh token takes the place of the one held: LW__EV_TURN. */
void lw__claim_turn(struct lw__claim *claim);
/* A hand-over to a token of ours that nobody here knows any more: a command of a
 * connection long gone had asked for it. */
void lw__claim_give_back(struct lw_client *client, const struct lw__message *message);
extern const struct lw__by_key lw__claim_by_key; /* claim_moving.c's */
struct lw__token lw__claim_token(const struct lw__claim *claim);
#endif
