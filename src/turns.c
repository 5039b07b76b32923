/* SPDX-License-Identifier: MIT */
/*
 * The handles that share a token: who waits, whose turn it is, what the token's events
 * mean for each of them. Mutex handles of one name queue here, in order of arrival, and
 * Redis sees one token; any other handle has a token for itself. Must not know commands
 * or replies.
 *
 * Happy path: lw__turns_join -> granted() -> the callback; lw__turns_let_go passes to the
 * next handle, without a command while the numbers and the lease allow it, or releases.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static bool shares(const struct lw_lock *lock)
{
    return lock->mode == LW_MUTEX && lock->client->options.local_turns > 1;
}

static int64_t margin_us(const struct lw_lock *lock)
{
    return (int64_t)lock->margin_ms * LW__MS;
}

/* What must be left when it is told of its grant: less than a millisecond shows as none.
 * But no more than max_hold_ms allows: half of it, where that is a millisecond itself. */
static int64_t least_us(const struct lw_lock *lock)
{
    int64_t least = margin_us(lock);

    if (!lock->granted || least >= LW__LEAST_US) {
        return least;
    }
    return lock->max_hold_us > 0 && lock->max_hold_us < 2 * LW__LEAST_US
               ? lock->max_hold_us / 2
               : LW__LEAST_US;
}

static void close_to_others(struct lw__token *token)
{
    if (token->name->shared == token) {
        token->name->shared = NULL;
    }
}

static void arm_give_up(struct lw_lock *lock)
{
    int64_t at = lock->give_up_us;

    if (lock->once) {
        at = lock->asked_us + (int64_t)lock->client->options.request_timeout_ms * LW__MS;
    }
    if (at == LW__NEVER) {
        lw__timer_cancel(lock->client->loop, &lock->timer);
    } else {
        lw__timer_set(lock->client->loop, &lock->timer, at);
    }
}

void lw__turns_finish(struct lw_lock *lock, int status, const char *why)
{
    lock->token = NULL;
    lock->granted = false;
    lock->fence = lock->token_n = 0; /* of a grant that came to nothing */
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (why != NULL) {
        lw__lock_set_errstr(lock, why);
    }
    lw__notify_lock(lock, LW__NOTICE_DONE, status);
}

void lw__turns_append(struct lw__token *token, struct lw_lock *lock)
{
    lock->token = token;
    DL_APPEND2(token->waiting, lock, turn_prev, turn_next);
    token->tries += lock->once;
    arm_give_up(lock);
}

void lw__turns_unlist(struct lw__token *token, struct lw_lock *lock)
{
    DL_DELETE2(token->waiting, lock, turn_prev, turn_next);
    token->tries -= lock->once;
}

static void take_out(struct lw__token *token, struct lw_lock *lock)
{
    lock->token = NULL;
    lw__turns_unlist(token, lock);
}

/* ---- joining ---- */

static int64_t busy_for_ms(const struct lw__token *token)
{
    int64_t left;

    if (token->machine.phase != LW__HELD) {
        return token->remaining_ms;
    }
    left = (token->machine.deadline_us - lw__now_us()) / LW__MS;
    return left > 0 ? left : 0;
}

static void join_shared(struct lw__token *token, struct lw_lock *lock)
{
    if (lock->once) {
        lock->retry_ms = busy_for_ms(token);
        lw__turns_finish(lock, LW_EBUSY, NULL);
        return;
    }
    lw__turns_append(token, lock);
    if (token->machine.phase == LW__ASKING && !token->asked_to_join) {
        lw__token_event(token, LW__EV_ASK_NOW);
    }
}

