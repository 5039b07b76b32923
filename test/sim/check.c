/* SPDX-License-Identifier: MIT
 *
 * What must be true of the hosts, checked while the run goes on: one holder, growing
 * fences, each operation once, the callback rules. Changes nothing; the server's keys are
 * check_server.c's.
 *
 * Happy path: each function returns; a violation does not.
 */
#include "look.h"

#include "lock/machine.h"
#include "lock/lock_private.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_US                                                                          \
    (1000 * MS) /* several slow round trips, some NOSCRIPT's, and a short poll */
#define MOVING_IDLE_US                                                                   \
    (1500 * MS) /* and while a slot moves: polls, each somewhat longer */
#define POLL_US (11 * SECOND + ROUND_TRIP_US)       /* the longest poll delay */
#define CROWD_POLL_US (33 * SECOND + ROUND_TRIP_US) /* of who has a hundred before it */
#define ROUND_TRIP_US (100 * MS) /* a slow one, where no packet is late */
#define OVERTAKEN 30
#define LATE_US (20 * MS) /* what a loop that does not stall may be late by */

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- callbacks ---- */

/* Rule 6: a loss comes before every other callback that could have told of it. */
static void check_losses_told(const struct op *told, const char *what)
{
    for (const struct op *op = world.ops; op != NULL; op = op->next) {
        if (op == told || op->host != told->host || op->state != OP_HELD ||
            op->life != told->host->life || lw_lock_state(op->lock) != LW_HELD) {
            continue;
        }
        if (lw__handle_deadline_us(op->lock) - op->options.margin_ms * MS <=
            world.now_us) {
            violation("op %u: %s comes before the loss of op %u", told->id, what, op->id);
        }
    }
}

void check_callback(const struct op *op, const char *what, bool of_loss)
{
    if (op->set != NULL ? op->set->all == NULL : op->lock == NULL) {
        violation("op %u: %s after it was freed", op->id, what);
    }
    if (op->host->in_call) {
        violation("op %u: %s inside a call", op->id, what);
    }
    if (op->life != op->host->life) {
        violation("op %u: %s after its client was freed", op->id, what);
    }
    if (!of_loss) {
        check_losses_told(op, what);
    }
}

/* Each end is told after a beginning, or after another failed attempt. */
void check_link(struct host *host, const struct lw_client *client, bool up)
{
    if (client != host->client || host->in_call) {
        violation("h%d: the link callback of another client, or inside a call", host->id);
    }
    if (up && host->link_up) {
        violation("h%d: the link came up twice", host->id);
    }
    host->link_up = up;
    host->up_us = world.now_us;
}

/* Redisson's format does not tell our owners: each client knows its own. */
static bool same_owner(const struct op *a, const struct op *b)
{
    if (a != b && a->options.mode == LW_REDISSON && a->host != b->host) {
        return false;
    }
    return a == b || (*a->owner && strcmp(a->owner, b->owner) == 0);
}

/* While two may hold, who was granted first need not be told first, and who lost the lock
 * unknowingly still passes it on within its client: only those told of before the loss
 * count. */
static void check_against(const struct op *op, const struct op *list)
{
    for (const struct op *past = list; past != NULL; past = past->next) {
        if (past != op && past->name == op->name && past->granted_us > 0 &&
            !past->of_split && past->fence >= op->fence &&
            (past->fence == op->fence ||
             (past->granted_us < op->begun_us && past->granted_us < world.loss_us))) {
            violation("op %u: fence %llu after op %u had %llu", op->id,
                      (unsigned long long)op->fence, past->id,
                      (unsigned long long)past->fence);
        }
    }
}

/* What an owner let go is held again where its release is lost, with its old number. */
static bool repeats(const struct op *op, const struct op *list)
{
    for (; list != NULL; list = list->next) {
        if (list != op && same_owner(list, op) && list->name == op->name &&
            list->fence == op->fence && list->granted_us > 0) {
            return true;
        }
    }
    return false;
}

static bool is_excused_of(const struct op *op, const struct op *past)
{
    return past->of_lost && (repeats(op, world.ops) || repeats(op, world.past));
}

/* Readers hold side by side, and an owner that is in already keeps its number: who comes
 * for itself alone, or to write, has a larger one than all others that were told of
 * before it asked. */
