/* SPDX-License-Identifier: MIT */
/* Which handle of a claim waits, holds, is handed the lock locally or releases it.
 * Several handles share a claim, and so one token in Redis, in two cases: mutexes without
 * max_waiting and without a note, if local_turns is above 1; and LW_REDISSON. They hold
 * one after another, in order of arrival. Any other handle has a claim of its own. This
 * file is independent of commands and replies.
 *
 * Usual course: lw__turns_join finds or makes a claim; `granted` makes its first waiter
 * the holder; lw__turns_release hands over to the next handle, without a command while
 * the fencing tokens and the lease allow it, or releases. With LW_REDISSON the handles
 * that wait behind a hold get a fresh claim when its release has been answered.
 *
 * Failures: an unknown outcome ends the handles that try once, a permanent error all that
 * wait. If a hold is lost, by its deadline or on the server, its waiters join the queue
 * again with a fresh claim; without memory for that they end. */
#include "lock/lock_private.h"

#include "loop/loop.h"
#include "redis/node.h"
#include "redis/route.h"

#include <stdio.h>
#include <string.h>
#include <utlist.h>

/* ---- joining ---- */

static bool is_held(const struct lw__claim *claim)
{
    return lw__machine_holds(claim->machine.phase) || claim->machine.phase == LW__EXPIRED;
}

/* Returns how long the lock stays held by others, in ms, as far as is known; -1: the key
 * has no TTL. */
static int64_t busy_for_ms(const struct lw__claim *claim)
{
    int64_t now = lw__now_us(), left = 0;

    if (is_held(claim)) {
        left = (claim->machine.deadline_us - now) / LW__MS;
    } else if (lw__machine_asks(claim->machine.phase)) {
        left = claim->asking.remaining_ms;
        if (left < 0 || !claim->mode->polls) {
            return left;
        }
        left -= (now - claim->asking.sent_us) / LW__MS;
    }
    return left > 0 ? left : 0;
}

static void end_busy(struct lw__claim *claim, struct lw_lock *lock)
{
    lw__handle_end_busy(lock, busy_for_ms(claim));
}

/* Ends a handle because max_waiting others wait. Its text distinguishes that from a lock
 * that is only held. */
static void end_full(struct lw__claim *claim, struct lw_lock *lock)
{
    end_busy(claim, lock);
    lw__handle_set_error(lock, LW_EBUSY, LW__FULL);
}

/* Returns a claim for the handle, or NULL if memory is short. `adopts` is the token whose
 * hold it adopts; NULL: it acquires. */
static struct lw__claim *new_claim(const struct lw_lock *lock, const char *adopts)
{
    struct lw__claim_args args = {
        .name = lock->name,
        .mode = lock->mode,
        .lease_ms = lock->lease_ms,
        .window_ms = lock->window_ms,
        .permits = lock->extras->permits,
        .owner = lock->extras->owner,
        .adopts = adopts,
        .note = lock->extras->note,
    };

    return lw__claim_new(&lock->client->holds, &args);
}

/* A handle with max_waiting has a token of its own, so that the server counts it. So has
 * one with a note, which is the token's. */
static bool shares_claim(const struct lw_lock *lock)
{
    return lock->mode->polls ||
           (lock->mode->mutex && !lock->limited && lock->extras->note == NULL &&
            lock->client->options.local_turns > 1);
}

/* Returns how many handles wait for this name without a token of their own. A claim that
 * asks has a place in the queue for one of its handles. */
static uint32_t count_tokenless(const struct lw__name *name)
{
    const struct lw__claim *claim;
    const struct lw_lock *lock;
    uint32_t count = 0, waiters;

    DL_FOREACH(name->claims, claim) {
        const struct lw__handles *handles = lw__handles(claim);

        waiters = 0;
        DL_FOREACH2(handles->waiting, lock, turn_next) {
            waiters += !lock->once;
        }
        count += waiters - (waiters > 0 && lw__machine_asks(claim->machine.phase));
    }
    return count;
}

