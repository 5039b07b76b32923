/* SPDX-License-Identifier: MIT */
/* The part of a handle that few handles need (struct lw__extras). A handle without one
 * reads the shared lw__extras_none, so that readers need not ask which it has.
 * Independent of what the fields mean: lock.c and handle.c write them. */
#include "lock/lock_private.h"

#include <stdlib.h>

const struct lw__extras lw__extras_none = {.hold_until_us = LW__NEVER};

void lw__extras_init(struct lw_lock *lock)
{
    lock->extras = &lw__extras_none;
}

struct lw__extras *lw__extras_add(struct lw_lock *lock)
{
    struct lw__extras *extras;

    if (lock->extras != &lw__extras_none) {
        return lw__extras_own(lock);
    }
    extras = malloc(sizeof(*extras));
    if (extras != NULL) {
        *extras = lw__extras_none;
        lock->extras = extras;
    }
    return extras;
}

void lw__extras_free(struct lw_lock *lock)
{
    struct lw__extras *extras = lw__extras_own(lock);

    if (extras != &lw__extras_none) {
        free(extras->owner);
        free(extras->note);
        free(extras->token);
        free(extras->errstr);
        free(extras);
    }
}