static void check_entry(const struct op *op)
{
    const struct op *const lists[] = {world.ops, world.past};
    bool lossy = world.now_us <= world.loss_until_us;

    if (op->options.owner != NULL && op->options.mode != LW_EXCLUSIVE) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        for (const struct op *past = lists[i]; past != NULL; past = past->next) {
            if (!same_owner(past, op) && past->name == op->name && past->granted_us > 0 &&
                !past->of_split && past->granted_us < op->begun_us &&
                past->fence >= op->fence && !is_excused_of(op, past) &&
                (!lossy || past->granted_us < world.loss_us)) {
                violation("op %u: fence %llu after op %u had %llu", op->id,
                          (unsigned long long)op->fence, past->id,
                          (unsigned long long)past->fence);
            }
        }
    }
}

static void note_fence(const struct op *op)
{
    if (op->fence > world.fence[op->name] && !op->of_split &&
        world.plan.kinds[op->name] == KIND_MUTEX) {
        world.fence[op->name] = op->fence;
    }
}

/* A number that an old master gave out is larger than all before it was replaced, but
 * may not be than those that the new one gives out at the same time. */
static void check_fence(const struct op *op)
{
    bool lossy = world.now_us <= world.loss_until_us;

    if (op->fence == 0) {
        if (!(op->options.flags & LW_NO_FENCE) && op->options.mode != LW_REDISSON) {
            violation("op %u: granted without a fence", op->id);
        }
        return;
    }
    if (stray_is(op) || check_is_unaware(op->host)) {
        note_fence(op);
        return;
    }
    if (world.plan.kinds[op->name] != KIND_MUTEX) {
        check_entry(op);
        return;
    }
    if (op->set != NULL && world.failovers > 0) {
        check_entry(op); /* a master that was replaced may have granted it meanwhile */
        note_fence(op);
        return;
    }
    if (!lossy && world.fence[op->name] >= op->fence) {
        violation("op %u: fence %llu after %llu", op->id, (unsigned long long)op->fence,
                  (unsigned long long)world.fence[op->name]);
    }
    if (lossy) {
        check_against(op, world.ops);
        check_against(op, world.past);
    }
    note_fence(op);
}

void check_split(int64_t since_us, int64_t until_us)
{
    struct op *const lists[] = {world.ops, world.past};

    world.split_until_us = until_us;
    memset(world.fence, 0, sizeof(world.fence));
    for (int i = 0; i < 2; i++) {
        for (struct op *op = lists[i]; op != NULL; op = op->next) {
            op->of_split = op->of_split || op->granted_us >= since_us;
            if (!op->of_split && op->fence > world.fence[op->name]) {
                world.fence[op->name] = op->fence;
            }
        }
    }
}

/* Turns come in order (a set queues only for one of its names): whoever waits is
 * overtaken by few that came later, once nothing happens that sets waiters back; they
 * have time for their links to end at one server, and to let the leases end of whoever
 * was lost. */
static void check_overtaken(const struct op *op)
{
    int64_t patience_us = world.plan.tame ? POLL_US
                                          : LONGEST_LEASE_US +
                                                2 * world.plan.request_timeout_ms * MS +
                                                world.plan.name_lag_us + 10 * SECOND;

    if (world.calm_us == NEVER || world.plan.kinds[op->name] != KIND_MUTEX ||
        op->adopted) {
        return;
    }
    for (struct op *other = world.ops; other != NULL; other = other->next) {
        if (other->done == 0 && other->set == NULL && other->name == op->name &&
            other->begun_us < op->begun_us &&
            world.now_us > latest(other->begun_us, world.calm_us) + patience_us &&
            ++other->overtaken > OVERTAKEN) {
            violation("op %u waits while %u that came later had their turn", other->id,
                      other->overtaken);
        }
    }
}

static void check_granted(const struct op *op)
{
    if (lw_lock_state(op->lock) != LW_HELD) {
        violation("op %u: granted, but in state %d", op->id, lw_lock_state(op->lock));
    }
    if (lw__handle_deadline_us(op->lock) <= world.now_us) {
        violation("op %u: granted after its deadline", op->id);
    }
    check_fence(op);
    check_overtaken(op);
    check_beliefs();
}