/* Returns the claim that the handle joins, or NULL. It skips claims of a single handle
 * (max_waiting, a note, an adoption) and those whose waiters have got a fresh claim. A
 * mode that polls has only one claim for a name, which handles join until it has ended.
 */
static struct lw__handles *find_joinable(const struct lw_lock *lock)
{
    struct lw__claim *claim;

    DL_FOREACH(lock->name->claims, claim) {
        struct lw__handles *handles = lw__handles(claim);

        if (claim->mode == lock->mode && (handles->joinable || claim->mode->polls)) {
            return handles;
        }
    }
    return NULL;
}

/* Returns true if another handle holds, or waits ahead of one that tries once. */
static bool is_busy(const struct lw__handles *handles)
{
    const struct lw__claim *claim = &handles->claim;

    return !claim->mode->polls || is_held(claim) ||
           (handles->waiting != NULL && lw__node_is_up(claim->name->node));
}

static void join_claim(struct lw__handles *handles, struct lw_lock *lock)
{
    struct lw__claim *claim = &handles->claim;

    lw__handle_wait(handles, lock);
    if (!claim->mode->polls) {
        if (claim->machine.phase == LW__ACQUIRING && !claim->asked_to_join) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        }
    } else if (lw__machine_holds(claim->machine.phase)) {
        lw__redisson_busy(claim);
    }
}

static void start(struct lw__claim *claim)
{
    lw__claim_start(claim, claim->mode->polls ? lw__redisson_cooldown_us(claim) : 0, 0);
}

int lw__turns_join(struct lw_lock *lock)
{
    bool shares = shares_claim(lock);
    struct lw__handles *handles = shares ? find_joinable(lock) : NULL;
    struct lw__claim *claim;

    if (handles != NULL && lock->once && is_busy(handles)) {
        end_busy(&handles->claim, lock);
        return 0;
    }
    if (lock->limited) {
        uint32_t tokenless = count_tokenless(lock->name);

        if (tokenless >= lock->queue_limit) {
            end_full(lock->name->claims, lock);
            return 0;
        }
        lock->queue_limit -= tokenless;
    }
    if (lock->once && lw__node_is_backing_off(lock->name->node)) {
        lw__handle_unserved(lock, LW_ECONN);
        return 0;
    }
    if (handles != NULL) {
        join_claim(handles, lock);
        return 0;
    }
    claim = new_claim(lock, NULL);
    if (claim == NULL) {
        return LW_ENOMEM;
    }
    handles = lw__handles(claim);
    handles->joinable = shares;
    lw__handle_wait(handles, lock);
    start(claim);
    return 0;
}

int lw__turns_adopt(struct lw_lock *lock, const char *token)
{
    struct lw__claim *claim;

    if (lock->once && lw__node_is_backing_off(lock->name->node)) {
        lw__handle_unserved(lock, LW_ECONN);
        return 0;
    }
    claim = new_claim(lock, token);
    if (claim == NULL) {
        return LW_ENOMEM;
    }
    lw__handle_wait(lw__handles(claim), lock); /* alone: the claim is not joinable */
    start(claim);
    return 0;
}

/* Ends all waiters with this status. */
static void end_waiters(struct lw__handles *handles, int status)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE2(handles->waiting, lock, next, turn_next) {
        lw__handle_stop_waiting(handles, lock);
        lw__handle_end(lock, status);
    }
}

/* Called when the claim has ended or will release its token. Moves its waiters to a fresh
 * claim and returns that, for the caller to start. Returns NULL if there are no waiters.
 * Also returns NULL if the mode polls and the claim has not ended, because the lock is
 * held until then. Ends the waiters and returns NULL if memory is short, or if the claim
 * has adopted its hold, which cannot be adopted a second time. */
static struct lw__claim *move_waiters(struct lw__handles *handles)
{
    const struct lw__claim *claim = &handles->claim;
    struct lw__claim *fresh;

