/* SPDX-License-Identifier: MIT */
/* Handles of one owner that hold one claim together: they are counted here, and Redis
 * sees one hold. Must not know which mode has it so, nor decide when a grant may be
 * believed. Happy path: join_co_holders finds the claim by which its owner holds, and
 * lets the handle in; leave_hold lets it out. Who comes too near to the hold's
 * end waits for the next renewal, which admit_co_holders follows. */
/* The handles that share a claim: who joins, whose turn it is, who lets go. Mutex handles
 * of one name queue here, in order of arrival, and Redis sees one token; any other handle
 * has a claim for itself, or shares it as its mode says (together.c). What becomes of a
 * claim is turns_events.c's. Must not know commands or replies.
 *
 * Happy path: lw__turns_join -> granted() -> the callback; lw__turns_release passes to
 * the next handle, without a command while the numbers and the lease allow it, or
 * releases. When a hold's time comes to an end first, it is lost, and those who wait
 * queue anew; without memory for that they end. */
/* What becomes of a claim, and of the link, for each of the handles that wait or hold by
 * it. Must not know commands or replies. Happy path: granted() -> the first who waits
 * holds; released(), ended(). An outcome that is open ends those who try once, an error
 * that is for good all who wait; a claim that the server knows nothing of is lost, and
 * those who wait for it queue anew. */
#include "lock/lock_private.h"

#include "loop/loop.h"
#include "redis/node.h"
#include "redis/route.h"

#include <string.h>
#include <utlist.h>

/* ---- handles that share a hold ---- */

static bool needs_it_longer(const struct lw_lock *a, const struct lw_lock *b)
{
    bool renews = !(a->flags & LW_NO_RENEW);

    if (renews != !(b->flags & LW_NO_RENEW)) {
        return renews;
    }
    return a->hold_until_us > b->hold_until_us;
}

/* Renewals go by `holder`: of all who hold, the one that needs the lock longest. */
static void choose_holder(struct lw__claim *claim)
{
    struct lw_lock *lock, *first = claim->holder;

    DL_FOREACH2(claim->held.co_holders, lock, turn_next) {
        if (first == NULL || needs_it_longer(lock, first)) {
            first = lock;
        }
    }
    if (first != claim->holder) {
        DL_DELETE2(claim->held.co_holders, first, turn_prev, turn_next);
        if (claim->holder != NULL) {
            DL_APPEND2(claim->held.co_holders, claim->holder, turn_prev, turn_next);
        }
        claim->holder = first;
    }
    lw__renewal_plan(claim);
}

static bool may_enter(const struct lw__claim *claim, const struct lw_lock *lock)
{
    return claim->machine.phase == LW__HELD &&
           claim->machine.deadline_us - lw__handle_margin_us(lock) > lw__now_us();
}

/* Its lease begins now. Who does not renew has it asked for once, unless the grant that
 * lets it in was asked for with a lease as long. */
static void enter(struct lw__claim *claim, struct lw_lock *lock, bool by_grant)
{
    if ((lock->flags & LW_NO_RENEW) &&
        (!by_grant || claim->machine.lease_us < (int64_t)lock->lease_ms * LW__MS)) {
        claim->held.entered_us = lw__now_us();
    }
    DL_APPEND2(claim->held.co_holders, lock, turn_prev, turn_next);
    lw__handle_hold(claim, lock);
    choose_holder(claim);
}

static void admit_co_holders(struct lw__claim *claim)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        if (!may_enter(claim, lock)) {
            continue;
        }
        lw__handle_stop_waiting(claim, lock);
        enter(claim, lock, true);
    }
}

/* Not one that is lost, or let go. */
static bool is_alive(const struct lw__claim *claim)
{
    enum lw__phase phase = claim->machine.phase;

    return (phase == LW__ACQUIRING || phase == LW__QUEUED || phase == LW__HELD) &&
           (claim->holder != NULL || claim->waiting != NULL);
}

/* The claim by which its owner holds the name, or waits for it. */
static struct lw__claim *find(const struct lw_lock *lock)
{
    struct lw__claim *claim;

    if (lock->owner == NULL) {
        return NULL;
    }
    DL_FOREACH(lock->name->claims, claim) {
        if (claim->mode == lock->mode && claim->owner != NULL &&
            strcmp(claim->owner, lock->owner) == 0 && is_alive(claim)) {
            return claim;
        }
    }
    return NULL;
}