int lw__turns_join(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;
    struct lw__token *token = shares(lock) ? lock->name->shared : NULL;

    if (token != NULL) {
        join_shared(token, lock);
        return 0;
    }
    if (lw__redisson_join(lock)) {
        return 0;
    }
    if (lock->once && lw__node_is_backing_off(client->node)) {
        lw__turns_finish(lock, LW_ECONN, client->down_why);
        return 0;
    }
    token = lw__token_new(client, lock);
    if (token == NULL) {
        return LW_ENOMEM;
    }
    if (shares(lock)) {
        lock->name->shared = token;
    }
    lw__turns_append(token, lock);
    lw__token_event(token, LW__EV_START);
    return 0;
}

/* The token is dead, or about to be; those who wait for it queue anew. */
static void queue_anew(struct lw__token *token)
{
    struct lw_lock *list = token->waiting, *lock, *next;
    unsigned tries = token->tries;
    struct lw__token *fresh;

    close_to_others(token);
    token->waiting = NULL;
    token->tries = 0;
    if (list == NULL) {
        return;
    }
    fresh = lw__token_new(token->client, list);
    if (fresh == NULL) {
        DL_FOREACH_SAFE2(list, lock, next, turn_next) {
            lw__turns_finish(lock, LW_ENOMEM, NULL);
        }
        return;
    }
    fresh->waiting = list;
    fresh->tries = tries;
    fresh->error_told = token->error_told;
    DL_FOREACH2(list, lock, turn_next) {
        lock->token = fresh;
    }
    if (shares(list)) {
        list->name->shared = fresh;
    }
    lw__token_event(fresh, LW__EV_START);
}

/* ---- holding ---- */

int64_t lw__lock_deadline_us(const struct lw_lock *lock)
{
    int64_t deadline = lock->token != NULL ? lock->token->machine.deadline_us
                                           : lock->lost_at_us;

    return deadline < lock->hold_until_us ? deadline : lock->hold_until_us;
}

void lw__turns_arm_loss(struct lw_lock *lock)
{
    lw__timer_set(lock->client->loop, &lock->timer,
                  lw__lock_deadline_us(lock) - least_us(lock));
}

void lw__turns_begin(struct lw__token *token, struct lw_lock *lock)
{
    uint64_t first = token->machine.fence;

    lock->token = token;
    lock->granted = true;
    lock->fence = first ? first + token->served : 0;
    lock->token_n = token->n;
    lock->window_ms = token->window_ms;
    lock->hold_until_us = lock->max_hold_us > 0 ? lw__now_us() + lock->max_hold_us
                                                : LW__NEVER;
    token->served++;
    lw__turns_arm_loss(lock);
    lw__notify_lock(lock, LW__NOTICE_DONE, LW_OK);
}

static void begin_hold(struct lw__token *token, struct lw_lock *lock)
{
    lw__turns_unlist(token, lock);
    token->holder = lock;
    token->renewing_for_next = false;
    lw__turns_begin(token, lock);
    lw__renewal_plan(token);
}

static void step_down(struct lw_lock *lock)
{
    if (lock->token->others != NULL) {
        lw__redisson_leave(lock);
    } else {
        lock->token->holder = NULL;
    }
}

/* A grant that its handle was not told of yet came to nothing: back to the head. */
static void take_back(struct lw_lock *lock)
{
    struct lw__token *token = lock->token;

    step_down(lock);
    lock->granted = false;
    lw__notify_cancel(lock->client, &lock->notice);
    DL_PREPEND2(token->waiting, lock, turn_prev, turn_next);
    token->tries += lock->once;
    arm_give_up(lock);
}

static void lose(struct lw_lock *lock, int reason)
{
    lock->lost_at_us = lw__lock_deadline_us(lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_LOST, reason);
    lw__extension_end_all(lock, LW_ELOST);
}

/* This side stops believing: the key is given back at its deadline and not before, since
 * the holder may use its margin up to then. */
