/* SPDX-License-Identifier: MIT */
/* The handles that share a claim: who joins, whose turn it is, who lets go. Mutex handles
 * of one name queue here, in order of arrival, and Redis sees one token; any other handle
 * has a claim for itself, or shares it as its mode says (together.c). What becomes of a
 * claim is turns_events.c's. Must not know commands or replies.
 *
 * Happy path: lw__turns_join -> granted() -> the callback; lw__turns_let_go passes to the
 * next handle, without a command while the numbers and the lease allow it, or releases.
 * When a hold's time comes to an end first, it is lost, and those who wait queue anew;
 * without memory for that they end. */
#include "lock/turns.h"

#include "lock/handle.h"
#include "lock/line.h"
#include "lock/machine.h"
#include "lock/mode.h"
#include "lock/notify.h"
#include "lock/renew.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "lock/together.h"
#include "lock/turns_inside.h"
#include "loop/loop.h"
#include "redis/route.h"

#include <utlist.h>

static bool shares(const struct lw_lock *lock)
{
    return lock->mode->turns && lock->client->options.local_turns > 1;
}

void lw__turns_close(struct lw__claim *claim)
{
    claim->open = false;
}

/* ---- joining ---- */

static int64_t busy_for_ms(const struct lw__claim *claim)
{
    int64_t left;

    if (claim->machine.phase != LW__HELD) {
        return lw__machine_asks(claim->machine.phase) ? claim->asking.remaining_ms : 0;
    }
    left = (claim->machine.deadline_us - lw__now_us()) / LW__MS;
    return left > 0 ? left : 0;
}

/* Those before it in the list are on their way out. */
static struct lw__claim *find_open(const struct lw__name *name)
{
    struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (claim->open) {
            break;
        }
    }
    return claim;
}

static void join_shared(struct lw__claim *claim, struct lw_lock *lock)
{
    if (lock->once) {
        lw__handle_end(lock, LW_EBUSY);
        lock->retry_ms = busy_for_ms(claim);
        return;
    }
    lw__handle_wait(claim, lock);
    if (claim->machine.phase == LW__ASKING && !claim->asked_to_join) {
        lw__claim_event(claim, LW__EV_ASK_NOW);
    }
}

/* Somebody of this client is in line before it. */
static bool is_behind(const struct lw_lock *lock)
{
    return lock->mode->in_line != NULL && lw__node_is_up(lock->name->node) &&
           lw__line_first(lock->name) != NULL;
}

int lw__turns_join(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;
    struct lw__claim *claim = shares(lock) ? find_open(lock->name) : NULL;

    if (claim != NULL) {
        join_shared(claim, lock);
        return 0;
    }
    if (lock->mode->together && lw__together_join(lock)) {
        return 0;
    }
    if (lock->once && is_behind(lock)) {
        lw__handle_end(lock, LW_EBUSY);
        lock->retry_ms = lw__line_busy_ms(lock->name);
        return 0;
    }
    if (lock->once && lw__node_is_backing_off(lock->name->node)) {
        lw__handle_unserved(lock, LW_ECONN);
        return 0;
    }
    claim = lw__claim_new(client, lock);
    if (claim == NULL) {
        return LW_ENOMEM;
    }
    claim->open = shares(lock);
    lw__handle_wait(claim, lock);
    lw__claim_event(claim, LW__EV_START);
    return 0;
}

void lw__turns_queue_anew(struct lw__claim *claim)
{
    struct lw_lock *lock, *next;
    struct lw__claim *fresh;

    lw__turns_close(claim);
    if (claim->waiting == NULL) {
        return;
    }
    fresh = lw__claim_new(claim->client, claim->waiting);
    if (fresh == NULL) {
        DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
            lw__handle_wait_no_more(claim, lock);
            lw__handle_end(lock, LW_ENOMEM);
        }
        return;
    }
    lw__handle_move_waiters(claim, fresh);
    fresh->error_told = claim->error_told;
    fresh->open = shares(fresh->waiting);
    lw__claim_event(fresh, LW__EV_START);
}

