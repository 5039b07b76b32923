/* SPDX-License-Identifier: MIT */
/* Handles of one owner that hold one claim together: they are counted here, and Redis
 * sees one hold. Must not know which mode has it so, nor decide when a grant may be
 * believed. Happy path: lw__together_join finds the claim by which its owner holds, and
 * lets the handle in; lw__together_leave lets it out. Who comes too near to the hold's
 * end waits for the next renewal, which lw__together_admit follows. */
#include "lock/together.h"

#include "lock/handle.h"
#include "lock/mode.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <string.h>
#include <utlist.h>

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

    DL_FOREACH2(claim->held.others, lock, turn_next) {
        if (first == NULL || needs_it_longer(lock, first)) {
            first = lock;
        }
    }
    if (first != claim->holder) {
        DL_DELETE2(claim->held.others, first, turn_prev, turn_next);
        if (claim->holder != NULL) {
            DL_APPEND2(claim->held.others, claim->holder, turn_prev, turn_next);
        }
        claim->holder = first;
    }
    lw__renewal_plan(claim);
}

static bool may_enter(const struct lw__claim *claim, const struct lw_lock *lock)
{
    return claim->machine.phase == LW__HELD &&
           claim->machine.deadline_us - lw__terms_margin_us(lock) > lw__now_us();
}

/* Its lease begins now. Who does not renew has it asked for once, unless the grant that
 * lets it in was asked for with a lease as long. */
static void enter(struct lw__claim *claim, struct lw_lock *lock, bool by_grant)
{
    if ((lock->flags & LW_NO_RENEW) &&
        (!by_grant || claim->machine.lease_us < (int64_t)lock->lease_ms * LW__MS)) {
        claim->held.entered_us = lw__now_us();
    }
    DL_APPEND2(claim->held.others, lock, turn_prev, turn_next);
    lw__handle_hold(claim, lock);
    choose_holder(claim);
}

void lw__together_admit(struct lw__claim *claim)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        if (!may_enter(claim, lock)) {
            continue;
        }
        lw__handle_wait_no_more(claim, lock);
        enter(claim, lock, true);
    }
}

/* Not one that is lost, or let go. */
static bool is_alive(const struct lw__claim *claim)
{
    enum lw__phase phase = claim->machine.phase;

    return (phase == LW__ASKING || phase == LW__QUEUED || phase == LW__HELD) &&
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

bool lw__together_join(struct lw_lock *lock)
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

void lw__together_leave(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    if (claim->held.others == NULL) {
        claim->holder = NULL;
        return;
    }
    if (claim->holder == lock) {
        claim->holder = NULL;
    } else {
        DL_DELETE2(claim->held.others, lock, turn_prev, turn_next);
    }
    choose_holder(claim);
}
