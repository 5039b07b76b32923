/* SPDX-License-Identifier: MIT */
/* One handle: it waits for a claim, holds it, loses it or ends; its error text; its
 * memory's end. Must not know whose turn it is, nor what the machine believes. Happy
 * path: wait, hold, which numbers the hold, arms its loss and has `done` called; whoever
 * ends it disarms that. One that gives up, or whose deadline comes first, is told by its
 * timer (turns.c), which an early warning shares (risk.c). Where there is no memory for
 * an error text there is none. */
#include "lock/handle.h"

#include "base/escape.h"
#include "lock/name.h"
#include "lock/notify.h"
#include "lock/risk.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

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
        lock->claim->error_told = true;
    }
}

void lw__handle_note_link(struct lw_lock *lock)
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
    claim->tries += lock->once;
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

void lw__handle_wait_no_more(struct lw__claim *claim, struct lw_lock *lock)
{
    lock->claim = NULL;
    DL_DELETE2(claim->waiting, lock, turn_prev, turn_next);
    claim->tries -= lock->once;
}

void lw__handle_move_waiters(struct lw__claim *from, struct lw__claim *to)
{
    struct lw_lock *lock;

    to->waiting = from->waiting;
    to->tries = from->tries;
    from->waiting = NULL;
    from->tries = 0;
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
    int64_t at = lw__terms_deadline_us(lock) - lw__terms_least_us(lock);

    if (lock->at_risk != NULL) {
        int64_t risk = lw__risk_look(lock);

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
    lock->fence = first ? first + claim->served : 0;
    lock->token_n = claim->n;
    lock->window_ms = claim->window_ms;
    lock->hold_until_us = LW__NEVER;
    if (lock->asking.max_hold_us > 0) {
        lock->hold_until_us = lw__now_us() + lock->asking.max_hold_us;
    }
    claim->served++;
    lw__handle_arm_loss(lock);
    lw__notify_lock(lock, LW__NOTICE_DONE, LW_OK);
}

void lw__handle_told(struct lw_lock *lock)
{
    lock->told = true;
    lock->held.renew_calls = NULL;
    lock->held.lost_at_us = 0;
    if (lock->at_risk != NULL) {
        lock->held.risk_deadline_us = 0;
        lw__handle_arm_loss(lock);
    }
}

void lw__handle_lose(struct lw_lock *lock, int reason)
{
    lock->held.lost_at_us = lw__terms_deadline_us(lock);
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
        lw__name_put(client, lock->name);
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