void check_done(const struct op *op, int status)
{
    int64_t wait_us = op->options.wait_ms * MS;
    bool once = wait_us == 0;
    int64_t due_us = op->begun_us;

    if (op->done != 1) {
        violation("op %u: done %u times", op->id, op->done);
    }
    due_us += once ? world.plan.request_timeout_ms * MS : wait_us;
    if (wait_us >= 0 && world.now_us > latest(due_us, op->host->stall_end_us) + LATE_US) {
        violation("op %u: done too late", op->id);
    }
    switch (status) {
    case LW_OK:
        check_granted(op);
        break;
    case LW_ENOTHELD:
        if (!op->adopted) {
            violation("op %u: acquires, and is answered that it is not held", op->id);
        }
        break;
    case LW_EINVAL: /* a stranger has the key */
        if (!op->adopted || !world.plan.every_us[FAULT_STRANGER] ||
            op->options.mode == LW_MUTEX) {
            violation("op %u: invalid", op->id);
        }
        break;
    case LW_EBUSY:
        if (op->adopted) {
            violation("op %u: adopts, and is answered that it is busy", op->id);
        }
        if (!once && op->options.max_waiting == 0) {
            violation("op %u: busy, though it waits", op->id);
        }
        break;
    case LW_ETIMEOUT:
        if (wait_us <= 0 || world.now_us < due_us) {
            violation("op %u: timed out too early", op->id);
        }
        break;
    case LW_ECONN:
    case LW_EREDIS:
        if ((!once && !world.plan.every_us[FAULT_ERROR]) ||
            (world.plan.tame && !world.plan.every_us[FAULT_SLOT])) {
            violation("op %u: %s", op->id, lw_strerror(status));
        }
        break;
    case LW_EDEADLOCK:
        if (op->options.owner == NULL || op->options.mode != LW_EXCLUSIVE) {
            violation("op %u: a deadlock, but it has no other hold", op->id);
        }
        break;
    case LW_ECLOSED:
        if (!op->host->closing) {
            violation("op %u: closed, though nobody closed", op->id);
        }
        break;
    default:
        violation("op %u: done with %d", op->id, status);
    }
}

/* Without renewals, but with all of its lease, which a message alone does not give. */
static void check_full_lease(const struct op *op)
{
    int64_t lease_us = op->options.lease_ms * MS;

    if (op->renews == 0 &&
        world.now_us < op->granted_us + lease_us - lw__machine_drift_us(lease_us) -
                           op->options.margin_ms * MS - ROUND_TRIP_US) {
        violation("op %u: lost before its lease has ended", op->id);
    }
}

void check_lost(const struct op *op, int why)
{
    bool unrenewed = (op->options.flags & LW_NO_RENEW) != 0;
    bool capped = op->options.max_hold_ms != 0;

    if (why != LW_ELOST && why != LW_ENOTHELD && why != LW_ETIMEOUT) {
        violation("op %u: lost with %d", op->id, why);
    }
    if (why == LW_ETIMEOUT && !capped) {
        violation("op %u: lost by a cap that it does not have", op->id);
    }
    if (world.plan.tame && why == LW_ENOTHELD) {
        violation("op %u: lost to somebody else", op->id);
    }
    if (world.plan.tame && why == LW_ELOST && unrenewed) {
        check_full_lease(op);
        if (op->options.at_risk != NULL && op->warned % 2 == 0) {
            violation("op %u: lost without a warning", op->id);
        }
    }
    /* what is passed on shortly before its end may end before it can be renewed */
    if (world.plan.tame && why == LW_ELOST && !unrenewed && op->left_ms >= 100) {
        violation("op %u: lost, though it was to be renewed", op->id);
    }
}

/* By the longest lease that it has had (load.c's lw_renew goes up to 3000). */
static int64_t at_risk_ms(const struct op *op)
{
    int64_t lease = op->options.lease_ms, margin = op->options.margin_ms;

    if (op->options.at_risk_ms != 0) {
        return op->options.at_risk_ms;
    }
    if (op->renews > 0 && margin == 0 && lease < 3000) {
        lease = 3000;
    }
    return margin < lease / 3 ? lease / 3 : (margin + lease / 2) / 2;
}

void check_risk(const struct op *op, int at_risk, int64_t remaining_ms)
{
    bool unrenewed = (op->options.flags & LW_NO_RENEW) != 0;

    if (op->done != 1 || op->state != OP_HELD || op->lost > 0 ||
        lw_lock_state(op->lock) != LW_HELD) {
        violation("op %u: warned in state %d", op->id, op->state);
    }
    if (remaining_ms != lw_lock_remaining_ms(op->lock)) {
        violation("op %u: told that %lld ms remain, not %lld", op->id,
                  (long long)remaining_ms, (long long)lw_lock_remaining_ms(op->lock));
    }
    if (at_risk && remaining_ms > at_risk_ms(op)) {
        violation("op %u: warned with %lld ms left", op->id, (long long)remaining_ms);
    }
    /* a slot that moves costs a renewal some round trips, and a connection */
    if (world.plan.tame && !world.plan.every_us[FAULT_SLOT] && at_risk && !unrenewed &&
        op->left_ms >= 100) {
        violation("op %u: warned, though it was to be renewed", op->id);
    }
}