static bool join_co_holders(struct lw_lock *lock)
{
    struct lw__claim *claim = find(lock);
    struct lw__node *node = lock->name->node;

    if (claim == NULL) {
        return false;
    }
    if (may_enter(claim, lock)) {
        enter(claim, lock, false);
        return true;
    }
    if (lock->once && (lw__node_is_backing_off(node) ||
                       (claim->machine.phase == LW__QUEUED && lw__node_is_up(node)))) {
        return false;
    }
    lw__handle_wait(claim, lock);
    if (claim->machine.phase == LW__HELD) {
        lw__renewal_now(claim); /* so near to its end, the renewal's answer lets it in */
    }
    return true;
}

static void leave_hold(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    if (claim->held.co_holders == NULL) {
        claim->holder = NULL;
        return;
    }
    if (claim->holder == lock) {
        claim->holder = NULL;
    } else {
        DL_DELETE2(claim->held.co_holders, lock, turn_prev, turn_next);
    }
    choose_holder(claim);
}

static bool shares(const struct lw_lock *lock)
{
    return lock->mode->shares_claims && lock->client->options.local_turns > 1;
}

static void close_to_joins(struct lw__claim *claim)
{
    claim->joinable = false;
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
        if (claim->joinable) {
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
    if (claim->machine.phase == LW__ACQUIRING && !claim->asked_to_join) {
        lw__claim_event(claim, LW__EV_RETRY_NOW);
    }
}

/* Somebody of this client is in line before it. */
static bool is_behind(const struct lw_lock *lock)
{
    return lock->mode->local_queue != NULL && lw__node_is_up(lock->name->node) &&
           lw__redisson_first(lock->name) != NULL;
}

int lw__turns_join(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;
    struct lw__claim *claim = shares(lock) ? find_open(lock->name) : NULL;

    if (claim != NULL) {
        join_shared(claim, lock);
        return 0;
    }
    if (lock->mode->reentrant && join_co_holders(lock)) {
        return 0;
    }
    if (lock->once && is_behind(lock)) {
        lw__handle_end(lock, LW_EBUSY);
        lock->retry_ms = lw__redisson_busy_ms(lock->name);
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
    claim->joinable = shares(lock);
    lw__handle_wait(claim, lock);
    lw__claim_event(claim, LW__EV_START);
    return 0;
}

static void requeue_waiters(struct lw__claim *claim)
{
    struct lw_lock *lock, *next;
    struct lw__claim *fresh;

    close_to_joins(claim);
    if (claim->waiting == NULL) {
        return;
    }
    fresh = lw__claim_new(claim->client, claim->waiting);
    if (fresh == NULL) {
        DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
            lw__handle_stop_waiting(claim, lock);
            lw__handle_end(lock, LW_ENOMEM);
        }
        return;
    }
    lw__handle_move_waiters(claim, fresh);
    fresh->error_reported = claim->error_reported;
    fresh->joinable = shares(fresh->waiting);
    lw__claim_event(fresh, LW__EV_START);
}

/* ---- holding ---- */

static void begin_hold(struct lw__claim *claim, struct lw_lock *lock)
{
    lw__handle_stop_waiting(claim, lock);
    claim->holder = lock;
    claim->renewing_for_next = claim->next_left = false;
    lw__handle_hold(claim, lock);
    lw__renewal_plan(claim);
}

static void requeue_undelivered(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    leave_hold(lock);
    lock->granted = false;
    lw__notify_cancel(lock->client, &lock->notice);
    lw__handle_wait_first(claim, lock);
}

/* This side stops believing: the key is given back at its deadline and not before, since
 * the holder may use its margin up to then. */
static void lapse(struct lw_lock *lock)
{
    struct lw__input input = {.event = LW__EV_LOST_LOCALLY};
    struct lw__claim *claim = lock->claim;
    bool capped = lock->hold_until_us < claim->machine.deadline_us + LW__MS ||
                  lock->hold_until_us - claim->machine.deadline_us <
                      lw__machine_drift_us((int64_t)lock->lease_ms * LW__MS) + LW__MS;

    if (!capped) {
        lw__handle_set_link_error(lock);
    }
    lw__handle_lose(lock,
                    lock->hold_until_us != LW__NEVER && capped ? LW_ETIMEOUT : LW_ELOST);
    lw__renewal_end_calls(lock, LW_ELOST);
    if (lw__handles_co_holders(claim) !=
        NULL) { /* they hold on, each up to its own margin */
        leave_hold(lock);
        lock->claim = NULL;
        return;
    }
    lw__renewal_forget(claim);
    input.lapse.at_us = lock->held.lost_at_us;
    lw__claim_step(claim, &input);
    requeue_waiters(claim);
}

/* Returns true if a request is on its way, and no request of the claim was ever answered:
 * it is not known that the lock is busy. */
static bool is_unanswered(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ACQUIRING && !claim->set_answered &&
           claim->asking.remaining_ms == 0 && claim->asking.place == 0;
}

/* An error that the server has sent says more than its silence since. */
static void wait_is_over(struct lw_lock *lock)
{
    int status = lock->once ? LW_ECONN : LW_ETIMEOUT;
    bool silent = lock->errstr == NULL && (lock->once || is_unanswered(lock->claim));

    lw__turns_cancel_wait(lock);
    if (!lw__node_is_up(lock->name->node)) {
        lw__handle_unserved(lock, status);
    } else {
        lw__handle_finish(lock, status, LW_ECONN, silent ? "no answer in time" : NULL);
    }
}

void lw__turns_abandon_release(struct lw_lock *lock)
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
        lw__turns_abandon_release(lock);
        if (lock->errstr == NULL) {
            lw__handle_set_error(lock, LW_ECONN, "no answer to the release in time");
        }
    } else if (lock->state == LW_WAITING && !lock->granted) {
        wait_is_over(lock);
    } else if (lw__handle_deadline_us(lock) - lw__handle_least_us(lock) > lw__now_us()) {
        lw__handle_arm_loss(lock);
    } else if (lock->granted) {
        requeue_undelivered(lock);
        if (claim->holder != NULL) {
            lw__renewal_now(claim);
            return;
        }
        lw__renewal_forget(claim);
        lw__claim_event(claim, LW__EV_UNDELIVERED);
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
    return claim->passed_count < claim->fences_drawn && lw__node_is_up(node) &&
           claim->held.drawn_on == lw__node_connection(node);
}

