/* SPDX-License-Identifier: MIT */
/* One handle: it waits for a claim, holds it, loses it or ends. Also its deadline, margin
 * and error text, and what the handles of a claim request together: lease, fencing token
 * and place in the queue. Independent of which handle is served next (turns.c), and of
 * when a grant is believed (machine.c).
 *
 * lw__handle_wait queues the handle behind its claim. lw__handle_hold gives it its
 * fencing token, arms its loss and queues `done`. lw__handle_lose and lw__handle_finish
 * end it and disarm its timer. The timer (lw__turns_timer) fires when the wait times out,
 * or a margin before the deadline of the hold.
 *
 * Early warning: a hold is at risk when so little of its lease is left that a renewal
 * must have failed. The timer fires at that time, too, and whenever the deadline moves
 * the time is computed again. If the deadline moves after the warning, `at_risk` is
 * called with 0. The handle's only notice has room for both, and asked_to_yield follows
 * them: yield_due is set while the notice is that of the grant or of a risk. `lost`
 * replaces all of them.
 *
 * If memory for an error text is short, the handle has none. */
#include "lock/lock_private.h"

#include "base/escape.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* ---- all handles of a claim ---- */

static int64_t lease_us(const struct lw_lock *lock)
{
    return (int64_t)lock->lease_ms * LW__MS;
}

/* Without handles the lease stays as it is. A handle that is limited is alone in its
 * claim. */
void lw__handles_terms(const struct lw__claim *claim, struct lw__terms *ret)
{
    const struct lw__handles *handles = lw__handles(claim);
    const struct lw_lock *holder = handles->holder, *first = handles->waiting, *lock;

    *ret = (struct lw__terms){.lease_us = claim->machine.lease_us,
                              .hold_until_us = LW__NEVER,
                              .renews = handles->next_renewal != LW__NEXT_NONE,
                              .awaited = first != NULL};
    if (holder != NULL) {
        ret->lease_us = lease_us(holder);
        ret->margin_us = lw__handle_margin_us(holder);
        ret->hold_until_us = holder->extras->hold_until_us;
        ret->renews = !(holder->flags & LW_NO_RENEW);
        ret->lease_short = handles->lease_short;
    } else if (first != NULL) {
        ret->lease_us = lease_us(first);
        ret->queue_limit = first->queue_limit;
        for (lock = first; lock != NULL && !(ret->fence && ret->place);
             lock = lock->turn_next) {
            ret->fence = ret->fence || !(lock->flags & LW_NO_FENCE);
            ret->place = ret->place || !lock->once;
        }
    }
}

/* ---- its error ---- */

static const char *text_of(const struct lw_lock *lock)
{
    return lock->extras->errstr != NULL ? lock->extras->errstr : "";
}

static void set_text(struct lw_lock *lock, const char *text)
{
    struct lw__extras *extras = lw__extras_add(lock);

    if (extras != NULL) {
        free(extras->errstr);
        extras->errstr = *text ? strdup(text) : NULL;
    }
}

void lw__handle_set_error(struct lw_lock *lock, int error, const char *why)
{
    char escaped[LW__TEXT_MAX];

    lw__escape(why, escaped, sizeof(escaped));
    lock->error = *escaped ? error : LW_OK;
    if (strcmp(text_of(lock), escaped) == 0) {
        return;
    }
    set_text(lock, escaped);
    if (*why && lock->claim != NULL) {
        lw__handles(lock->claim)->error_reported = true;
    }
}

void lw__handles_forget_error(struct lw__handles *handles)
{
    handles->error_reported = false;
}

/* Returns why the name's node is not up; that of a quorum lists every server. */
static const char *reason_of(const struct lw_lock *lock)
{
    const struct lw__holds *holds = &lock->client->holds;

    return holds->votes != NULL ? holds->votes->reason(holds)
                                : lw__node_reason(lock->name->node);
}

void lw__handle_set_link_error(struct lw_lock *lock)
{
    const struct lw__node *node = lock->name->node;

    if (!lw__node_is_up(node)) {
        lw__handle_set_error(lock, lw__node_error(node), reason_of(lock));
    }
}