    handles->joinable = false;
    if (handles->waiting == NULL ||
        (claim->mode->polls && claim->machine.phase != LW__ENDED)) {
        return NULL;
    }
    if (claim->extras->adopts != NULL) {
        end_waiters(handles, LW_ENOTHELD);
        return NULL;
    }
    fresh = new_claim(handles->waiting, NULL);
    if (fresh == NULL) {
        end_waiters(handles, LW_ENOMEM);
        return NULL;
    }
    lw__handles(fresh)->joinable = shares_claim(handles->waiting);
    lw__handle_move_waiters(handles, lw__handles(fresh));
    return fresh;
}

static void requeue_waiters(struct lw__handles *handles)
{
    struct lw__claim *fresh = move_waiters(handles);

    if (fresh != NULL) {
        start(fresh);
    }
}

/* ---- holding ---- */

/* A client that never waits is otherwise subscribed to no slot of a cluster. */
static void subscribe(const struct lw_lock *lock)
{
    if (lock->client->options.asked_to_yield != NULL) {
        lw__node_subscribe(lock->name->node, lock->name->slot);
    }
}

void lw__turns_subscribe(struct lw_client *client, const struct lw__node *node)
{
    struct lw_lock *lock;

    if (client->options.asked_to_yield == NULL) {
        return;
    }
    DL_FOREACH(client->locks, lock) {
        if (lock->claim != NULL && lw__handles(lock->claim)->holder == lock &&
            (node == NULL || lock->name->node == node)) {
            subscribe(lock);
        }
    }
}

/* The first waiter becomes the holder. */
static void begin_hold(struct lw__handles *handles)
{
    struct lw_lock *lock = handles->waiting;

    lw__handle_stop_waiting(handles, lock);
    handles->holder = lock;
    handles->next_renewal = LW__NEXT_NONE;
    lw__handle_hold(handles, lock);
    if (lw__claim_message_kept(&handles->claim)) {
        lw__handle_ask(lock);
    }
    handles->passed_count++;
    lock->queue_limit = 0;
    lw__renewal_plan(&handles->claim);
    subscribe(lock);
}

/* The grant was lost before it was delivered: the handle becomes the first waiter. */
static void requeue_undelivered(struct lw__handles *handles, struct lw_lock *lock)
{
    handles->holder = NULL;
    lw__handle_take_back(lock);
    lw__handle_wait_first(handles, lock);
}

/* The hold is lost on this side. The key is released at the deadline, not before, because
 * the holder may use its margin until then. */
static void lose_by_clock(struct lw_lock *lock)
{
    struct lw__input input = {.event = LW__EV_LOST_LOCALLY};
    struct lw__claim *claim = lock->claim;
    bool capped = lock->extras->hold_until_us < claim->machine.deadline_us + LW__MS ||
                  lock->extras->hold_until_us - claim->machine.deadline_us <
                      lw__machine_drift_us((int64_t)lock->lease_ms * LW__MS) + LW__MS;

    if (!capped) {
        lw__handle_set_link_error(lock);
    }
    lw__handle_lose(lock, lock->extras->hold_until_us != LW__NEVER && capped ? LW_ETIMEOUT
                                                                             : LW_ELOST);
    lw__renew_call_end_all(lock, LW_ELOST);
    lw__renewal_forget(claim);
    input.lost_locally.at_us = lock->held.lost_at_us;
    lw__claim_step(claim, &input);
    requeue_waiters(lw__handles(claim));
}

/* ---- the handle's timer ---- */

/* Returns true if a request is in flight and none of the claim was ever answered, so that
 * it is unknown whether the lock is busy. */
static bool is_unanswered(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ACQUIRING && !lw__claim_try_was_answered(claim) &&
           claim->asking.remaining_ms == 0 && claim->asking.place == 0;
}

