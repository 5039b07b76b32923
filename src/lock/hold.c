/* SPDX-License-Identifier: MIT */
/* One handle's hold of a claim. Must not know the claim's other handles, nor who comes
 * next. Happy path: lw__hold_begin numbers the hold, arms its loss and has `done` called;
 * whoever ends it disarms that. When a deadline comes first: lw__hold_lose. */
#include "lock/hold.h"

#include "lock/notify.h"
#include "lock/renew.h"
#include "lock/structs.h"
#include "lock/terms.h"
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

void lw__hold_lose(struct lw_lock *lock, int reason)
{
    lock->lost_at_us = lw__terms_deadline_us(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_LOST, reason);
    lw__renew_end_all(lock, LW_ELOST);
}