/* ---- who believes to hold ---- */

static bool believes(const struct op *op)
{
    return op->done > 0 && op->lock != NULL && lw_lock_remaining_ms(op->lock) > 0;
}

/* Counted once for each that was excused. */
static bool is_excused(struct op *op)
{
    if (!stray_is(op) || world.plan.guard_ms) {
        return false;
    }
    world.excused += !op->excused;
    op->excused = true;
    return true;
}

/* `op` believes: may all that believe along with it? */
static void check_company(struct op *op)
{
    unsigned owners = 1;
    bool excused = stray_is(op) && !world.plan.guard_ms;

    for (struct op *other = op->next; other != NULL; other = other->next) {
        bool counted = same_owner(other, op);

        if (other->name != op->name || !believes(other)) {
            continue;
        }
        excused = excused || (stray_is(other) && !world.plan.guard_ms);
        if (!counted &&
            (op->options.mode != LW_SHARED || other->options.mode != LW_SHARED) &&
            !is_excused(op) && !is_excused(other)) {
            violation("op %u and op %u both hold %s", op->id, other->id,
                      load_name(op->name));
        }
        for (const struct op *at = op->next; at != other; at = at->next) {
            counted = counted ||
                      (at->name == op->name && believes(at) && same_owner(at, other));
        }
        owners += !counted;
    }
    if (op->options.permits && owners > op->options.permits && !excused) {
        violation("op %u: %u owners hold %s", op->id, owners, load_name(op->name));
    }
}

/* By the hosts where nothing goes wrong: a mutex is handed over at once. By the server if
 * there are sets, which hold names before they are told, and where everything works
 * again: who waits finds a free key by polling at the latest. */
static bool is_idle(unsigned name, bool believed)
{
    if (world.plan.tame && !world.plan.sets) {
        return world.plan.kinds[name] == KIND_MUTEX && !believed;
    }
    return world.plan.quorum ? check_has_no_majority(load_name(name))
                             : look_is_free(load_name(name));
}

static bool slots_may_move(void)
{
    return world.plan.every_us[FAULT_SLOT] &&
           (world.calm_us == NEVER || world.now_us <= world.calm_us + POLL_US);
}

static int64_t longest_idle_us(unsigned name)
{
    if (world.plan.tame) {
        return slots_may_move() ? MOVING_IDLE_US : IDLE_US;
    }
    return look_is_crowded(name) ? CROWD_POLL_US : POLL_US;
}

/* The record of the last loss is made when a client asks for the first time, or at a
 * heartbeat if that was refused. */
static int64_t longest_guard_us(void)
{
    return world.plan.guard_ms
               ? (world.plan.guard_ms + world.plan.request_timeout_ms) * MS * 102 / 100
               : 0;
}

/* In time for links that do not work to be noticed and made again. */
static bool has_settled(void)
{
    int64_t settled_us = world.healed_us + 2 * world.plan.request_timeout_ms * MS +
                         LONGEST_CLOG_US + 2 * SECOND + longest_guard_us();

    return world.plan.tame || (world.healed && world.now_us > settled_us);
}

/* Not a keep that was refused, until its pause is over. A set waits for one name. */
static bool asks(const struct op *op)
{
    if (op->set != NULL) {
        const struct lw_lock *lock = lw_all_lock(op->set->all, op->index);

        return lock != NULL && lw_lock_state(lock) == LW_WAITING;
    }
    return op->keep == NULL || lw_lock_state(op->lock) == LW_WAITING;
}

static void check_idleness(void)
{
    bool held[NAMES] = {false}, wanted[NAMES] = {false};

    for (const struct op *op = world.ops; op != NULL; op = op->next) {
        held[op->name] = held[op->name] || believes(op);
        wanted[op->name] = wanted[op->name] || (op->done == 0 && asks(op));
    }
    for (unsigned i = 0; i < NAMES; i++) {
        if (!wanted[i] || !has_settled() || !is_idle(i, held[i])) {
            world.idle_us[i] = 0;
        } else if (world.idle_us[i] == 0) {
            world.idle_us[i] = world.now_us;
            world.idle_until_us[i] = world.now_us + longest_idle_us(i);
        } else if (world.now_us > world.idle_until_us[i]) {
            violation("%s is wanted and has been idle for %.3f ms", load_name(i),
                      (double)(world.now_us - world.idle_us[i]) / 1000);
        }
    }
}