/* ---- waiting ---- */

void lw__handle_count_wait(const struct lw_lock *lock, int change)
{
    struct lw_stats *stats = &lock->client->stats;

    stats->waiting += (uint64_t)(int64_t)change;
    stats->standby += lock->standby ? (uint64_t)(int64_t)change : 0;
}

/* The wait ends at give_up_us; a try-once ends after request_timeout_ms, too. */
static void arm_time_out(struct lw_lock *lock)
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

static void begin_wait(struct lw__handles *handles, struct lw_lock *lock)
{
    lock->claim = &handles->claim;
    handles->once_waiters += lock->once;
    arm_time_out(lock);
}

void lw__handle_limit_try(struct lw_lock *lock, int64_t at_us)
{
    lock->asking.give_up_us = at_us;
    if (lock->claim != NULL) { /* NULL: it has failed already */
        arm_time_out(lock);
    }
}

void lw__handle_wait(struct lw__handles *handles, struct lw_lock *lock)
{
    DL_APPEND2(handles->waiting, lock, turn_prev, turn_next);
    begin_wait(handles, lock);
}

void lw__handle_wait_first(struct lw__handles *handles, struct lw_lock *lock)
{
    DL_PREPEND2(handles->waiting, lock, turn_prev, turn_next);
    begin_wait(handles, lock);
}

void lw__handle_stop_waiting(struct lw__handles *handles, struct lw_lock *lock)
{
    lock->claim = NULL;
    DL_DELETE2(handles->waiting, lock, turn_prev, turn_next);
    handles->once_waiters -= lock->once;
}

void lw__handle_move_waiters(struct lw__handles *from, struct lw__handles *to)
{
    struct lw_lock *lock;

    to->waiting = from->waiting;
    to->once_waiters = from->once_waiters;
    from->waiting = NULL;
    from->once_waiters = 0;
    to->error_reported = from->error_reported;
    DL_FOREACH2(to->waiting, lock, turn_next) {
        lock->claim = &to->claim;
    }
}

/* ---- ending without a hold ---- */

void lw__handle_forget_grant(struct lw_lock *lock)
{
    lock->retry_ms = 0;
    lock->fence = lock->token_n = 0;
}

void lw__handle_take_back(struct lw_lock *lock)
{
    lock->granted = false;
    lw__notify_cancel(lock->client, &lock->notice);
}