/* An error that the server has sent says more than its silence since. */
static void end_wait(struct lw_lock *lock)
{
    int status = lock->once ? LW_ECONN : LW_ETIMEOUT;
    bool silent = lock->extras->errstr == NULL &&
                  (lock->once || is_unanswered(lock->claim));

    lw__turns_cancel_wait(lock);
    if (!lw__node_is_up(lock->name->node)) {
        lw__handle_unserved(lock, status);
    } else {
        lw__handle_finish(lock, status, LW_ECONN, silent ? "no reply in time" : NULL);
    }
}

int lw__turns_release_status(const struct lw_lock *lock)
{
    const struct lw__claim *claim = lock->claim;

    if (claim == NULL) {
        return lock->notice.status;
    }
    return lw__claim_release_status(claim);
}

/* Returns the lw_error of a release that is known not to have been executed, and sets the
 * handle's error: that there is no connection, or the error of the last reply. */
static int explain_not_released(struct lw_lock *lock)
{
    lw__handle_set_link_error(lock);
    if (lock->extras->errstr == NULL) {
        lw__handle_set_error(lock, LW_ECONN, "the release could not be sent in time");
    }
    return lock->error == LW_EREDIS ? LW_EREDIS : LW_ECONN;
}

void lw__turns_abandon_release(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;
    char why[LW_WHY_SIZE];
    int status;

    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (claim->extras->votes != NULL) {
        status = claim->holds->votes->release_status(claim, why);
        if (status != LW_OK && status != LW_ENOTHELD) {
            lw__handle_set_error(lock, status == LW_EREDIS ? LW_EREDIS : LW_ECONN, why);
        }
    } else {
        status = lw__turns_release_status(lock);
        if (status == LW_ECONN) {
            status = explain_not_released(lock);
        } else if (status == LW_EUNKNOWN && lock->extras->errstr == NULL) {
            lw__handle_set_error(lock, LW_ECONN, "no reply to the release in time");
        }
    }
    lw__handles(claim)->releasing = NULL;
    lw__handle_leave_claim(lock);
    lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
}

void lw__turns_leave_release(struct lw_lock *lock)
{
    lw__handles(lock->claim)->releasing = NULL;
}

void lw__turns_timer(void *arg)
{
    struct lw_lock *lock = arg;
    struct lw__claim *claim = lock->claim;

    if (lock->later) {
        /* LW__LATER_WHEN_GONE: `ended` notifies if there still is a claim */
        if (claim == NULL || lock->later == LW__LATER_IN_TIME) {
            lw__notify_lock(lock, LW__NOTICE_LATER, LW_OK);
        }
    } else if (lock->state == LW_RELEASING) {
        lw__turns_abandon_release(lock);
    } else if (lock->state == LW_WAITING && !lock->granted) {
        end_wait(lock);
    } else if (lw__handle_deadline_us(lock) - lw__handle_least_us(lock) > lw__now_us()) {
        lw__handle_arm_loss(lock);
    } else if (lock->granted) {
        requeue_undelivered(lw__handles(claim), lock);
        lw__renewal_forget(claim);
        lw__claim_event(claim, LW__EV_UNDELIVERED);
    } else {
        lose_by_clock(lock);
    }
}

/* ---- local hand-over, releasing ---- */

/* The server that drew the fencing tokens may have lost its state since, and others may
 * have got larger ones from it, unless its connection is still the same. */
static bool has_fence(const struct lw__handles *handles, const struct lw_lock *next)
{
    const struct lw__claim *claim = &handles->claim;
    const struct lw__node *node = claim->name->node;

    if (claim->machine.fence == 0) {
        return (next->flags & LW_NO_FENCE) != 0;
    }
    return handles->passed_count < claim->fences_drawn && lw__node_is_up(node) &&
           claim->held.drawn_on == lw__node_connection(node);
}

/* The next handle needs a fencing token of its own, and time to renew the lease before
 * the hold is lost. So more than a quarter of the claim window has to be left, and seven
 * eighths of the time have to be more than the handle's margin. */