/* ---- holding ---- */

void lw__turns_begin(struct lw__claim *claim, struct lw_lock *lock)
{
    lw__handle_wait_no_more(claim, lock);
    claim->holder = lock;
    claim->renewing_for_next = claim->next_left = false;
    lw__handle_hold(claim, lock);
    lw__renewal_plan(claim);
}

void lw__turns_take_back(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    lw__together_leave(lock);
    lock->granted = false;
    lw__notify_cancel(lock->client, &lock->notice);
    lw__handle_wait_first(claim, lock);
}

/* This side stops believing: the key is given back at its deadline and not before, since
 * the holder may use its margin up to then. */
static void lapse(struct lw_lock *lock)
{
    struct lw__input input = {.event = LW__EV_LAPSE};
    struct lw__claim *claim = lock->claim;
    bool capped = lock->hold_until_us < claim->machine.deadline_us + LW__MS ||
                  lock->hold_until_us - claim->machine.deadline_us <
                      lw__machine_drift_us((int64_t)lock->lease_ms * LW__MS) + LW__MS;

    if (!capped) {
        lw__handle_note_link(lock);
    }
    lw__handle_lose(lock,
                    lock->hold_until_us != LW__NEVER && capped ? LW_ETIMEOUT : LW_ELOST);
    lw__renew_end_all(lock, LW_ELOST);
    if (lw__terms_others(claim) != NULL) { /* they hold on, each up to its own margin */
        lw__together_leave(lock);
        lock->claim = NULL;
        return;
    }
    lw__renewal_forget(claim);
    input.lapse.at_us = lock->held.lost_at_us;
    lw__claim_step(claim, &input);
    lw__turns_queue_anew(claim);
}

/* Returns true if a request is on its way, and no request of the claim was ever answered:
 * it is not known that the lock is busy. */
static bool is_unanswered(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ASKING && !claim->set_answered &&
           claim->asking.remaining_ms == 0 && claim->asking.place == 0;
}

/* An error that the server has sent says more than its silence since. */
static void wait_is_over(struct lw_lock *lock)
{
    int status = lock->once ? LW_ECONN : LW_ETIMEOUT;
    bool silent = lock->errstr == NULL && (lock->once || is_unanswered(lock->claim));

    lw__turns_withdraw(lock);
    if (!lw__node_is_up(lock->name->node)) {
        lw__handle_unserved(lock, status);
    } else {
        lw__handle_finish(lock, status, LW_ECONN, silent ? "no answer in time" : NULL);
    }
}

void lw__turns_give_up_release(struct lw_lock *lock)
{
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lock->claim->releasing = NULL;
    lock->claim = NULL;
    lw__notify_lock(lock, LW__NOTICE_RELEASED, LW_EUNKNOWN);
}

void lw__turns_timer(void *arg)
{
    struct lw_lock *lock = arg;
    struct lw__claim *claim = lock->claim;

    if (lock->later) {
        if (claim == NULL || lock->later == LW__LATER_IN_TIME) { /* else at its end */
            lw__notify_lock(lock, LW__NOTICE_LATER, LW_OK);
        }
    } else if (lock->state == LW_RELEASING) {
        lw__turns_give_up_release(lock);
        if (lock->errstr == NULL) {
            lw__handle_set_error(lock, LW_ECONN, "no answer to the release in time");
        }
    } else if (lock->state == LW_WAITING && !lock->granted) {
        wait_is_over(lock);
    } else if (lw__terms_deadline_us(lock) - lw__terms_least_us(lock) > lw__now_us()) {
        lw__handle_arm_loss(lock);
    } else if (lock->granted) {
        lw__turns_take_back(lock);
        if (claim->holder != NULL) {
            lw__renewal_now(claim);
            return;
        }
        lw__renewal_forget(claim);
        lw__claim_event(claim, LW__EV_LATE);
    } else {
        lapse(lock);
    }
}

/* ---- letting go ---- */

