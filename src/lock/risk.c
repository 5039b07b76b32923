/* SPDX-License-Identifier: MIT */
/* The early warning: a handle that holds is at risk when little is left of its lease, as
 * only happens where no renewal is answered. Owns the moment, which is counted anew
 * whenever D has moved, and what the caller was told. Must not end a hold: that is
 * turns.c's, at D less the margin.
 *
 * Happy path: lw__risk_look at the grant, whenever D moves, and at the moment itself, by
 * the handle's one timer (handle.c). D moves in time, and nobody is told anything; or it
 * does not, and the notice goes out; a later answer moves it, and so does the other. The
 * handle's one notice has room: while it is held and told, the only other one is its
 * loss, which takes the place of this. */
#include "lock/risk.h"

#include "lock/notify.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "loop/loop.h"

/* What is left of a lease then, by what the caller wants. */
static int64_t wanted_us(const struct lw_lock *lock)
{
    int64_t lease = (int64_t)lock->lease_ms * LW__MS, margin = lw__terms_margin_us(lock);

    if (lock->at_risk_ms > 0) {
        return (int64_t)lock->at_risk_ms * LW__MS;
    }
    return margin < lease / 3 ? lease / 3 : (margin + lease / 2) / 2;
}

/* Half of what is left now at the most: a hand-over's claim window, the rest of a lease
 * that came with a turn, and a lease that was made shorter are renewed before that. */
static int64_t moment_us(const struct lw_lock *lock, int64_t deadline_us, int64_t now_us)
{
    int64_t wanted = wanted_us(lock), half = (deadline_us - now_us) / 2;

    if (lw__terms_is_covered(lock)) {
        return LW__NEVER;
    }
    return deadline_us - (wanted < half ? wanted : half);
}

static void tell(struct lw_lock *lock, bool at_risk)
{
    lock->warned = at_risk;
    if (lock->notice.kind == LW__NOTICE_RISK) { /* the one before is past, and untold */
        lw__notify_cancel(lock->client, &lock->notice);
    } else {
        lw__notify_lock(lock, LW__NOTICE_RISK, at_risk);
    }
}

int64_t lw__risk_look(struct lw_lock *lock)
{
    int64_t deadline = lw__terms_deadline_us(lock), now = lw__now_us(), before;

    if (!lock->told) {
        return LW__NEVER;
    }
    before = lock->held.risk_deadline_us;
    if (deadline != before) {
        lock->held.risk_deadline_us = deadline;
        lock->held.risk_at_us = moment_us(lock, deadline, now);
    }
    if (lock->warned && deadline > before) {
        tell(lock, false);
    } else if (!lock->warned && lock->held.risk_at_us <= now) {
        tell(lock, true);
    }
    return lock->warned ? LW__NEVER : lock->held.risk_at_us;
}