static bool may_hand_over_locally(const struct lw__handles *handles,
                                  const struct lw_lock *next)
{
    const struct lw__claim *claim = &handles->claim;
    int64_t left = claim->machine.deadline_us - lw__now_us();

    if (!lw__machine_holds(claim->machine.phase)) {
        return false;
    }
    /* a renewal in flight was sent with the lease of another handle */
    if ((next->flags & LW_NO_RENEW) && claim->held.batch != NULL) {
        return false;
    }
    return claim->mode->mutex && has_fence(handles, next) &&
           lw__renewal_may_extend(claim) &&
           handles->passed_count < lw__client_of(claim)->options.local_turns &&
           left > (int64_t)next->window_ms * LW__MS / 4 &&
           left - left / 8 > lw__handle_margin_us(next);
}

/* Passes the lock to the next handle. If that one does not renew, it needs a full lease
 * first. */
static void hand_over_locally(struct lw__handles *handles)
{
    if (!(handles->waiting->flags & LW_NO_RENEW)) {
        handles->claim.holds->stats->passed++;
        begin_hold(handles);
        return;
    }
    handles->next_renewal = LW__NEXT_RENEWING;
    lw__renewal_now(&handles->claim);
}

/* Called when no handle holds the claim any longer. Releases or detaches its token, then
 * sends the request of its waiters, in the same write if there is room on the link. In
 * this order the reply to the request has the lease that a detach has set. At a quorum
 * the request is sent first, so that the release hands over to it. If the client dies
 * then, the votes expire after a claim window, and not after a whole lease. `detaches`:
 * the caller wants to know whether the token is in Redis. The step may free the claim. */
static void release_claim(struct lw__handles *handles, bool detaches)
{
    struct lw__input input = {.event = LW__EV_RELEASE, .release = {detaches}};
    struct lw__claim *claim = &handles->claim, *fresh = move_waiters(handles);
    bool request_first = claim->extras->votes != NULL;

    if (fresh != NULL && request_first) {
        start(fresh);
    }
    lw__claim_step(claim, &input);
    if (fresh != NULL && !request_first) {
        start(fresh);
    }
}