/* A number of its own for the next one, and time to use it: where little is left, or its
 * margin takes nearly all of it, it would be lost before it could be renewed. A quarter
 * of the claim window is what a hand-over must leave, too. */
static bool may_hand_over_locally(const struct lw__claim *claim,
                                  const struct lw_lock *next)
{
    int64_t left = claim->machine.deadline_us - lw__now_us();

    if (claim->machine.phase != LW__HELD) {
        return false;
    }
    /* a renewal in flight was sent with another's lease */
    if ((next->flags & LW_NO_RENEW) && claim->held.batch != NULL) {
        return false;
    }
    return claim->mode->shares_claims && has_number(claim, next) &&
           claim->passed_count < claim->client->options.local_turns &&
           left > (int64_t)next->window_ms * LW__MS / 4 &&
           left - left / 8 > lw__handle_margin_us(next);
}

/* Passes to the next one, who gets a full lease first if nobody will renew it for him. */
static void pass(struct lw__claim *claim)
{
    struct lw_lock *next = claim->waiting;

    if (!(next->flags & LW_NO_RENEW)) {
        claim->client->stats.passed++;
        begin_hold(claim, next);
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

    return claim->mode->shares_claims && claim->machine.phase == LW__HELD &&
           !lw__route_is_cluster(claim->client->route) && lw__node_has_room(node) &&
           ((next->flags & LW_NO_FENCE) || lw__node_fence_fault(node) == NULL);
}

static void reacquire_or_release(struct lw__claim *claim)
{
    if (claim->waiting != NULL && may_turn(claim, claim->waiting)) {
        claim->passed_count = 0;
        lw__claim_reacquire(claim);
    } else {
        requeue_waiters(claim);
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

void lw__turns_release(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;
    bool silent = lock->state != LW_RELEASING;

    leave_hold(lock);
    if (claim->holder != NULL) {
        part(lock, LW_STILLHELD);
        return;
    }
    if (claim->waiting != NULL && may_hand_over_locally(claim, claim->waiting)) {
        part(lock, LW_OK);
        pass(claim);
        return;
    }
    lw__renewal_forget(claim);
    claim->releasing = silent ? NULL : lock;
    if (silent) {
        lock->claim = NULL;
    }
    reacquire_or_release(claim);
}

void lw__turns_cancel_wait(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    claim->next_left |= claim->renewing_for_next && claim->waiting == lock;
    lw__handle_stop_waiting(claim, lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (claim->waiting != NULL || claim->holder != NULL) {
        return;
    }
    close_to_joins(claim);
    if (!claim->renewing_for_next) {
        lw__claim_event(claim, LW__EV_CANCEL);
        return;
    }
    claim->renewing_for_next = false;
    lw__renewal_forget(claim);
    lw__claim_event(claim, LW__EV_RELEASE);
}

/* ---- events of the claim ---- */

static void on_error(struct lw__claim *claim, int status, const char *text)
{
    struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        lw__handle_set_error(lock, status, text);
    }
    DL_FOREACH2(lw__handles_co_holders(claim), lock, turn_next) {
        lw__handle_set_error(lock, status, text);
    }
    if (claim->holder != NULL) {
        lw__handle_set_error(claim->holder, status, text);
    }
    if (claim->releasing != NULL) {
        lw__handle_set_error(claim->releasing, status, text);
    }
}

/* An ordinary answer, or a fresh connection: the error before it is past. */
static void forget_error(struct lw__claim *claim)
{
    if (!claim->error_reported) {
        return;
    }
    claim->error_reported = false;
    on_error(claim, LW_OK, "");
}

static void let_others_in(struct lw__claim *claim)
{
    if (claim->mode->local_queue != NULL) {
        claim->mode->local_queue->held(claim);
    }
    if (claim->mode->reentrant) {
        admit_co_holders(claim);
    }
}

static void granted(struct lw__claim *claim)
{
    forget_error(claim);
    claim->passed_count = 0;
    claim->held.drawn_on = lw__node_connection(claim->name->node);
    if (claim->waiting == NULL) {
        close_to_joins(claim);
        lw__claim_event(claim, LW__EV_RELEASE);
    } else if (claim->machine.fence == 0 && !(claim->waiting->flags & LW_NO_FENCE)) {
        lw__claim_event(claim,
                        LW__EV_UNDELIVERED); /* asked for by one who wanted no number */
    } else {
        begin_hold(claim, claim->waiting);
        let_others_in(claim);
    }
}

/* Ends all those who try once, and has the claim leave if nobody else waits. */
static void end_tries(struct lw__claim *claim, int status, int error, const char *why)
{
    struct lw_lock *lock, *next;

    if (claim->once_waiters == 0) {
        return;
    }
    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        if (!lock->once) {
            continue;
        }
        lw__handle_stop_waiting(claim, lock);
        lw__handle_finish(lock, status, error, why);
        if (status == LW_EBUSY) {
            lock->retry_ms = claim->asking.remaining_ms;
        }
    }
    if (claim->waiting == NULL) {
        close_to_joins(claim);
        lw__claim_event(claim, LW__EV_CANCEL);
    }
}

static void refused(struct lw__claim *claim)
{
    const struct lw_lock *lock = claim->waiting;

    forget_error(claim);
    while (lock != NULL && lock->once) {
        lock = lock->turn_next;
    }
    if (lock != NULL && claim->mode->local_queue != NULL) {
        claim->mode->local_queue->refused(claim);
    }
    end_tries(claim, LW_EBUSY, LW_OK, NULL);
}

static void outcome_unknown(struct lw__claim *claim, int status, const char *why)
{
    const struct lw__node *node = claim->name->node;

    if (*why) {
        on_error(claim, status, why);
        end_tries(claim, status, status, why);
    } else {
        end_tries(claim, status, lw__node_error(node), lw__node_reason(node));
    }
}

static void failed(struct lw__claim *claim, int status)
{
    struct lw_lock *lock, *next;

    if (status != LW_EREDIS) {
        forget_error(claim);
    }
    close_to_joins(claim);
    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        lw__handle_stop_waiting(claim, lock);
        lw__handle_end(lock, status);
    }
}

static void released(struct lw__claim *claim, int status)
{
    struct lw_lock *lock = claim->releasing;

    if (status != LW_EUNKNOWN && status != LW_EREDIS) {
        forget_error(claim);
    }
    claim->releasing = NULL;
    if (lock == NULL) {
        return;
    }
    lock->claim = NULL;
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
}

/* The server says that the lock is not ours. */
static void lost(struct lw__claim *claim)
{
    struct lw_lock *lock;

    forget_error(claim);
    lw__renewal_forget(claim);
    while ((lock = claim->holder) != NULL) {
        if (lock->granted) {
            requeue_undelivered(lock);
            continue;
        }
        leave_hold(lock);
        lock->claim = NULL;
        lw__handle_lose(lock, LW_ENOTHELD);
        lw__renewal_end_calls(lock, LW_ELOST);
        lock->held.lost_at_us = 0;
    }
    requeue_waiters(claim);
}

/* The timers of others who hold find out by themselves; who is to be warned, or was, is
 * told of it. */
static void arm_losses(struct lw__claim *claim)
{
    struct lw_lock *lock;

    lw__handle_arm_loss(claim->holder);
    DL_FOREACH2(lw__handles_co_holders(claim), lock, turn_next) {
        if (lock->at_risk != NULL) {
            lw__handle_arm_loss(lock);
        }
    }
}

static void renewed(struct lw__claim *claim, bool sure)
{
    if (claim->machine.phase != LW__HELD) {
        return;
    }
    if (sure) {
        forget_error(claim);
    }
    if (claim->holder != NULL && sure) {
        arm_losses(claim);
        lw__renewal_plan(claim);
        let_others_in(claim);
    } else if (claim->renewing_for_next) {
        /* The lease of one that left meanwhile may be shorter than that of the next. */
        bool may_pass = sure && !claim->next_left;

        claim->renewing_for_next = claim->next_left = false;
        if (may_pass && may_hand_over_locally(claim, claim->waiting)) {
            claim->client->stats.passed++;
            begin_hold(claim, claim->waiting);
            return;
        }
        lw__renewal_forget(claim);
        reacquire_or_release(claim);
    }
}

static void ended(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;
    struct lw_lock *holder = claim->holder;

    if (holder != NULL) {
        holder->claim = NULL;
        if (holder->later == LW__LATER_WHEN_GONE && !lw__timer_is_set(&holder->timer)) {
            lw__notify_lock(holder, LW__NOTICE_LATER, LW_OK);
        }
    }
    released(claim, LW_EUNKNOWN); /* if anybody still wants to know */
    lw__renewal_forget(claim);
    lw__claim_free(claim);
    lw__ending_drained(client);
}

const struct lw__claim_events lw__turns_events = {
    granted,  refused, failed,  on_error,           outcome_unknown,
    released, lost,    renewed, lw__renewal_verify, ended,
};

/* ---- the link ---- */

/* The end of a try has those behind it ask, in their order. */
static void ask_all_of(struct lw__name *name, bool verify)
{
    struct lw__claim *claim, *next;

    if (name->claims != NULL && name->claims->trying) {
        return;
    }
    DL_FOREACH_SAFE(name->claims, claim, next) {
        if (verify) {
            forget_error(claim);
        }
        if (lw__redisson_is_behind(claim)) {
            claim->asking.remaining_ms = lw__redisson_busy_ms(name);
            end_tries(claim, LW_EBUSY, LW_OK, NULL);
        } else if (claim->machine.phase != LW__HELD) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        } else if (verify) {
            lw__renewal_now(claim);
        }
    }
}

