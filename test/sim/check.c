/* SPDX-License-Identifier: MIT
 *
 * Checks, while a run goes on, what must be true of the hosts: one holder at a time,
 * growing fencing tokens, each operation completed once, the callback rules. Changes
 * nothing. The server's keys are checked by check_server.c.
 *
 * Each function returns if all is well; a violation does not return.
 */
#include "look.h"

#include "hold/machine.h"
#include "lock/lock_private.h"

#include <stdlib.h>
#include <string.h>

#define IDLE_US                                                                          \
    (1000 * MS) /* several slow round trips, some with NOSCRIPT, and a short poll */
#define MOVING_IDLE_US                                                                   \
    (1500 * MS) /* while a slot moves: some polls, each of which takes longer */
#define POLL_US (11 * SECOND + ROUND_TRIP_US)       /* the longest poll delay */
#define CROWD_POLL_US (33 * SECOND + ROUND_TRIP_US) /* behind a hundred others */
#define ROUND_TRIP_US (100 * MS)                    /* a slow one, if no packet is late */
/* Waiters of a quorum may split its votes several times in a row: in 3 of 2,001 seeds a
 * name was idle for longer than a poll, in none for 30 s longer. */
#define MINORITY_US (30 * SECOND)
#define OVERTAKEN 30
#define LATE_US (20 * MS) /* how late a loop that does not stall may be */

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- callbacks ---- */

/* Rule 6: checks that the loss of a lock whose deadline has passed is reported before any
 * other callback. */
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

/* Checks that "up" is never reported twice in a row. "Down" may be: once for each failed
 * attempt. */
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

static bool same_owner(const struct op *a, const struct op *b)
{
    return a == b || (*a->owner && strcmp(a->owner, b->owner) == 0);
}

/* Checks a fencing token while two may hold. During that time grants need not be
 * delivered in the order in which they were made, and a client that has not noticed its
 * loss still hands the lock over locally. So only grants that were delivered before the
 * loss must have smaller tokens. In any case no token may be granted twice. */
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

/* Returns true if another operation of the owner of `op` was granted with the same token:
 * if a release is lost, its owner holds the lock again, with the old token. */
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

/* Checks the fencing token of a read-write lock. Readers hold side by side, and an owner
 * that already holds the lock keeps its token. A writer, or a request without an owner,
 * gets a token larger than those of all other owners whose grants were delivered before
 * the request was made. */
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

/* Checks a fencing token. One that an old master drew is larger than all that were drawn
 * before it was replaced, but not always than those that the new master draws at the same
 * time. */
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
        check_entry(op); /* may have been granted by a master that was replaced since */
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

/* Checks that waiters are served in order (a set queues for only one of its names). After
 * the faults that set waiters back, and a time in which the waiters' links reach the same
 * server and the leases of lost holders expire, only few later requests may overtake a
 * waiter. */
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
    case LW_EINVAL: /* the key is foreign */
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
        if ((!once && !world.plan.every_us[FAULT_ERROR] &&
             !world.plan.every_us[FAULT_FOREIGN]) ||
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

/* Checks that a hold without renewals lasts for its full lease. A hand-over message alone
 * grants less, the claim window. */
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
    /* a hold that is handed over shortly before its deadline may expire before it is
     * renewed */
    if (world.plan.tame && why == LW_ELOST && !unrenewed && op->left_ms >= 100) {
        violation("op %u: lost, though it was to be renewed", op->id);
    }
}

/* Returns the remaining time from which `at_risk` is due, for the longest lease that the
 * hold may have had (lw_renew in load.c asks for up to 3000 ms). */
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
    /* while a slot moves, a renewal costs several round trips and a connection */
    if (world.plan.tame && !world.plan.every_us[FAULT_SLOT] && at_risk && !unrenewed &&
        op->left_ms >= 100) {
        violation("op %u: warned, though it was to be renewed", op->id);
    }
}

/* ---- operations that believe that they hold the lock ---- */

static bool believes(const struct op *op)
{
    return op->done > 0 && op->lock != NULL && lw_lock_remaining_ms(op->lock) > 0;
}

/* Returns true if `op` may hold along with others, since the master does not know its
 * hold. Counts each such operation once, in world.excused. */
static bool is_excused(struct op *op)
{
    if (!stray_is(op) || world.plan.guard_ms) {
        return false;
    }
    world.excused += !op->excused;
    op->excused = true;
    return true;
}

/* Checks that `op`, which believes that it holds the lock, may hold it along with all
 * others that do. */
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

/* Returns true if the name is idle. In a tame plan without sets the hosts' handles show
 * that, since a mutex is handed over at once. The server's key shows it if there are
 * sets, which hold names before their grant is reported, and once everything works again,
 * when waiters find a free key by polling at the latest. */
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
    return (look_is_crowded(name) ? CROWD_POLL_US : POLL_US) +
           (world.plan.quorum ? MINORITY_US : 0);
}

/* Returns how long the guard may delay grants. Its record of the last loss is written at
 * a client's first request, or at a heartbeat if that was refused. */
static int64_t longest_guard_us(void)
{
    return world.plan.guard_ms
               ? (world.plan.guard_ms + world.plan.request_timeout_ms) * MS * 102 / 100
               : 0;
}

/* Returns true once broken links have been noticed and replaced. */
static bool has_settled(void)
{
    int64_t settled_us = world.healed_us + 2 * world.plan.request_timeout_ms * MS +
                         LONGEST_CLOG_US + 2 * SECOND + longest_guard_us();

    return world.plan.tame || (world.healed && world.now_us > settled_us);
}

/* Returns true if the operation has a request pending. A keep that was refused has none
 * until its pause ends. A set waits for one name at a time. */
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

/* Checks that whatever is due by the clock comes in time: the loss at the deadline, the
 * end by max_hold_ms, the end of a release. */
static void check_ends(const struct op *op)
{
    const struct lw_acquire_options *options = &op->options;

    if (op->life != op->host->life || op->host->closing) {
        return;
    }
    if (op->state == OP_HELD && lw_lock_state(op->lock) == LW_HELD) {
        int64_t deadline_us = lw__handle_deadline_us(op->lock);

        if (deadline_us > 0) { /* else the server has just replied that it is not held */
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

/* Checks that the remaining time of a set is that of the name that expires first, and
 * that a lost set holds no name for longer than the margin. */
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