/* The handle leaves a claim that stays held: no command is sent. */
static void leave_claim(struct lw_lock *lock)
{
    lw__handle_leave_claim(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (lock->state == LW_RELEASING) {
        lw__notify_lock(lock, LW__NOTICE_RELEASED, LW_OK);
    }
}

static void release(struct lw_lock *lock, bool detaches)
{
    struct lw__claim *claim = lock->claim;
    struct lw__handles *handles = lw__handles(claim);
    bool silent = lock->state != LW_RELEASING, stays = lw__claim_stays(claim);

    handles->holder = NULL;
    if (!stays && handles->waiting != NULL &&
        may_hand_over_locally(handles, handles->waiting)) {
        leave_claim(lock);
        hand_over_locally(handles);
        return;
    }
    lw__renewal_forget(claim);
    handles->releasing = silent ? NULL : lock;
    if (silent) {
        lw__handle_leave_claim(lock);
    }
    release_claim(handles, stays && detaches);
}

void lw__turns_release(struct lw_lock *lock)
{
    release(lock, false);
}

void lw__turns_detach(struct lw_lock *lock, int64_t keep_us)
{
    struct lw__claim *claim = lock->claim;
    int64_t until = keep_us > 0 ? lw__now_us() + keep_us : LW__NEVER;

    /* at_least_ms may end later than the lease: then it decides (lw__handle_keep_until)
     */
    if (until == LW__NEVER && lw__claim_stays(claim)) {
        until = claim->machine.deadline_us;
    }
    lw__handle_keep_until(claim, until);
    release(lock, true);
}

void lw__turns_cancel_wait(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;
    struct lw__handles *handles = lw__handles(claim);
    bool was_first = handles->waiting == lock;

    if (handles->next_renewal == LW__NEXT_RENEWING && was_first) {
        handles->next_renewal = LW__NEXT_LEFT;
    }
    lw__handle_stop_waiting(handles, lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (handles->waiting != NULL || handles->holder != NULL) {
        if (was_first && claim->mode->polls && handles->waiting != NULL &&
            lw__node_is_up(claim->name->node) && !lw__client_of(claim)->closing) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        }
        return;
    }
    handles->joinable = false;
    if (handles->next_renewal == LW__NEXT_NONE) {
        lw__claim_event(claim, LW__EV_CANCEL);
        return;
    }
    handles->next_renewal = LW__NEXT_NONE;
    lw__renewal_forget(claim);
    lw__claim_event(claim, LW__EV_RELEASE);
}

/* ---- events of a claim ---- */

static int64_t grant_margin_us(const struct lw__claim *claim)
{
    const struct lw_lock *first = lw__handles(claim)->waiting;

    return first != NULL ? lw__handle_margin_us(first) : 0;
}

static void adopted(struct lw__claim *claim, const char *owner)
{
    const struct lw_lock *first = lw__handles(claim)->waiting;

    if (first != NULL) {
        (void)snprintf(first->extras->owner, LW__OWNER_SIZE, "%s", owner);
    }
}

static void not_extended(struct lw__claim *claim, const char *why)
{
    struct lw_lock *holder = lw__handles(claim)->holder;

    if (holder != NULL) {
        lw__handle_set_error(holder, LW_ECONN, why);
    }
}

static void set_errors(struct lw__handles *handles, int status, const char *text)
{
    struct lw_lock *lock;

    DL_FOREACH2(handles->waiting, lock, turn_next) {
        lw__handle_set_error(lock, status, text);
    }
    if (handles->holder != NULL) {
        lw__handle_set_error(handles->holder, status, text);
    }
    if (handles->releasing != NULL) {
        lw__handle_set_error(handles->releasing, status, text);
    }
}

/* After a successful reply. */
static void clear_errors(struct lw__handles *handles)
{
    if (handles->error_reported) {
        lw__handles_forget_error(handles);
        set_errors(handles, LW_OK, "");
    }
}

static void on_error(struct lw__claim *claim, int status, const char *text)
{
    if (status == LW_OK) {
        clear_errors(lw__handles(claim));
    } else {
        set_errors(lw__handles(claim), status, text);
    }
}

/* Ends the waiters that try once behind a handle that was granted the lock: there are
 * some only if the mode polls (is_busy). */
static void end_tries_behind(struct lw__handles *handles)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE2(handles->waiting, lock, next, turn_next) {
        if (lock->once) {
            lw__handle_stop_waiting(handles, lock);
            end_busy(&handles->claim, lock);
        }
    }
}

/* The request may have been for another handle, which has left. With LW_NO_RENEW one
 * renewal gives the holder its own lease, unless that of the grant is as long. */
static bool needs_own_lease(const struct lw__claim *claim, const struct lw_lock *holder)
{
    return (holder->flags & LW_NO_RENEW) &&
           claim->machine.lease_us < (int64_t)holder->lease_ms * LW__MS;
}

static void granted(struct lw__claim *claim)
{
    struct lw__handles *handles = lw__handles(claim);
    const struct lw_lock *first = handles->waiting;

    clear_errors(handles);
    handles->passed_count = 0;
    claim->held.drawn_on = lw__node_connection(claim->name->node);
    if (first == NULL) {
        handles->joinable = false;
        lw__claim_event(claim, LW__EV_RELEASE);
    } else if (claim->machine.fence == 0 && !(first->flags & LW_NO_FENCE)) {
        /* the handle that requested it wanted no fencing token, and has left */
        lw__claim_event(claim, LW__EV_UNDELIVERED);
    } else {
        handles->lease_short = needs_own_lease(claim, first);
        begin_hold(handles);
        if (claim->mode->polls) {
            lw__redisson_warn_of_cluster(claim);
            end_tries_behind(handles);
        }
    }
}

