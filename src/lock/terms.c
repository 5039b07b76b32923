/* SPDX-License-Identifier: MIT */
/* Terms of a claim's handles: see terms.h. Decides nothing: the machine is told of leases
 * and margins, and says what they come to. */
#include "lock/terms.h"

#include "lock/mode.h"
#include "lock/structs.h"
#include "loop/loop.h"

#include <utlist.h>

static int64_t lease_us(const struct lw_lock *lock)
{
    return (int64_t)lock->lease_ms * LW__MS;
}

struct lw_lock *lw__terms_others(const struct lw__claim *claim)
{
    return lw__machine_asks(claim->machine.phase) ? NULL : claim->held.others;
}

static int64_t longest_us(const struct lw__claim *claim)
{
    int64_t longest = claim->holder != NULL ? lease_us(claim->holder) : 0;
    const struct lw_lock *lock;

    DL_FOREACH2(lw__terms_others(claim), lock, turn_next) {
        longest = lease_us(lock) > longest ? lease_us(lock) : longest;
    }
    DL_FOREACH2(claim->waiting, lock, turn_next) {
        longest = lease_us(lock) > longest ? lease_us(lock) : longest;
    }
    return longest;
}

int64_t lw__terms_lease_us(const struct lw__claim *claim)
{
    int64_t longest;

    if (claim->mode->together) {
        longest = longest_us(claim);
        return longest > 0 ? longest : claim->machine.lease_us;
    }
    if (claim->holder != NULL) {
        return lease_us(claim->holder);
    }
    return claim->waiting != NULL ? lease_us(claim->waiting) : claim->machine.lease_us;
}

bool lw__terms_wants_fence(const struct lw__claim *claim)
{
    const struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        if (!(lock->flags & LW_NO_FENCE)) {
            return true;
        }
    }
    return false;
}

bool lw__terms_wants_place(const struct lw__claim *claim)
{
    const struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        if (!lock->once) {
            return true;
        }
    }
    return false;
}

int64_t lw__terms_deadline_us(const struct lw_lock *lock)
{
    bool lost = lock->claim == NULL || (lock->told && lock->held.lost_at_us != 0);
    int64_t deadline = lost ? lock->held.lost_at_us : lock->claim->machine.deadline_us;

    return deadline < lock->hold_until_us ? deadline : lock->hold_until_us;
}

int64_t lw__terms_left_ms(const struct lw_lock *lock)
{
    int64_t left = lw__terms_deadline_us(lock) - lw__now_us();

    return left > 0 ? left / LW__MS : 0;
}

bool lw__terms_is_covered(const struct lw_lock *lock)
{
    return lock->hold_until_us != LW__NEVER &&
           lock->claim->machine.deadline_us +
                   lw__machine_drift_us(lw__terms_lease_us(lock->claim)) + LW__MS >=
               lock->hold_until_us;
}

int64_t lw__terms_margin_us(const struct lw_lock *lock)
{
    return (int64_t)lock->margin_ms * LW__MS;
}

/* Less than a millisecond shows as none. But no more is asked for than max_hold_ms
 * allows: half of it, where that is a millisecond itself. */
int64_t lw__terms_least_us(const struct lw_lock *lock)
{
    int64_t least = lw__terms_margin_us(lock);

    if (!lock->granted || least >= LW__LEAST_US) {
        return least;
    }
    return lock->asking.max_hold_us > 0 && lock->asking.max_hold_us < 2 * LW__LEAST_US
               ? lock->asking.max_hold_us / 2
               : LW__LEAST_US;
}