static void lapse(struct lw_lock *lock)
{
    struct lw__token *token = lock->token;
    bool capped = lock->hold_until_us < token->machine.deadline_us + LW__MS ||
                  lock->hold_until_us - token->machine.deadline_us <
                      lw__drift_us((int64_t)lock->lease_ms * LW__MS) + LW__MS;

    lose(lock, lock->hold_until_us != LW__NEVER && capped ? LW_ETIMEOUT : LW_ELOST);
    if (token->others != NULL) { /* they hold on, each up to its own margin */
        step_down(lock);
        lock->token = NULL;
        return;
    }
    lw__renewal_forget(token);
    token->machine.deadline_us = lock->lost_at_us;
    lw__token_event(token, LW__EV_LAPSE);
    queue_anew(token);
}

static void wait_is_over(struct lw_lock *lock)
{
    int status = lock->once ? LW_ECONN : LW_ETIMEOUT;
    struct lw_client *client = lock->client;
    const char *why = lock->once ? "no answer in time" : NULL;

    if (!lw__node_is_up(client->node)) {
        why = client->down_why;
    }
    lw__turns_withdraw(lock);
    lw__turns_finish(lock, status, why);
}

void lw__turns_timer(void *arg)
{
    struct lw_lock *lock = arg;
    struct lw__token *token = lock->token;

    if (lock->state == LW_RELEASING) {
        token->releasing = NULL;
        lock->token = NULL;
        lw__lock_set_errstr(lock, "no answer to the release in time");
        lw__notify_lock(lock, LW__NOTICE_RELEASED, LW_EUNKNOWN);
    } else if (lock->state == LW_WAITING && !lock->granted) {
        wait_is_over(lock);
    } else if (lw__lock_deadline_us(lock) - least_us(lock) > lw__now_us()) {
        lw__turns_arm_loss(lock);
    } else if (lock->granted) {
        take_back(lock);
        if (token->holder != NULL) {
            lw__renewal_now(token);
            return;
        }
        lw__renewal_forget(token);
        lw__token_event(token, LW__EV_LATE);
    } else {
        lapse(lock);
    }
}

/* ---- letting go ---- */

/* The server that drew them may have lost its state since, and others may have had larger
 * ones from it, unless its connection still stands. */
static bool has_number(const struct lw__token *token, const struct lw_lock *next)
{
    const struct lw__node *node = token->client->node;

    if (token->machine.fence == 0) {
        return (next->flags & LW_NO_FENCE) != 0;
    }
    return token->served < token->numbers && lw__node_is_up(node) &&
           token->drawn_on == lw__node_connection(node);
}

/* A number of its own for the next one, and time to use it: where little is left, or its
 * margin takes nearly all of it, it would be lost before it could be renewed. A quarter
 * of the claim window is what a hand-over must leave, too. */
static bool may_pass(const struct lw__token *token, const struct lw_lock *next)
{
    int64_t left = token->machine.deadline_us - lw__now_us();

    /* a renewal in flight was sent with another's lease */
    if ((next->flags & LW_NO_RENEW) && token->batch != NULL) {
        return false;
    }
    return token->mode == LW_MUTEX && token->machine.phase == LW__HELD &&
           has_number(token, next) &&
           token->served < token->client->options.local_turns &&
           left > (int64_t)next->window_ms * LW__MS / 4 &&
           left - left / 8 > margin_us(next);
}

/* Passes to the next one, who gets a full lease first if nobody will renew it for him. */
static void pass(struct lw__token *token)
{
    struct lw_lock *next = token->waiting;

    if (!(next->flags & LW_NO_RENEW)) {
        token->client->stats.passed++;
        begin_hold(token, next);
        return;
    }
    token->renewing_for_next = true;
    lw__renewal_now(token);
}

/* A turn lets go and asks at once. While no number can be had, or others wait for room on
 * the link, the release shall not wait for that, nor may the ask go before theirs. */
static bool may_turn(const struct lw__token *token, const struct lw_lock *next)
{
    struct lw__node *node = token->client->node;

    return token->mode == LW_MUTEX && token->machine.phase == LW__HELD &&
           lw__node_has_room(node) &&
           ((next->flags & LW_NO_FENCE) || lw__node_unseeded(node) == NULL);
}