/* Ends the waiters that try once. If there are no others, the claim leaves the queue. */
static void end_tries(struct lw__handles *handles, int status, int error, const char *why)
{
    struct lw__claim *claim = &handles->claim;
    struct lw_lock *lock, *next;

    if (handles->once_waiters == 0) {
        return;
    }
    DL_FOREACH_SAFE2(handles->waiting, lock, next, turn_next) {
        if (!lock->once) {
            continue;
        }
        lw__handle_stop_waiting(handles, lock);
        if (status == LW_EBUSY) {
            lw__handle_end_busy(lock, claim->asking.remaining_ms);
        } else {
            lw__handle_finish(lock, status, error, why);
        }
    }
    if (handles->waiting == NULL) {
        handles->joinable = false;
        lw__claim_event(claim, LW__EV_CANCEL);
    }
}

/* The reply to a request with a limit. A handle that has a place keeps its right to one,
 * whatever happens to the queue; others send the limit again. */
static void note_place(struct lw__handles *handles)
{
    struct lw__claim *claim = &handles->claim;
    struct lw_lock *lock = handles->waiting;

    if (claim->asking.place > 0) {
        lock->queue_limit = 0;
    } else if (claim->full && claim->machine.phase != LW__ACQUIRING) {
        lw__handle_stop_waiting(handles, lock);
        end_full(claim, lock);
        lw__claim_event(claim, LW__EV_CANCEL);
    }
}

static void busy(struct lw__claim *claim)
{
    struct lw__handles *handles = lw__handles(claim);
    const struct lw_lock *lock = handles->waiting;

    clear_errors(handles);
    if (lock != NULL && lock->queue_limit > 0) {
        note_place(handles);
        return;
    }
    while (lock != NULL && lock->once) {
        lock = lock->turn_next;
    }
    if (lock != NULL && claim->mode->polls) {
        lw__redisson_busy(claim);
    }
    end_tries(handles, LW_EBUSY, LW_OK, NULL);
}

static void outcome_unknown(struct lw__claim *claim, int status, const char *why)
{
    const struct lw__node *node = claim->name->node;
    struct lw__handles *handles = lw__handles(claim);

    if (*why) {
        set_errors(handles, status, why);
        end_tries(handles, status, status, why);
    } else {
        end_tries(handles, status, lw__node_error(node), lw__node_reason(node));
    }
}

/* Reports a release that was not executed if less than a quarter of request_timeout_ms is
 * left. The next attempt might be in flight when that time ends, and its outcome unknown.
 */
static void not_released(struct lw__claim *claim)
{
    struct lw_lock *lock = lw__handles(claim)->releasing;
    const struct lw_client *client = lw__client_of(claim);
    int64_t quarter_us = (int64_t)client->options.request_timeout_ms * LW__MS / 4;

    if (lock != NULL && lw__node_is_up(claim->name->node) &&
        lw__claim_release_status(claim) == LW_ECONN &&
        lw__timer_due_us(client->loop, &lock->timer) - lw__now_us() <= quarter_us) {
        lw__turns_abandon_release(lock);
    }
}

static void failed(struct lw__claim *claim, int status)
{
    struct lw__handles *handles = lw__handles(claim);

    if (status != LW_EREDIS && status != LW_EINVAL) { /* which have a text */
        clear_errors(handles);
    }
    handles->joinable = false;
    end_waiters(handles, status);
}

