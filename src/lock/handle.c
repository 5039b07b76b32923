/* SPDX-License-Identifier: MIT */
/* Terms of a claim's handles: see terms.h. Decides nothing: the machine is told of leases
 * and margins, and says what they come to. */
/* The early warning: a handle that holds is at risk when little is left of its lease, as
 * only happens where no renewal is answered. Owns the moment, which is counted anew
 * whenever D has moved, and what the caller was told. Must not end a hold: that is
 * turns.c's, at D less the margin.
 *
 * Happy path: check_risk at the grant, whenever D moves, and at the moment itself, by
 * the handle's one timer (handle.c). D moves in time, and nobody is told anything; or it
 * does not, and the notice goes out; a later answer moves it, and so does the other. The
 * handle's one notice has room: while it is held and told, the only other one is its
 * loss, which takes the place of this. */
/* One handle: it waits for a claim, holds it, loses it or ends; its error text; its
 * memory's end. Must not know whose turn it is, nor what the machine believes. Happy
 * path: wait, hold, which numbers the hold, arms its loss and has `done` called; whoever
 * ends it disarms that. One that gives up, or whose deadline comes first, is told by its
 * timer (turns.c), which an early warning shares (risk.c). Where there is no memory for
 * an error text there is none. */
#include "lock/lock_private.h"

#include "base/escape.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- lease terms ---- */

static int64_t lease_us(const struct lw_lock *lock)
{
    return (int64_t)lock->lease_ms * LW__MS;
}

struct lw_lock *lw__handles_co_holders(const struct lw__claim *claim)
{
    return lw__machine_asks(claim->machine.phase) ? NULL : claim->held.co_holders;
}

static int64_t longest_us(const struct lw__claim *claim)
{
    int64_t longest = claim->holder != NULL ? lease_us(claim->holder) : 0;
    const struct lw_lock *lock;

    DL_FOREACH2(lw__handles_co_holders(claim), lock, turn_next) {
        longest = lease_us(lock) > longest ? lease_us(lock) : longest;
    }
    DL_FOREACH2(claim->waiting, lock, turn_next) {
        longest = lease_us(lock) > longest ? lease_us(lock) : longest;
    }
    return longest;
}

int64_t lw__handles_lease_us(const struct lw__claim *claim)
{
    int64_t longest;

    if (claim->mode->reentrant) {
        longest = longest_us(claim);
        return longest > 0 ? longest : claim->machine.lease_us;
    }
    if (claim->holder != NULL) {
        return lease_us(claim->holder);
    }
    return claim->waiting != NULL ? lease_us(claim->waiting) : claim->machine.lease_us;
}

bool lw__handles_want_fence(const struct lw__claim *claim)
{
    const struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        if (!(lock->flags & LW_NO_FENCE)) {
            return true;
        }
    }
    return false;
}

bool lw__handles_want_place(const struct lw__claim *claim)
{
    const struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        if (!lock->once) {
            return true;
        }
    }
    return false;
}

int64_t lw__handle_deadline_us(const struct lw_lock *lock)
{
    bool lost = lock->claim == NULL || (lock->delivered && lock->held.lost_at_us != 0);
    int64_t deadline = lost ? lock->held.lost_at_us : lock->claim->machine.deadline_us;

    return deadline < lock->hold_until_us ? deadline : lock->hold_until_us;
}

int64_t lw__handle_left_ms(const struct lw_lock *lock)
{
    int64_t left = lw__handle_deadline_us(lock) - lw__now_us();

    return left > 0 ? left / LW__MS : 0;
}

bool lw__handle_is_covered(const struct lw_lock *lock)
{
    return lock->hold_until_us != LW__NEVER &&
           lock->claim->machine.deadline_us +
                   lw__machine_drift_us(lw__handles_lease_us(lock->claim)) + LW__MS >=
               lock->hold_until_us;
}

int64_t lw__handle_margin_us(const struct lw_lock *lock)
{
    return (int64_t)lock->margin_ms * LW__MS;
}

/* Less than a millisecond shows as none. But no more is asked for than max_hold_ms
 * allows: half of it, where that is a millisecond itself. */
int64_t lw__handle_least_us(const struct lw_lock *lock)
{
    int64_t least = lw__handle_margin_us(lock);

    if (!lock->granted || least >= LW__LEAST_US) {
        return least;
    }
    return lock->asking.max_hold_us > 0 && lock->asking.max_hold_us < 2 * LW__LEAST_US
               ? lock->asking.max_hold_us / 2
               : LW__LEAST_US;
}

/* ---- at risk ---- */