/* Its part is done, and the token stays held: no command. */
static void part(struct lw_lock *lock, int status)
{
    bool silent = lock->state != LW_RELEASING;

    lock->token = NULL;
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (!silent) {
        lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
    }
}

void lw__turns_let_go(struct lw_lock *lock)
{
    struct lw__token *token = lock->token;
    bool silent = lock->state != LW_RELEASING;

    step_down(lock);
    if (token->holder != NULL) {
        part(lock, LW_STILLHELD);
        return;
    }
    if (token->waiting != NULL && may_pass(token, token->waiting)) {
        part(lock, LW_OK);
        pass(token);
        return;
    }
    lw__renewal_forget(token);
    token->releasing = silent ? NULL : lock;
    if (silent) {
        lock->token = NULL;
    }
    if (token->waiting != NULL && may_turn(token, token->waiting)) {
        token->served = 0;
        lw__token_turn(token);
    } else {
        queue_anew(token);
        lw__token_event(token, LW__EV_RELEASE);
    }
}

void lw__turns_withdraw(struct lw_lock *lock)
{
    struct lw__token *token = lock->token;

    take_out(token, lock);
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (token->waiting != NULL || token->holder != NULL) {
        return;
    }
    close_to_others(token);
    if (!token->renewing_for_next) {
        lw__token_event(token, LW__EV_ABANDON);
        return;
    }
    token->renewing_for_next = false;
    lw__renewal_forget(token);
    lw__token_event(token, LW__EV_RELEASE);
}

/* ---- what becomes of the token ---- */

static void said(struct lw__token *token, const char *text)
{
    struct lw_lock *lock;

    DL_FOREACH2(token->waiting, lock, turn_next) {
        lw__lock_set_errstr(lock, text);
    }
    DL_FOREACH2(token->others, lock, turn_next) {
        lw__lock_set_errstr(lock, text);
    }
    if (token->holder != NULL) {
        lw__lock_set_errstr(token->holder, text);
    }
    if (token->releasing != NULL) {
        lw__lock_set_errstr(token->releasing, text);
    }
}

/* An ordinary answer, or a fresh connection: the error before it is past. */
static void forget_error(struct lw__token *token)
{
    if (!token->error_told) {
        return;
    }
    token->error_told = false;
    said(token, "");
}

static void granted(struct lw__token *token)
{
    forget_error(token);
    token->served = 0;
    token->drawn_on = lw__node_connection(token->client->node);
    if (token->waiting == NULL) {
        close_to_others(token);
        lw__token_event(token, LW__EV_RELEASE);
    } else if (token->machine.fence == 0 && !(token->waiting->flags & LW_NO_FENCE)) {
        lw__token_event(token, LW__EV_LATE); /* asked for by one who wanted no number */
    } else {
        begin_hold(token, token->waiting);
        if (token->mode == LW_REDISSON) {
            lw__redisson_admit(token);
        }
    }
}

/* Ends all those who try once, and has the token leave if nobody else waits. */
static void end_tries(struct lw__token *token, int status, const char *why)
{
    struct lw_lock *lock, *next;

    if (token->tries == 0) {
        return;
    }
    DL_FOREACH_SAFE2(token->waiting, lock, next, turn_next) {
        if (!lock->once) {
            continue;
        }
        take_out(token, lock);
        lock->retry_ms = token->remaining_ms;
        lw__turns_finish(lock, status, why);
    }
    if (token->waiting == NULL) {
        close_to_others(token);
        lw__token_event(token, LW__EV_ABANDON);
    }
}

static void busy(struct lw__token *token)
{
    const struct lw_lock *lock = token->waiting;

    forget_error(token);
    while (lock != NULL && lock->once) {
        lock = lock->turn_next;
    }
    if (lock != NULL && token->mode == LW_REDISSON) {
        lw__redisson_await(token);
    }
    end_tries(token, LW_EBUSY, NULL);
}

