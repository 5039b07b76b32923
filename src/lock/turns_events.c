/* SPDX-License-Identifier: MIT */
/* What becomes of a claim, and of the link, for each of the handles that wait or hold by
 * it. Must not know commands or replies. Happy path: granted() -> the first who waits
 * holds; released(), ended(). An outcome that is open ends those who try once, an error
 * that is for good all who wait; a claim that the server knows nothing of is lost, and
 * those who wait for it queue anew. */
#include "lock/turns_inside.h"

#include "lock/claim.h"
#include "lock/ending.h"
#include "lock/handle.h"
#include "lock/line.h"
#include "lock/mode.h"
#include "lock/name.h"
#include "lock/notify.h"
#include "lock/renew.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "lock/together.h"
#include "lock/turns.h"
#include "loop/loop.h"
#include "redis/route.h"

#include <utlist.h>

static void said(struct lw__claim *claim, int status, const char *text)
{
    struct lw_lock *lock;

    DL_FOREACH2(claim->waiting, lock, turn_next) {
        lw__handle_set_error(lock, status, text);
    }
    DL_FOREACH2(lw__terms_others(claim), lock, turn_next) {
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
    if (!claim->error_told) {
        return;
    }
    claim->error_told = false;
    said(claim, LW_OK, "");
}

static void let_others_in(struct lw__claim *claim)
{
    if (claim->mode->in_line != NULL) {
        claim->mode->in_line->held(claim);
    }
    if (claim->mode->together) {
        lw__together_admit(claim);
    }
}

static void granted(struct lw__claim *claim)
{
    forget_error(claim);
    claim->served = 0;
    claim->held.drawn_on = lw__node_connection(claim->name->node);
    if (claim->waiting == NULL) {
        lw__turns_close(claim);
        lw__claim_event(claim, LW__EV_RELEASE);
    } else if (claim->machine.fence == 0 && !(claim->waiting->flags & LW_NO_FENCE)) {
        lw__claim_event(claim, LW__EV_LATE); /* asked for by one who wanted no number */
    } else {
        lw__turns_begin(claim, claim->waiting);
        let_others_in(claim);
    }
}

/* Ends all those who try once, and has the claim leave if nobody else waits. */
static void end_tries(struct lw__claim *claim, int status, int error, const char *why)
{
    struct lw_lock *lock, *next;

    if (claim->tries == 0) {
        return;
    }
    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        if (!lock->once) {
            continue;
        }
        lw__handle_wait_no_more(claim, lock);
        lw__handle_finish(lock, status, error, why);
        if (status == LW_EBUSY) {
            lock->retry_ms = claim->asking.remaining_ms;
        }
    }
    if (claim->waiting == NULL) {
        lw__turns_close(claim);
        lw__claim_event(claim, LW__EV_ABANDON);
    }
}

static void busy(struct lw__claim *claim)
{
    const struct lw_lock *lock = claim->waiting;

    forget_error(claim);
    while (lock != NULL && lock->once) {
        lock = lock->turn_next;
    }
    if (lock != NULL && claim->mode->in_line != NULL) {
        claim->mode->in_line->refused(claim);
    }
    end_tries(claim, LW_EBUSY, LW_OK, NULL);
}

static void open_outcome(struct lw__claim *claim, int status, const char *why)
{
    const struct lw__node *node = claim->name->node;

    if (*why) {
        said(claim, status, why);
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
    lw__turns_close(claim);
    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        lw__handle_wait_no_more(claim, lock);
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
            lw__turns_take_back(lock);
            continue;
        }
        lw__together_leave(lock);
        lock->claim = NULL;
        lw__handle_lose(lock, LW_ENOTHELD);
        lw__renew_end_all(lock, LW_ELOST);
        lock->held.lost_at_us = 0;
    }
    lw__turns_queue_anew(claim);
}

/* The timers of others who hold find out by themselves; who is to be warned, or was, is
 * told of it. */
static void arm_losses(struct lw__claim *claim)
{
    struct lw_lock *lock;

    lw__handle_arm_loss(claim->holder);
    DL_FOREACH2(lw__terms_others(claim), lock, turn_next) {
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
        if (may_pass && lw__turns_may_pass(claim, claim->waiting)) {
            claim->client->stats.passed++;
            lw__turns_begin(claim, claim->waiting);
            return;
        }
        lw__renewal_forget(claim);
        lw__turns_turn(claim);
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
    granted, busy, failed, said, open_outcome, released, lost, renewed, ended,
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
        if (lw__line_is_behind(claim)) {
            claim->asking.remaining_ms = lw__line_busy_ms(name);
            end_tries(claim, LW_EBUSY, LW_OK, NULL);
        } else if (claim->machine.phase != LW__HELD) {
            lw__claim_event(claim, LW__EV_ASK_NOW);
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
        lw__name_keep(name); /* an answer may come at once and end its last claim */
        if (name->node == node && is_in(name, slot)) {
            ask_all_of(name, slot == ANY);
        }
        next = lw__name_after(client, name);
        lw__name_put(client, name);
    }
}

void lw__turns_ask_all(struct lw_client *client, const struct lw__node *node, bool verify)
{
    ask_those(client, node, verify ? ANY : NEWLY_BOUND);
}

void lw__turns_ask_slot(struct lw_client *client, const struct lw__node *node,
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
    name->moving = false;
    if (lw__node_is_up(node)) { /* else coming up has them ask */
        ask_all_of(name, true);
    }
}

void lw__turns_lead_all(struct lw_client *client)
{
    struct lw__name *name = lw__name_after(client, NULL), *next;

    for (; name != NULL; name = next) {
        lw__name_keep(name);
        lead(client, name);
        next = lw__name_after(client, name);
        lw__name_put(client, name);
    }
}

void lw__turns_link_down(struct lw_client *client, const struct lw__node *node)
{
    struct lw_lock *lock, *next;

    DL_FOREACH_SAFE(client->locks, lock, next) {
        if (lock->state == LW_WAITING && lock->once && lock->claim != NULL &&
            !lock->granted && lock->name->node == node) {
            lw__turns_withdraw(lock);
            lw__handle_unserved(lock, LW_ECONN);
        }
    }
}
