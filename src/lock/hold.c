/* SPDX-License-Identifier: MIT */
/*
 * One handle's hold of a claim. Must not know the claim's other handles, nor who comes
 * next.
 *
 * Happy path: lw__hold_begin numbers the hold, arms its loss and has `done` called;
 * whoever ends it disarms that. A deadline that comes first: lw__hold_lose, or, where the
 * handle was not even told yet, lw__hold_take_back.
 */
#include "lock/hold.h"

#include "lock/mode.h"
#include "lock/notify.h"
#include "lock/renew.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "lock/waiters.h"
#include "loop/now.h"
#include "loop/timer.h"

void lw__hold_arm_loss(struct lw_lock *lock)
{
    lw__timer_set(lock->client->loop, &lock->timer,
                  lw__terms_deadline_us(lock) - lw__terms_least_us(lock));
}

void lw__hold_begin(struct lw__claim *claim, struct lw_lock *lock)
{
    uint64_t first = claim->machine.fence;

    lock->claim = claim;
    lock->granted = true;
    lock->fence = first ? first + claim->served : 0;
    lock->token_n = claim->n;
    lock->window_ms = claim->window_ms;
    lock->hold_until_us = lock->max_hold_us > 0 ? lw__now_us() + lock->max_hold_us
                                                : LW__NEVER;
    claim->served++;
    lw__hold_arm_loss(lock);
    lw__notify_lock(lock, LW__NOTICE_DONE, LW_OK);
}

void lw__hold_step_down(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    if (claim->others != NULL) {
        claim->mode->together->leave(lock);
    } else {
        claim->holder = NULL;
    }
}

void lw__hold_take_back(struct lw_lock *lock)
{
    lw__hold_step_down(lock);
    lock->granted = false;
    lw__notify_cancel(lock->client, &lock->notice);
    lw__waiters_prepend(lock->claim, lock);
}

void lw__hold_lose(struct lw_lock *lock, int reason)
{
    lock->lost_at_us = lw__terms_deadline_us(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_LOST, reason);
    lw__renew_end_all(lock, LW_ELOST);
}