#define NEWLY_BOUND -1 /* in place of a slot: any that is, or */
#define ANY -2         /* whatever it is */

static bool is_in(const struct lw__name *name, int slot)
{
    return slot == ANY ||
           (slot == NEWLY_BOUND ? lw__node_is_newly_bound(name->node, name->slot)
                                : name->slot == (unsigned)slot);
}

static void ask_those(struct lw_client *client, const struct lw__node *node, int slot)
{
    struct lw__name *name = lw__name_after(client, NULL), *next;

    for (; name != NULL; name = next) {
        lw__name_ref(name); /* an answer may come at once and end its last claim */
        if (name->node == node && is_in(name, slot)) {
            ask_all_of(name, slot == ANY);
        }
        next = lw__name_after(client, name);
        lw__name_unref(client, name);
    }
}

void lw__turns_retry_all(struct lw_client *client, const struct lw__node *node,
                         bool verify)
{
    ask_those(client, node, verify ? ANY : NEWLY_BOUND);
}

void lw__turns_retry_slot(struct lw_client *client, const struct lw__node *node,
                          unsigned slot)
{
    ask_those(client, node, (int)slot);
}

static void lead(struct lw_client *client, struct lw__name *name)
{
    struct lw__node *node = lw__route_node(client->route, name->slot);

    if (name->node == node) {
        return;
    }
    name->node = node;
    name->slot_migrating = false;
    if (lw__node_is_up(node)) { /* else coming up has them ask */
        ask_all_of(name, true);
    }
}

void lw__turns_remap_all(struct lw_client *client)
{
    struct lw__name *name = lw__name_after(client, NULL), *next;

    for (; name != NULL; name = next) {
        lw__name_ref(name);
        lead(client, name);
        next = lw__name_after(client, name);
        lw__name_unref(client, name);
    }
}

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