static void check_in_time(const struct op *op, int64_t due_us, const char *what)
{
    if (host_can_run(op->host) &&
        world.now_us > latest(due_us, op->host->stall_end_us) + LATE_US) {
        violation("op %u: %s does not come in time", op->id, what);
    }
}

/* What ends by the clock. */
static void check_ends(const struct op *op)
{
    const struct lw_acquire_options *options = &op->options;

    if (op->life != op->host->life || op->host->closing) {
        return;
    }
    if (op->state == OP_HELD && lw_lock_state(op->lock) == LW_HELD) {
        int64_t deadline_us = lw__handle_deadline_us(op->lock);

        if (deadline_us > 0) { /* else the server has just said that it is not held */
            check_in_time(op, deadline_us - options->margin_ms * MS, "its loss");
        }
        if (options->max_hold_ms) {
            check_in_time(op, op->granted_us + options->max_hold_ms * MS, "its end");
        }
    }
    if (op->state == OP_RELEASING && op->wants_release_call && op->released == 0) {
        check_in_time(op, op->release_us + world.plan.request_timeout_ms * MS,
                      "the end of its release");
    }
}

/* What is left is what is left of the name that ends first. A lost set keeps no name
 * longer than the margin. */
static void check_set(const struct set *set)
{
    const struct op *op = set->ops[0];
    int64_t least_ms = INT64_MAX, left_ms;
    bool holds = false;

    if (set->done == 0 || op->lock == NULL || op->life != op->host->life ||
        op->host->closing) {
        return;
    }
    for (unsigned i = 0; i < set->count; i++) {
        left_ms = lw_lock_remaining_ms(set->ops[i]->lock);
        least_ms = left_ms < least_ms ? left_ms : least_ms;
        holds = holds || lw_lock_state(set->ops[i]->lock) == LW_HELD;
    }
    if (op->state == OP_HELD && lw_all_remaining_ms(set->all) != least_ms) {
        violation("the set of op %u says that %lld ms remain, not %lld", op->id,
                  (long long)lw_all_remaining_ms(set->all), (long long)least_ms);
    }
    if (holds && set->lost_us) {
        check_in_time(op, set->lost_us + op->options.margin_ms * MS + 2 * MS,
                      "the release of the other names");
    }
}

void check_beliefs(void)
{
    bool is_lossy = world.now_us <= world.loss_until_us;

    keeping_review();
    check_idleness();
    check_watched();
    for (const struct op *op = world.ops; op != NULL; op = op->next) {
        check_ends(op);
        if (op->set != NULL && op->index == 0) {
            check_set(op->set);
        }
    }
    if (is_lossy && !world.plan.guard_ms) {
        return;
    }
    for (struct op *op = world.ops; op != NULL; op = op->next) {
        if (!believes(op)) {
            continue;
        }
        stray_review(op);
        check_company(op);
        if (!is_lossy) {
            check_backed(op);
        }
    }
}

void check_nobody_believes(const char *name)
{
    for (const struct op *op = world.ops; op != NULL; op = op->next) {
        if (strcmp(load_name(op->name), name) == 0 && believes(op) &&
            world.now_us > world.loss_until_us && !stray_is(op)) {
            violation("op %u holds %s, which a stranger has", op->id, name);
        }
    }
}

/* ---- the end ---- */

void check_healed(void)
{
    check_settled();
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (world.hosts[i].client != NULL && !world.hosts[i].closing &&
            !world.hosts[i].link_up) {
            violation("h%u was not told that its link is up", i);
        }
    }
    for (const struct op *op = world.ops; op != NULL; op = op->next) {
        if (op->state == OP_WAITING) {
            violation("op %u still waits, long after everything works again", op->id);
        }
        violation("op %u has not ended", op->id);
    }
}

void check_end(void)
{
    check_last_keys();
    check_scripts_end();
    for (const struct op *op = world.past; op != NULL; op = op->next) {
        if (op->renews != op->renewed) {
            violation("op %u: %u renewals of %u have called back", op->id, op->renewed,
                      op->renews);
        }
    }
}