static void open_outcome(struct lw__token *token, int status, const char *why)
{
    if (*why) {
        said(token, why);
    }
    end_tries(token, status, *why ? why : token->client->down_why);
}

static void failed(struct lw__token *token, int status)
{
    struct lw_lock *lock, *next;

    if (status != LW_EREDIS) {
        forget_error(token);
    }
    close_to_others(token);
    DL_FOREACH_SAFE2(token->waiting, lock, next, turn_next) {
        take_out(token, lock);
        lw__turns_finish(lock, status, NULL);
    }
}

static void released(struct lw__token *token, int status)
{
    struct lw_lock *lock = token->releasing;

    if (status != LW_EUNKNOWN) {
        forget_error(token);
    }
    token->releasing = NULL;
    if (lock == NULL) {
        return;
    }
    lock->token = NULL;
    lw__timer_cancel(lock->client->loop, &lock->timer);
    lw__notify_lock(lock, LW__NOTICE_RELEASED, status);
}

/* The server says that the lock is not ours. */
static void lost(struct lw__token *token)
{
    struct lw_lock *lock;

    forget_error(token);
    lw__renewal_forget(token);
    while ((lock = token->holder) != NULL) {
        if (lock->granted) {
            take_back(lock);
            continue;
        }
        step_down(lock);
        lock->token = NULL;
        lose(lock, LW_ENOTHELD);
        lock->lost_at_us = 0;
    }
    queue_anew(token);
}

static void renewed(struct lw__token *token, bool sure)
{
    if (token->machine.phase != LW__HELD) {
        return;
    }
    if (sure) {
        forget_error(token);
    }
    if (token->holder != NULL && sure) {
        lw__turns_arm_loss(token->holder);
        lw__renewal_plan(token);
        if (token->mode == LW_REDISSON) {
            lw__redisson_admit(token);
        }
    } else if (token->renewing_for_next) {
        token->renewing_for_next = false;
        if (sure && may_pass(token, token->waiting)) {
            token->client->stats.passed++;
            begin_hold(token, token->waiting);
            return;
        }
        token->served = 0;
        lw__renewal_forget(token);
        lw__token_turn(token);
    }
}

static void ended(struct lw__token *token)
{
    struct lw_client *client = token->client;

    if (token->holder != NULL) {
        token->holder->token = NULL;
    }
    released(token, LW_EUNKNOWN); /* if anybody still wants to know */
    lw__token_free(token);
    lw__client_drained(client);
}

const struct lw__token_events lw__turns_events = {
    granted, busy, failed, said, open_outcome, released, lost, renewed, ended,
};

/* ---- the link ---- */

void lw__turns_ask_all(struct lw_client *client, bool verify)
{
    struct lw__name *name, *next_name;

    HASH_ITER(hh, client->names, name, next_name) {
        struct lw__token *token, *next;

        /* the end of a try has those behind it ask, in their order */
        if (name->tokens != NULL && name->tokens->trying) {
            continue;
        }
        name->references++; /* an answer may come at once and end its last token */
        DL_FOREACH_SAFE(name->tokens, token, next) {
            if (verify) {
                forget_error(token);
            }
            if (lw__line_is_behind(token)) {
                token->remaining_ms = lw__line_busy_ms(name);
                end_tries(token, LW_EBUSY, NULL);
            } else if (token->machine.phase != LW__HELD) {
                lw__token_event(token, LW__EV_ASK_NOW);
            } else if (verify) {
                lw__renewal_now(token);
            }
        }
        lw__name_put(client, name);
    }
}

void lw__turns_link_down(struct lw_client *client)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE(client->locks, lock, next) {
        if (lock->state == LW_WAITING && lock->once && lock->token != NULL &&
            !lock->granted) {
            lw__turns_withdraw(lock);
            lw__turns_finish(lock, LW_ECONN, client->down_why);
        }
    }
}
