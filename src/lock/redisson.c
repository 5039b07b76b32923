/* SPDX-License-Identifier: MIT */
/*
 * LW_REDISSON: locks shared with Redisson's RLock. Owns what no other mode has: the
 * handles of one owner that hold one claim together (they are counted here; Redis sees
 * one hold). Must not know replies, nor decide when a grant may be believed.
 *
 * Happy path: the first try is refused, and has the name's channel listened to
 * (listen.c); its confirmation has the first who waits for the name ask again, as does
 * each message (line.c). Once held, join() lets in who has the same owner; leave() lets
 * it out. Where the channel cannot be heard, or a cluster's Redisson uses another, who
 * waits polls.
 */
#include "lock/redisson.h"

#include "base/log.h"
#include "lock/hold.h"
#include "lock/line.h"
#include "lock/listen.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "lock/terms.h"
#include "lock/waiters.h"
#include "loop/now.h"
#include "redis/decode.h"
#include "redis/node.h"

#include <string.h>
#include <syslog.h>
#include <utlist.h>

#define POLL_MS 10000
#define POLL_UNHEARD_MS 3000

/* ---- the holds of one owner ---- */

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

    DL_FOREACH2(claim->others, lock, turn_next) {
        if (first == NULL || needs_it_longer(lock, first)) {
            first = lock;
        }
    }
    if (first != claim->holder) {
        DL_DELETE2(claim->others, first, turn_prev, turn_next);
        if (claim->holder != NULL) {
            DL_APPEND2(claim->others, claim->holder, turn_prev, turn_next);
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
        claim->entered_us = lw__now_us();
    }
    DL_APPEND2(claim->others, lock, turn_prev, turn_next);
    lw__hold_begin(claim, lock);
    choose_holder(claim);
}

static void tell_of_cluster(struct lw_client *client)
{
    if (client->cluster_told || !lw__node_is_clustered(client->node)) {
        return;
    }
    client->cluster_told = true;
    lw__log(
        &client->log, LOG_WARNING,
        "the server is in cluster mode, where Redisson wakes by sharded channels: it and "
        "this client exclude each other, but waiting will be by polling");
}

static void admit(struct lw__claim *claim)
{
    struct lw_lock *lock, *next;

    tell_of_cluster(claim->client);
    DL_FOREACH_SAFE2(claim->waiting, lock, next, turn_next) {
        if (!may_enter(claim, lock)) {
            continue;
        }
        lw__waiters_remove(claim, lock);
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

/* Somebody of this client is in line before it. */
static void refuse(struct lw_lock *lock)
{
    lock->retry_ms = lw__line_busy_ms(lock->name);
    lw__waiters_finish(lock, LW_EBUSY, NULL);
}

static bool join(struct lw_lock *lock)
{
    struct lw__claim *claim = find(lock);
    struct lw__node *node = lock->client->node;

    if (claim == NULL) {
        if (!lock->once || !lw__node_is_up(node) || lw__line_first(lock->name) == NULL) {
            return false;
        }
        refuse(lock);
        return true;
    }
    if (may_enter(claim, lock)) {
        enter(claim, lock, false);
        return true;
    }
    if (lock->once && lw__node_is_backing_off(node)) {
        return false;
    }
    if (lock->once && claim->machine.phase == LW__QUEUED && lw__node_is_up(node)) {
        refuse(lock);
        return true;
    }
    lw__waiters_append(claim, lock);
    if (claim->machine.phase == LW__HELD) {
        lw__renewal_now(claim); /* so near to its end, the renewal's answer lets it in */
    }
    return true;
}

static void leave(struct lw_lock *lock)
{
    struct lw__claim *claim = lock->claim;

    if (claim->holder == lock) {
        claim->holder = NULL;
    } else {
        DL_DELETE2(claim->others, lock, turn_prev, turn_next);
    }
    choose_holder(claim);
}

static void refused(struct lw__claim *claim)
{
    tell_of_cluster(claim->client);
    lw__listen_to(claim->client, claim->name);
}

const struct lw__together lw__redisson_together = {join, admit, leave, refused};

/* ---- who waits ---- */

static void released(struct lw__claim *claim, const struct lw__released *answer)
{
    lw__line_released(claim->client, claim->name->text, answer->told,
                      lw__listen_hears(claim->client, claim->name->text));
}

/* Less where the name's channel is not heard. */
static int64_t poll_ms(const struct lw__claim *claim)
{
    const struct lw_client *client = claim->client;
    bool heard = lw__listen_hears(client, claim->name->text) &&
                 !lw__node_is_clustered(client->node);

    return heard ? POLL_MS : POLL_UNHEARD_MS;
}

const struct lw__in_line lw__redisson_in_line = {lw__line_must_wait, lw__line_moved,
                                                 released, poll_ms};