/* Completes the pending release of a handle, if there is one. */
static void end_release(struct lw__handles *handles, int status)
{
    struct lw_lock *lock = handles->releasing;

    if (lock == NULL) {
        return;
    }
    handles->releasing = NULL;
    lw__handle_leave_claim(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
}

static void released(struct lw__claim *claim, int status)
{
    struct lw__handles *handles = lw__handles(claim);

    if (status == LW_OK || status == LW_STILLHELD || status == LW_ENOTHELD) {
        clear_errors(handles);
    }
    end_release(handles, status);
}

static void lost(struct lw__claim *claim)
{
    struct lw__handles *handles = lw__handles(claim);
    struct lw_lock *lock = handles->holder;

    clear_errors(handles);
    lw__renewal_forget(claim);
    if (lock != NULL && lock->granted) {
        requeue_undelivered(handles, lock);
    } else if (lock != NULL) {
        handles->holder = NULL;
        lw__handle_leave_claim(lock);
        lw__handle_lose(lock, LW_ENOTHELD);
        lw__renew_call_end_all(lock, LW_ELOST);
        lw__handle_end_lease(lock);
    }
    requeue_waiters(handles);
}

/* Between two handles of this client none is asked. */
static void asked(struct lw__claim *claim)
{
    struct lw_lock *holder = lw__handles(claim)->holder;

    if (holder != NULL) {
        lw__handle_ask(holder);
    }
}

/* The renewal that precedes a local hand-over has succeeded (`sure`) or failed. After a
 * failure the token is released. So it is if the handle for which the renewal was sent
 * has left: the renewed lease may be too short for the next handle. */
static void renewed_for_next(struct lw__handles *handles, bool sure)
{
    bool may_hand_over = sure && handles->next_renewal != LW__NEXT_LEFT;

    handles->next_renewal = LW__NEXT_NONE;
    if (may_hand_over && may_hand_over_locally(handles, handles->waiting)) {
        handles->claim.holds->stats->passed++;
        begin_hold(handles);
        return;
    }
    lw__renewal_forget(&handles->claim);
    release_claim(handles, false);
}

static void renewed(struct lw__claim *claim, bool sure)
{
    struct lw__handles *handles = lw__handles(claim);

    if (!lw__machine_holds(claim->machine.phase)) {
        return;
    }
    if (sure) {
        clear_errors(handles);
        handles->lease_short = false;
    }
    if (handles->holder != NULL && sure) {
        lw__handle_arm_loss(handles->holder);
        lw__renewal_plan(claim);
    } else if (handles->next_renewal != LW__NEXT_NONE) {
        renewed_for_next(handles, sure);
    }
}

static void ended(struct lw__claim *claim)
{
    struct lw_client *client = lw__client_of(claim);
    struct lw__handles *handles = lw__handles(claim);
    struct lw_lock *holder = handles->holder;

    if (holder != NULL) {
        lw__handle_leave_claim(holder);
        if (holder->later == LW__LATER_WHEN_GONE && !lw__timer_is_set(&holder->timer)) {
            lw__notify_lock(holder, LW__NOTICE_LATER, LW_OK);
        }
        handles->holder = NULL;
    }
    end_release(handles, LW_EUNKNOWN);
    requeue_waiters(handles);
    lw__renewal_forget(claim);
    if (lw__claim_linger(claim)) {
        return;
    }
    lw__claim_free(claim);
    lw__ending_drained(client);
}

const struct lw__claim_events lw__turns_events = {
    .terms = lw__handles_terms,
    .grant_margin_us = grant_margin_us,
    .adopted = adopted,
    .not_extended = not_extended,
    .granted = granted,
    .busy = busy,
    .failed = failed,
    .on_error = on_error,
    .not_released = not_released,
    .outcome_unknown = outcome_unknown,
    .released = released,
    .release_replied = lw__redisson_released,
    .poll_ms = lw__redisson_poll_ms,
    .lost = lost,
    .renewed = renewed,
    .broken = lw__renewal_verify,
    .asked = asked,
    .ended = ended,
};

/* ---- a link ---- */

void lw__turns_link_down(struct lw_client *client, const struct lw__node *node)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE(client->locks, lock, next) {
        if (lock->state == LW_WAITING && lock->once && lock->claim != NULL &&
            !lock->granted && lock->name->node == node) {
            lw__turns_cancel_wait(lock);
            lw__handle_unserved(lock, LW_ECONN);
        }
    }
}