/* What is left of a lease then, by what the caller wants. */
static int64_t wanted_us(const struct lw_lock *lock)
{
    int64_t lease = (int64_t)lock->lease_ms * LW__MS, margin = lw__handle_margin_us(lock);

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

    if (lw__handle_is_covered(lock)) {
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

static int64_t check_risk(struct lw_lock *lock)
{
    int64_t deadline = lw__handle_deadline_us(lock), now = lw__now_us(), before;

    if (!lock->delivered) {
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

void lw__handle_set_error(struct lw_lock *lock, int error, const char *why)
{
    char told[LW__TEXT_MAX];

    lw__escape(why, told, sizeof(told));
    lock->error = *told ? error : LW_OK;
    if (lock->errstr != NULL && strcmp(lock->errstr, told) == 0) {
        return;
    }
    free(lock->errstr);
    lock->errstr = *told ? strdup(told) : NULL;
    if (*why && lock->claim != NULL) {
        lock->claim->error_reported = true;
    }
}

void lw__handle_set_link_error(struct lw_lock *lock)
{
    const struct lw__node *node = lock->name->node;

    if (!lw__node_is_up(node)) {
        lw__handle_set_error(lock, lw__node_error(node), lw__node_reason(node));
    }
}

/* ---- waiting ---- */

/* Arms the end of the wait: give_up_us, and for a try-once the request time-out. */
static void arm_end(struct lw_lock *lock)
{
    int64_t at = lock->asking.give_up_us;

    if (lock->once) {
        int64_t limit = lock->asking.asked_us +
                        (int64_t)lock->client->options.request_timeout_ms * LW__MS;

        at = limit < at ? limit : at;
    }
    if (at == LW__NEVER) {
        lw__timer_cancel(lock->client->loop, &lock->timer);
    } else {
        lw__timer_set(lock->client->loop, &lock->timer, at);
    }
}

static void await(struct lw__claim *claim, struct lw_lock *lock)
{
    lock->claim = claim;
    claim->once_waiters += lock->once;
    arm_end(lock);
}

void lw__handle_limit_try(struct lw_lock *lock, int64_t at_us)
{
    lock->asking.give_up_us = at_us;
    if (lock->claim != NULL) { /* else it has failed already */
        arm_end(lock);
    }
}

void lw__handle_wait(struct lw__claim *claim, struct lw_lock *lock)
{
    DL_APPEND2(claim->waiting, lock, turn_prev, turn_next);
    await(claim, lock);
}

void lw__handle_wait_first(struct lw__claim *claim, struct lw_lock *lock)
{
    DL_PREPEND2(claim->waiting, lock, turn_prev, turn_next);
    await(claim, lock);
}

void lw__handle_stop_waiting(struct lw__claim *claim, struct lw_lock *lock)
{
    lock->claim = NULL;
    DL_DELETE2(claim->waiting, lock, turn_prev, turn_next);
    claim->once_waiters -= lock->once;
}

void lw__handle_move_waiters(struct lw__claim *from, struct lw__claim *to)
{
    struct lw_lock *lock;

    to->waiting = from->waiting;
    to->once_waiters = from->once_waiters;
    from->waiting = NULL;
    from->once_waiters = 0;
    DL_FOREACH2(to->waiting, lock, turn_next) {
        lock->claim = to;
    }
}

void lw__handle_end(struct lw_lock *lock, int status)
{
    lw__handle_finish(lock, status, LW_OK, NULL);
}

void lw__handle_unserved(struct lw_lock *lock, int status)
{
    const struct lw__node *node = lock->name->node;

    lw__handle_finish(lock, status, lw__node_error(node), lw__node_reason(node));
}

void lw__handle_finish(struct lw_lock *lock, int status, int error, const char *why)
{
    lock->claim = NULL;
    lock->granted = false;
    lock->retry_ms = 0;
    lock->fence = lock->token_n = 0; /* of a grant that came to nothing */
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (why != NULL) {
        lw__handle_set_error(lock, error, why);
    }
    lw__notify_lock(lock, LW__NOTICE_DONE, status);
}

/* ---- holding ---- */

void lw__handle_arm_loss(struct lw_lock *lock)
{
    int64_t at = lw__handle_deadline_us(lock) - lw__handle_least_us(lock);

    if (lock->at_risk != NULL) {
        int64_t risk = check_risk(lock);

        at = risk < at ? risk : at;
    }
    lw__timer_set(lock->client->loop, &lock->timer, at);
}

void lw__handle_repeat_risk(struct lw_lock *lock)
{
    if (!lock->warned && lock->notice.kind == LW__NOTICE_RISK) {
        lw__notify_cancel(lock->client, &lock->notice); /* the end of one not passed on */
    }
    if (lock->warned && lock->notice.kind == LW__NOTICE_NONE) {
        lock->warned = false;
        lw__handle_arm_loss(lock);
    }
}

void lw__handle_hold(struct lw__claim *claim, struct lw_lock *lock)
{
    uint64_t first = claim->machine.fence;

    lock->claim = claim;
    lock->granted = true;
    lock->fence = first ? first + claim->passed_count : 0;
    lock->token_n = claim->n;
    lock->window_ms = claim->window_ms;
    lock->hold_until_us = LW__NEVER;
    if (lock->asking.max_hold_us > 0) {
        lock->hold_until_us = lw__now_us() + lock->asking.max_hold_us;
    }
    claim->passed_count++;
    lw__handle_arm_loss(lock);
    lw__notify_lock(lock, LW__NOTICE_DONE, LW_OK);
}

void lw__handle_delivered(struct lw_lock *lock)
{
    lock->delivered = true;
    lock->held.renew_calls = NULL;
    lock->held.lost_at_us = 0;
    if (lock->at_risk != NULL) {
        lock->held.risk_deadline_us = 0;
        lw__handle_arm_loss(lock);
    }
}

void lw__handle_lose(struct lw_lock *lock, int reason)
{
    lock->held.lost_at_us = lw__handle_deadline_us(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_LOST, reason);
}

/* ---- its memory ---- */

void lw__handle_free(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;

    if (client != NULL && client->freed) { /* both in one callback: its names are loose */
        client = NULL;
    }
    if (lock->name != NULL) {
        lw__name_unref(client, lock->name);
    }
    free(lock->owner);
    free(lock->errstr);
    if (client == NULL || client->free_lock_count == LW__POOLED) {
        free(lock);
        return;
    }
    client->free_lock_count++;
    lock->next = client->free_locks;
    client->free_locks = lock;
}

void lw__handle_unref(struct lw_lock *lock)
{
    if (lock->freed && !lock->in_callback) {
        lw__handle_free(lock);
    }
}