void lw__handle_finish(struct lw_lock *lock, int status, int error, const char *why)
{
    lock->claim = NULL;
    lock->granted = false;
    lw__handle_forget_grant(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (why != NULL) {
        lw__handle_set_error(lock, error, why);
    }
    lw__notify_lock(lock, LW__NOTICE_DONE, status);
}

void lw__handle_end(struct lw_lock *lock, int status)
{
    lw__handle_finish(lock, status, LW_OK, NULL);
}

void lw__handle_end_busy(struct lw_lock *lock, int64_t retry_ms)
{
    lw__handle_end(lock, LW_EBUSY);
    lock->retry_ms = retry_ms;
}

void lw__handle_leave_claim(struct lw_lock *lock)
{
    lock->claim = NULL;
}

void lw__handle_unserved(struct lw_lock *lock, int status)
{
    const struct lw__node *node = lock->name->node;

    lw__handle_finish(lock, status, lw__node_error(node), reason_of(lock));
}

/* ---- its deadline ---- */

int64_t lw__handle_deadline_us(const struct lw_lock *lock)
{
    bool lost = lock->claim == NULL || (lock->delivered && lock->held.lost_at_us != 0);
    int64_t deadline = lost ? lock->held.lost_at_us : lock->claim->machine.deadline_us;

    return deadline < lock->extras->hold_until_us ? deadline
                                                  : lock->extras->hold_until_us;
}

int64_t lw__handle_left_ms(const struct lw_lock *lock)
{
    int64_t left = lw__handle_deadline_us(lock) - lw__now_us();

    return left > 0 ? left / LW__MS : 0;
}

static bool is_covered(const struct lw_lock *lock)
{
    return lw__machine_covers(lock->claim->machine.deadline_us, lease_us(lock),
                              lock->extras->hold_until_us);
}

/* A grant needs at least a millisecond, because lw_lock_remaining_ms returns 0 for less.
 * With a max_hold_ms of 1 half of that is enough, or no grant would ever be usable. */
int64_t lw__handle_least_us(const struct lw_lock *lock)
{
    int64_t least = lw__handle_margin_us(lock);

    if (!lock->granted || least >= LW__LEAST_US) {
        return least;
    }
    return lock->extras->max_hold_us > 0 && lock->extras->max_hold_us < 2 * LW__LEAST_US
               ? lock->extras->max_hold_us / 2
               : LW__LEAST_US;
}

/* ---- at risk ---- */

/* Returns how long before the deadline the hold is at risk, by the caller's options. */
static int64_t risk_span_us(const struct lw_lock *lock)
{
    int64_t lease = lease_us(lock), margin = lw__handle_margin_us(lock);

    if (lock->extras->at_risk_ms > 0) {
        return (int64_t)lock->extras->at_risk_ms * LW__MS;
    }
    return margin < lease / 3 ? lease / 3 : (margin + lease / 2) / 2;
}

/* Returns when the hold is at risk: not before half of the time that is left now has
 * passed. So a claim window, the rest of a lease after a local hand-over, and a shortened
 * lease are renewed first. */
static int64_t risk_time_us(const struct lw_lock *lock, int64_t deadline_us,
                            int64_t now_us)
{
    int64_t span = risk_span_us(lock), half = (deadline_us - now_us) / 2;

    if (is_covered(lock)) {
        return LW__NEVER;
    }
    return deadline_us - (span < half ? span : half);
}

static void cancel_risk(struct lw_lock *lock)
{
    lw__notify_cancel(lock->client, &lock->notice);
    lw__handle_resume_yield(lock);
}

static void report_risk(struct lw_lock *lock, bool at_risk)
{
    lock->warned = at_risk;
    if (lock->notice.kind == LW__NOTICE_RISK) { /* cancels the undelivered opposite */
        cancel_risk(lock);
    } else {
        lock->yield_due = lock->yield_due || lock->notice.kind == LW__NOTICE_YIELD;
        lw__notify_lock(lock, LW__NOTICE_RISK, at_risk);
    }
}

/* Computes the time of the warning again if the deadline has moved, and reports a change.
 * Returns when the timer must fire for the warning. */
static int64_t check_risk(struct lw_lock *lock)
{
    int64_t deadline = lw__handle_deadline_us(lock), now = lw__now_us(), before;

    if (!lock->delivered) {
        return LW__NEVER;
    }
    before = lock->extras->risk_deadline_us;
    if (deadline != before) {
        lw__extras_own(lock)->risk_deadline_us = deadline;
        lw__extras_own(lock)->risk_at_us = risk_time_us(lock, deadline, now);
    }
    if (lock->warned && deadline > before) {
        report_risk(lock, false);
    } else if (!lock->warned && lock->extras->risk_at_us <= now) {
        report_risk(lock, true);
    }
    return lock->warned ? LW__NEVER : lock->extras->risk_at_us;
}

/* ---- holding ---- */

void lw__handle_arm_loss(struct lw_lock *lock)
{
    int64_t at = lw__handle_deadline_us(lock) - lw__handle_least_us(lock);

    if (lock->extras->at_risk != NULL) {
        int64_t risk = check_risk(lock);

        at = risk < at ? risk : at;
    }
    lw__timer_set(lock->client->loop, &lock->timer, at);
}

void lw__handle_repeat_risk(struct lw_lock *lock)
{
    if (!lock->warned && lock->notice.kind == LW__NOTICE_RISK) {
        cancel_risk(lock); /* the caller does not know of that risk */
    }
    if (lock->warned &&
        (lock->notice.kind == LW__NOTICE_NONE || lock->notice.kind == LW__NOTICE_YIELD)) {
        lock->warned = false;
        lw__handle_arm_loss(lock);
    }
}

void lw__handle_hold(struct lw__handles *handles, struct lw_lock *lock)
{
    struct lw__claim *claim = &handles->claim;
    uint64_t first = claim->machine.fence;

    lock->claim = claim;
    lock->granted = true;
    lock->yield_due = false;
    lock->fence = first ? first + handles->passed_count : 0;
    lock->token_n = claim->n;
    lock->window_ms = claim->window_ms;
    if (lock->extras->max_hold_us > 0) {
        lw__extras_own(lock)->hold_until_us = lw__now_us() + lock->extras->max_hold_us;
    } else if (lock->extras->hold_until_us != LW__NEVER) { /* a vote's, set before */
        lw__extras_own(lock)->hold_until_us = LW__NEVER;
    }
    claim->held.stays_until_us = 0;
    lw__description_granted(claim);
    lw__handle_arm_loss(lock);
    lw__notify_lock(lock, LW__NOTICE_DONE, LW_OK);
}

void lw__handle_keep_until(struct lw__claim *claim, int64_t until_us)
{
    if (until_us > claim->held.stays_until_us) {
        claim->held.stays_until_us = until_us;
    }
}

void lw__handle_keep_at_least(struct lw_lock *lock, uint32_t at_least_ms)
{
    if (lock->claim != NULL && at_least_ms > 0) {
        lw__handle_keep_until(lock->claim, lw__now_us() + (int64_t)at_least_ms * LW__MS);
    }
}

void lw__handle_delivered(struct lw_lock *lock)
{
    lock->delivered = true;
    lock->granted = false;
    memset(&lock->held, 0, sizeof(lock->held)); /* valid from now on */
    lw__handle_keep_at_least(lock, lock->extras->at_least_ms);
    if (lock->extras->at_risk != NULL) {
        lw__extras_own(lock)->risk_deadline_us = 0;
        lw__handle_arm_loss(lock);
    }
}

void lw__handle_resume_yield(struct lw_lock *lock)
{
    if (lock->yield_due && lock->notice.kind == LW__NOTICE_NONE) {
        lock->yield_due = false;
        lw__notify_lock(lock, LW__NOTICE_YIELD, LW_OK);
    }
}

void lw__handle_ask(struct lw_lock *lock)
{
    if (lock->client->options.asked_to_yield == NULL) {
        return;
    }
    lock->yield_due = lock->notice.kind != LW__NOTICE_YIELD;
    lw__handle_resume_yield(lock);
}

void lw__handle_lose(struct lw_lock *lock, int reason)
{
    lock->held.lost_at_us = lw__handle_deadline_us(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_LOST, reason);
}

void lw__handle_end_lease(struct lw_lock *lock)
{
    lock->held.lost_at_us = 0;
}

/* ---- its memory ---- */

struct lw_lock *lw__handle_allocate(struct lw_client *client)
{
    struct lw_lock *lock = client->free_locks;

    if (lock != NULL) {
        client->free_locks = lock->next;
        client->free_lock_count--;
    } else if (lw__timer_reserve(client->loop, 1) != 0) {
        return NULL;
    } else if ((lock = malloc(sizeof(*lock))) == NULL) {
        lw__timer_unreserve(client->loop, 1);
        return NULL;
    }
    memset(lock, 0, sizeof(*lock));
    lw__extras_init(lock);
    return lock;
}

void lw__handle_clear(struct lw_client *client)
{
    while (client->free_locks != NULL) {
        struct lw_lock *lock = client->free_locks;

        client->free_locks = lock->next;
        free(lock);
    }
}

void lw__handle_free(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;

    if (client != NULL &&
        client->freed) { /* in the same callback: the name is the handle's now */
        client = NULL;
    }
    if (lock->name != NULL) {
        lw__name_unref(client != NULL ? &client->holds : NULL, lock->name);
    }
    lw__extras_free(lock);
    if (client == NULL || client->free_lock_count == LW__POOLED) {
        if (client != NULL && client->loop != NULL) {
            lw__timer_unreserve(client->loop, 1);
        }
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