/* The server that drew them may have lost its state since, and others may have had larger
 * ones from it, unless its connection still stands. */
static bool has_number(const struct lw__claim *claim, const struct lw_lock *next)
{
    const struct lw__node *node = claim->name->node;

    if (claim->machine.fence == 0) {
        return (next->flags & LW_NO_FENCE) != 0;
    }
    return claim->served < claim->numbers && lw__node_is_up(node) &&
           claim->held.drawn_on == lw__node_connection(node);
}

/* A number of its own for the next one, and time to use it: where little is left, or its
 * margin takes nearly all of it, it would be lost before it could be renewed. A quarter
 * of the claim window is what a hand-over must leave, too. */
bool lw__turns_may_pass(const struct lw__claim *claim, const struct lw_lock *next)
{
    int64_t left = claim->machine.deadline_us - lw__now_us();

    if (claim->machine.phase != LW__HELD) {
        return false;
    }
    /* a renewal in flight was sent with another's lease */
    if ((next->flags & LW_NO_RENEW) && claim->held.batch != NULL) {
        return false;
    }
    return claim->mode->turns && has_number(claim, next) &&
           claim->served < claim->client->options.local_turns &&
           left > (int64_t)next->window_ms * LW__MS / 4 &&
           left - left / 8 > lw__terms_margin_us(next);
}

/* Passes to the next one, who gets a full lease first if nobody will renew it for him. */
static void pass(struct lw__claim *claim)
{
    struct lw_lock *next = claim->waiting;

    if (!(next->flags & LW_NO_RENEW)) {
        claim->client->stats.passed++;
        lw__turns_begin(claim, next);
        return;
    }
    claim->renewing_for_next = true;
    lw__renewal_now(claim);
}

/* A turn lets go and asks at once. While no number can be had, or others wait for room on
 * the link, the release shall not wait for that, nor may the ask go before theirs. In a
 * cluster a script must not free a name and take it again: it would end half way where
 * the slot begins to move to another node, which has what is not here any more. */
static bool may_turn(const struct lw__claim *claim, const struct lw_lock *next)
{
    struct lw__node *node = claim->name->node;

    return claim->mode->turns && claim->machine.phase == LW__HELD &&
           !lw__route_is_cluster(claim->client->route) && lw__node_has_room(node) &&
           ((next->flags & LW_NO_FENCE) || lw__node_fence_fault(node) == NULL);
}

void lw__turns_turn(struct lw__claim *claim)
{
    if (claim->waiting != NULL && may_turn(claim, claim->waiting)) {
        claim->served = 0;
        lw__claim_turn(claim);
    } else {
        lw__turns_queue_anew(claim);
        lw__claim_event(claim, LW__EV_RELEASE);
    }
}

/* The claim stays held: no command. */
static void part(struct lw_lock *lock, int status)
{
    lock->claim = NULL;
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (lock->state == LW_RELEASING) {
        lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
    }
}

void lw__turns_let_go(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;
    bool silent = lock->state != LW_RELEASING;

    lw__together_leave(lock);
    if (claim->holder != NULL) {
        part(lock, LW_STILLHELD);
        return;
    }
    if (claim->waiting != NULL && lw__turns_may_pass(claim, claim->waiting)) {
        part(lock, LW_OK);
        pass(claim);
        return;
    }
    lw__renewal_forget(claim);
    claim->releasing = silent ? NULL : lock;
    if (silent) {
        lock->claim = NULL;
    }
    lw__turns_turn(claim);
}

void lw__turns_withdraw(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    claim->next_left |= claim->renewing_for_next && claim->waiting == lock;
    lw__handle_wait_no_more(claim, lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (claim->waiting != NULL || claim->holder != NULL) {
        return;
    }
    lw__turns_close(claim);
    if (!claim->renewing_for_next) {
        lw__claim_event(claim, LW__EV_ABANDON);
        return;
    }
    claim->renewing_for_next = false;
    lw__renewal_forget(claim);
    lw__claim_event(claim, LW__EV_RELEASE);
}
