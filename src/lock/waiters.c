/* SPDX-License-Identifier: MIT */
/* Who waits for a claim. Must not know why it is not to be had. Happy path: append, and
 * remove when its turn comes. A handle that gives up meanwhile is told by its timer
 * (turns.c). */
#include "lock/waiters.h"

#include "lock/handle.h"
#include "lock/notify.h"
#include "lock/structs.h"
#include "loop/now.h"
#include "loop/timer.h"

#include <utlist.h>

static void await(struct lw__claim *claim, struct lw_lock *lock)
{
    int64_t at = lock->give_up_us;

    lock->claim = claim;
    claim->tries += lock->once;
    if (lock->once) {
        at = lock->asked_us + (int64_t)lock->client->options.request_timeout_ms * LW__MS;
    }
    if (at == LW__NEVER) {
        lw__timer_cancel(lock->client->loop, &lock->timer);
    } else {
        lw__timer_set(lock->client->loop, &lock->timer, at);
    }
}

void lw__waiters_append(struct lw__claim *claim, struct lw_lock *lock)
{
    DL_APPEND2(claim->waiting, lock, turn_prev, turn_next);
    await(claim, lock);
}

void lw__waiters_prepend(struct lw__claim *claim, struct lw_lock *lock)
{
    DL_PREPEND2(claim->waiting, lock, turn_prev, turn_next);
    await(claim, lock);
}

void lw__waiters_remove(struct lw__claim *claim, struct lw_lock *lock)
{
    lock->claim = NULL;
    DL_DELETE2(claim->waiting, lock, turn_prev, turn_next);
    claim->tries -= lock->once;
}

void lw__waiters_move(struct lw__claim *from, struct lw__claim *to)
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

void lw__waiters_finish(struct lw_lock *lock, int status, const char *why)
{
    lock->claim = NULL;
    lock->granted = false;
    lock->fence = lock->token_n = 0; /* of a grant that came to nothing */
    lw__timer_cancel(lock->client->loop, &lock->timer);
    if (why != NULL) {
        lw__handle_set_errstr(lock, why);
    }
    lw__notify_lock(lock, LW__NOTICE_DONE, status);
}
