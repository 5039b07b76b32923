/* SPDX-License-Identifier: MIT
 *
 * What the hosts do with locks. Each actor acquires, holds and releases one lock at a
 * time, or one set of locks, in ways that the plan makes likely. Counts its callbacks.
 * check.c judges them.
 *
 * Usual course: next, lw_acquire, on_done, hold, let_go, on_released, finish, next. Once
 * the world is healed, no actor starts anything.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_SPARE_MS 12000 /* by which a guard time is longer than any lease */
#define KEPT_ON 900          /* per mille: how often a keep stays that could be freed */

static void next(void *arg);

static bool chance(unsigned in_thousand)
{
    return rng_chance(&world.rng, in_thousand);
}

/* Returns a time around `middle`, seldom far above. */
static int64_t about(int64_t middle)
{
    int64_t us = rng_between(&world.rng, 0, middle * 2);

    return chance(20) && !world.healed ? us * 10 : us;
}

const char *load_name(unsigned name)
{
    static const char *const names[NAMES] = {"a", "job:{7}", "c", "d",
                                             "e", "f",       "g", "h"};
    static char keys[NAMES][40];
    /* In a cluster each of the first masters has one, and two names share a slot. */
    bool shares = world.plan.clustered && name == SINGLE_NAMES - 1;
    const char *prefix = load_prefix(), *given = shares ? "{c}d" : names[name];

    if (strchr(prefix, '{') != NULL) { /* then no name has a tag */
        given = name == 1 ? "job" : names[name];
    }
    (void)snprintf(keys[name], sizeof(keys[name]), "%s%s", prefix, given);
    return keys[name];
}

const char *load_given(const char *key)
{
    return key + strlen(load_prefix());
}

const char *load_prefix(void)
{
    const char *prefix = getenv("LOCKWIRE_TEST_PREFIX");

    return prefix != NULL ? prefix : "";
}

/* A call may only be made while its host runs. If it does not, `run` is scheduled
 * again. */
static bool postpone(const struct op *op, void (*run)(void *arg))
{
    if (host_can_run(op->host)) {
        return false;
    }
    agenda_add(op->host->stalled_until_us > world.now_us + MS ? op->host->stalled_until_us
                                                              : world.now_us + MS,
               run, (void *)op);
    return true;
}

/* ---- ending ---- */

static void again_later(struct op *op)
{
    agenda_add(world.now_us + about(world.plan.think_us), next, op);
}

static void enter(const struct op *op)
{
    world.current = op->host;
    op->host->in_call++;
}

static void leave(const struct op *op, struct host *before)
{
    op->host->in_call--;
    op->host->ready = true;
    world.current = before;
}

static void move_to_past(struct op *op)
{
    struct op **at = &world.ops;

    while (*at != op) {
        at = &(*at)->next;
    }
    *at = op->next;
    op->next = world.past;
    world.past = op;
}

static bool is_open(const struct op *op)
{
    return op->set != NULL ? op->set->all != NULL : op->lock != NULL;
}

static void finish_set(struct set *set)
{
    struct host *before = world.current;
    struct op *first = set->ops[0];
    struct lw_all *all = set->all;

    check_beliefs();
    trace("the set of op %u is freed", first->id);
    set->all = NULL;
    for (unsigned i = 0; i < set->count; i++) {
        set->ops[i]->lock = NULL;
        set->ops[i]->state = OP_OVER;
        move_to_past(set->ops[i]);
    }
    enter(first);
    lw_all_free(all);
    leave(first, before);
    again_later(first);
}

static void finish(struct op *op)
{
    struct host *before = world.current;
    struct lw_lock *lock = op->lock;
    struct lw_keep *keep = op->keep;

    if (op->set != NULL) {
        finish_set(op->set);
        return;
    }
    check_beliefs(); /* this may end a belief */
    trace("op %u is freed", op->id);
    op->renewed = op->renews; /* pending renewals get no callback */
    op->lock = NULL;
    op->keep = NULL;
    op->state = OP_OVER;
    move_to_past(op);
    enter(op);
    if (keep != NULL) {
        lw_keep_free(keep);
    } else {
        lw_lock_free(lock);
    }
    leave(op, before);
    again_later(op);
}

static void finish_late(void *arg)
{
    struct op *op = arg;

    if (is_open(op) && !postpone(op, finish_late)) {
        finish(op);
    }
}

/* From a callback: finishes the op here, or some time after. */
static void finish_somehow(struct op *op)
{
    op->state = OP_OVER;
    if (chance(world.plan.inside)) {
        finish(op);
    } else {
        agenda_add(world.now_us + about(MS), finish_late, op);
    }
}

void load_client_gone(struct host *host)
{
    struct op *op = world.ops;

    while (op != NULL) {
        if (op->host == host) {
            finish(op); /* and the other ops of the same set */
            op = world.ops;
        } else {
            op = op->next;
        }
    }
}

/* ---- holding ---- */

/* Makes the host spend some time, before anything else is called. */
static void dawdle(void)
{
    if (!world.healed && chance(world.plan.lengthy)) {
        host_take_time(rng_between(&world.rng, 1, world.plan.stall_us));
    }
}

/* Any call is legal inside any callback. Returns true if the client, and `op` with it,
 * has ended or will end. */
static bool is_fatal(const struct op *op)
{
    if (world.healed || op->host->closing || !chance(world.plan.fatal)) {
        return false;
    }
    faults_end_client(op->host);
    return true;
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct op *op = arg;

    trace("op %u is released: %s", op->id, lw_strerror(status));
    check_callback(op, "released", false);
    if (++op->released != 1 || !op->wants_release_call || lock != op->lock) {
        violation("op %u: a release callback too many", op->id);
    }
    if (status != LW_OK && status != LW_ENOTHELD && status != LW_EUNKNOWN &&
        status != LW_ECONN && status != LW_EREDIS &&
        (status != LW_STILLHELD || !*op->owner)) {
        violation("op %u: released with %d", op->id, status);
    }
    /* an operator's break, or a repeated message, may have released it instead */
    if (op->let_go && status == LW_ENOTHELD && !world.plan.twice &&
        !world.plan.every_us[FAULT_BREAK]) {
        violation("op %u: released, and told that it was not held", op->id);
    }
    /* if the lease expired before the reply came, the request may have reached the server
     * too late */
    if (world.plan.tame && status != LW_OK && status != LW_STILLHELD &&
        (status != LW_ENOTHELD || world.now_us <= op->deadline_us)) {
        violation("op %u: released with %s", op->id, lw_strerror(status));
    }
    dawdle();
    if (!is_fatal(op)) {
        finish_somehow(op);
    }
}

static void release(struct op *op)
{
    struct host *before = world.current;
    int status;

    check_beliefs(); /* this ends a belief */
    op->wants_release_call = chance(800);
    op->state = OP_RELEASING;
    op->release_us = world.now_us;
    op->deadline_us = world.now_us + lw_lock_remaining_ms(op->lock) * MS;
    trace("op %u: release", op->id);
    enter(op);
    status = lw_release(op->lock, op->wants_release_call ? on_released : NULL, op);
    leave(op, before);
    if (status != 0) {
        violation("op %u: lw_release: %s", op->id, lw_strerror(status));
    }
    if (lw_lock_remaining_ms(op->lock) != 0) {
        violation("op %u: released, and believes to hold", op->id);
    }
    if (!op->wants_release_call) {
        agenda_add(world.now_us + about(20 * MS), finish_late, op);
    }
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct op *op = arg;

    (void)lock;
    trace("op %u is renewed: %s", op->id, lw_strerror(status));
    check_callback(op, "renewed", status == LW_ELOST);
    if (++op->renewed > op->renews) {
        violation("op %u: a renewal's callback too many", op->id);
    }
    if (status == LW_OK && op->state != OP_HELD) {
        violation("op %u: renewed, but not held", op->id);
    }
}

static void renew(struct op *op)
{
    static const uint32_t leases[] = {0, 0, 300, 3000};
    uint32_t lease_ms = leases[rng_below(&world.rng, 4)];
    struct host *before = world.current;
    int status;

    if (op->options.margin_ms) {
        lease_ms = 0;
    }
    trace("op %u: renew to %u ms", op->id, (unsigned)lease_ms);
    op->renews++;
    enter(op);
    status = lw_renew(op->lock, lease_ms, on_renewed, op);
    leave(op, before);
    if (status != 0) {
        violation("op %u: lw_renew: %s", op->id, lw_strerror(status));
    }
}

/* ---- detaching ---- */

#define LEFTS 16 /* tokens of detached locks that may be adopted */

static struct left {
    unsigned name, uses;
    enum lw_mode mode;
    char owner[16], token[80];
} lefts[LEFTS];
static unsigned left_count;

/* Stores the token of a detached lock. Two ops may adopt it. */
static void leave_token(const struct op *op)
{
    struct left *left =
        &lefts[left_count < LEFTS ? left_count++ : rng_below(&world.rng, LEFTS)];

    *left = (struct left){.name = op->name, .mode = op->options.mode};
    memcpy(left->owner, op->owner, sizeof(left->owner));
    memcpy(left->token, op->token, sizeof(left->token));
}

static void on_detached(struct lw_lock *lock, int status, void *arg)
{
    struct op *op = arg;

    trace("op %u is detached: %s", op->id, lw_strerror(status));
    check_callback(op, "detached", false);
    if (++op->released != 1 || !op->wants_release_call || lock != op->lock) {
        violation("op %u: a detach's callback too many", op->id);
    }
    if (status != LW_OK && status != LW_ENOTHELD && status != LW_EUNKNOWN &&
        status != LW_ECONN && status != LW_EREDIS) {
        violation("op %u: detached with %d", op->id, status);
    }
    if (status == LW_OK && !op->detached && !op->let_go) {
        violation("op %u: detached, but no server has done so", op->id);
    }
    dawdle();
    if (!is_fatal(op)) {
        finish_somehow(op);
    }
}

/* The token is stored before the callback, so that adopters may be earlier. */
static void detach(struct op *op)
{
    int64_t keep_ms = chance(200) ? 0 : rng_between(&world.rng, 1, 5000);
    struct host *before = world.current;
    int status;

    if (world.plan.guard_ms && keep_ms > world.plan.guard_ms - GUARD_SPARE_MS) {
        keep_ms = world.plan.guard_ms - GUARD_SPARE_MS;
    }
    check_beliefs(); /* this ends a belief */
    op->wants_release_call = chance(800);
    op->state = OP_RELEASING;
    op->release_us = world.now_us;
    op->deadline_us = world.now_us + lw_lock_remaining_ms(op->lock) * MS;
    op->detaches = true;
    leave_token(op);
    trace("op %u: detach %s for %lld ms", op->id, op->token, (long long)keep_ms);
    enter(op);
    status =
        lw_detach(op->lock, keep_ms, op->wants_release_call ? on_detached : NULL, op);
    leave(op, before);
    if (status != 0) {
        violation("op %u: lw_detach: %s", op->id, lw_strerror(status));
    }
    if (lw_lock_remaining_ms(op->lock) != 0) {
        violation("op %u: detached, and believes to hold", op->id);
    }
    if (!op->wants_release_call) {
        agenda_add(world.now_us + about(20 * MS), finish_late, op);
    }
}

static bool may_detach(const struct op *op)
{
    return world.plan.detached && op->keep == NULL && op->set == NULL &&
           op->options.mode != LW_REDISSON && chance(world.plan.detached);
}

static void let_go(void *arg)
{
    struct op *op = arg;

    if (op->lock == NULL || op->state != OP_HELD || lw_lock_state(op->lock) != LW_HELD ||
        postpone(op, let_go)) {
        return;
    }
    if (chance(world.plan.extended)) {
        renew(op);
        agenda_add(world.now_us + about(world.plan.hold_us), let_go, op);
    } else if (op->keep != NULL && !world.healed && chance(KEPT_ON)) {
        agenda_add(world.now_us + about(1 * SECOND), let_go, op);
    } else if (may_detach(op)) {
        detach(op);
    } else if (op->keep != NULL || chance(world.plan.freed)) {
        finish(op);
    } else {
        release(op);
    }
}

bool load_lost(struct op *op, const struct lw_lock *lock, int status)
{
    trace("op %u is lost: %s", op->id, lw_strerror(status));
    world.lost++;
    check_callback(op, "lost", true);
    if (++op->lost != 1 || op->state != OP_HELD || lock != op->lock) {
        violation("op %u: lost in state %d", op->id, op->state);
    }
    check_lost(op, status);
    dawdle();
    return !is_fatal(op);
}

static void on_lost(struct lw_lock *lock, int status, void *arg)
{
    struct op *op = arg;

    if (!load_lost(op, lock, status)) {
        return;
    }
    if (lw_release(lock, NULL, NULL) != LW_ENOTHELD) {
        violation("op %u: lost, but it could be released", op->id);
    }
    finish_somehow(op);
}

/* Traces and checks the warning, and sometimes releases. */
static void on_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms, void *arg)
{
    struct op *op = arg;

    trace("op %u is %s, %lld ms", op->id, at_risk ? "at risk" : "safe",
          (long long)remaining_ms);
    check_callback(op, "at_risk", false);
    if (++op->warned % 2 != (unsigned)at_risk || lock != op->lock) {
        violation("op %u: told %d at risk as call %u", op->id, at_risk, op->warned);
    }
    check_risk(op, at_risk, remaining_ms);
    dawdle();
    if (!is_fatal(op) && at_risk && chance(world.plan.inside)) {
        let_go(op);
    }
}

/* ---- acquiring ---- */

/* Returns how long to hold. Some holds that are not renewed last until they are lost. */
static int64_t hold_us(const struct op *op)
{
    if ((op->options.flags & LW_NO_RENEW) && chance(200)) {
        return 2 * op->options.lease_ms * MS;
    }
    return about(world.plan.hold_us);
}

void load_done(struct op *op, const struct lw_lock *lock, int status)
{
    op->done++;
    op->fence = lw_lock_fence(lock);
    trace("op %u is done: %s, fence %llu, %lld ms", op->id, lw_strerror(status),
          (unsigned long long)op->fence, (long long)lw_lock_remaining_ms(lock));
    check_callback(op, "done", false);
    stray_review(op);
    op->of_split = world.now_us <= world.split_until_us || stray_is_void(op);
    op->of_lost = stray_is(op);
    check_done(op, status);
    if (status != LW_OK) {
        world.failed++;
        if (!is_fatal(op)) {
            finish_somehow(op);
        }
        return;
    }
    world.granted++;
    op->state = OP_HELD;
    op->left_ms = lw_lock_remaining_ms(lock);
    op->granted_us = world.now_us;
    (void)snprintf(op->token, sizeof(op->token), "%s", lw_lock_token(lock));
    dawdle();
    if (is_fatal(op)) {
        return;
    }
    if (chance(world.plan.inside)) {
        let_go(op);
    } else {
        agenda_add(world.now_us + hold_us(op), let_go, op);
    }
}

static void on_done(struct lw_lock *lock, int status, void *arg)
{
    load_done(arg, lock, status);
}

static void abandon(void *arg)
{
    struct op *op = arg;

    if (is_open(op) && op->state != OP_OVER && !postpone(op, abandon)) {
        finish(op);
    }
}

static void draw_mode(struct op *op)
{
    struct lw_acquire_options *options = &op->options;

    switch (world.plan.kinds[op->name]) {
    case KIND_MUTEX:
        return;
    case KIND_RW:
        options->mode = chance(400) ? LW_EXCLUSIVE : LW_SHARED;
        break;
    case KIND_SEMAPHORE:
        options->mode = LW_SHARED;
        options->permits = PERMITS;
        break;
    case KIND_REDISSON:
        options->mode = LW_REDISSON;
        return;
    }
    if (chance(world.plan.owned)) {
        (void)snprintf(op->owner, sizeof(op->owner), "o%d",
                       (int)rng_below(&world.rng, 4));
        options->owner = op->owner;
    }
}

static void draw_options(struct op *op)
{
    static const uint32_t leases[] = {100, 300, 1000, 3000, 10000};
    struct lw_acquire_options *options = &op->options;
    unsigned shortest = world.plan.lengthened ? 3 : world.plan.tame ? 1 : 0;
    unsigned count = world.plan.brief ? 2 : 5;

    *options = (struct lw_acquire_options)LW_ACQUIRE_OPTIONS_INIT;
    options->lease_ms = leases[rng_between(&world.rng, shortest, count - 1)];
    options->wait_ms = chance(500) ? -1 : rng_between(&world.rng, 1, 5000);
    if (world.plan.quiet) {
        options->wait_ms = -1;
        options->lease_ms = 10000;
    }
    if (world.plan.guard_ms && options->lease_ms > world.plan.guard_ms - GUARD_SPARE_MS) {
        options->lease_ms = world.plan.guard_ms - GUARD_SPARE_MS;
    }
    options->lost = on_lost;
    draw_mode(op);
    if (chance(world.plan.hasty)) {
        options->wait_ms = 0;
    }
    if (chance(world.plan.margin)) {
        options->margin_ms = (uint32_t)rng_below(&world.rng, options->lease_ms / 4);
    }
    if (chance(world.plan.capped)) {
        options->max_hold_ms = options->margin_ms + rng_between(&world.rng, 100, 5000);
    }
    if (chance(world.plan.unrenewed)) {
        options->flags |= LW_NO_RENEW;
    }
    if (chance(world.plan.unfenced)) {
        options->flags |= LW_NO_FENCE;
    }
    if (world.plan.detached && options->mode != LW_REDISSON &&
        chance(world.plan.detached)) {
        options->at_least_ms = (uint32_t)rng_between(
            &world.rng, 1,
            options->max_hold_ms > 0 && options->max_hold_ms < 2000 ? options->max_hold_ms
                                                                    : 2000);
    }
    /* without a draw of its own, so that the other choices stay */
    if (world.plan.detached && options->mode != LW_REDISSON &&
        options->lease_ms % 3 == 0) {
        options->note = "a note";
    }
    if (chance(500)) {
        options->at_risk = on_risk;
    }
    if (options->at_risk != NULL && chance(300)) {
        options->at_risk_ms = (uint32_t)rng_between(&world.rng, options->margin_ms + 1,
                                                    (options->lease_ms + 1) / 2 - 1);
    }
}

static struct op *op_new(struct host *host)
{
    struct op *op = must_alloc(sizeof(*op));

    op->id = ++world.op_count;
    op->host = host;
    op->name = (unsigned)rng_below(&world.rng, world.plan.names);
    op->life = host->life;
    op->begun_us = world.now_us;
    op->next = world.ops;
    world.ops = op;
    draw_options(op);
    return op;
}

/* ---- several names at once ---- */

#define SET_LEASE_MS 1000

static void on_set_released(struct lw_all *all, int status, void *arg)
{
    struct set *set = arg;
    struct op *first = set->ops[0];

    trace("the set of op %u is released: %s", first->id, lw_strerror(status));
    check_callback(first, "released", false);
    if (first->released || !first->wants_release_call || all != set->all) {
        violation("the set of op %u: a release callback too many", first->id);
    }
    for (unsigned i = 0; i < set->count; i++) {
        set->ops[i]->released = 1;
    }
    if (status != LW_OK && status != LW_ENOTHELD && status != LW_EUNKNOWN &&
        status != LW_ECONN && status != LW_EREDIS) {
        violation("the set of op %u: released with %d", first->id, status);
    }
    if (world.plan.tame && status != LW_OK &&
        (status != LW_ENOTHELD || world.now_us <= first->deadline_us)) {
        violation("the set of op %u: released with %s", first->id, lw_strerror(status));
    }
    dawdle();
    if (!is_fatal(first)) {
        finish_somehow(first);
    }
}

static void release_set(struct set *set)
{
    struct host *before = world.current;
    struct op *first = set->ops[0];
    bool wants = chance(800);
    int64_t left_us = lw_all_remaining_ms(set->all) * MS;
    int status;

    check_beliefs();
    for (unsigned i = 0; i < set->count; i++) {
        set->ops[i]->wants_release_call = wants;
        set->ops[i]->state = OP_RELEASING;
        set->ops[i]->release_us = world.now_us;
        set->ops[i]->deadline_us = world.now_us + left_us;
    }
    trace("the set of op %u: release", first->id);
    enter(first);
    status = lw_all_release(set->all, wants ? on_set_released : NULL, set);
    leave(first, before);
    if (status != 0) {
        violation("the set of op %u: lw_all_release: %s", first->id, lw_strerror(status));
    }
    for (unsigned i = 0; i < set->count; i++) {
        if (lw_lock_remaining_ms(set->ops[i]->lock) != 0) {
            violation("op %u: released, and believes to hold", set->ops[i]->id);
        }
    }
    if (!wants) {
        agenda_add(world.now_us + about(20 * MS), finish_late, first);
    }
}

static void let_go_of_set(void *arg)
{
    struct op *first = arg;

    if (!is_open(first) || first->state != OP_HELD ||
        lw_lock_state(first->lock) != LW_HELD || postpone(first, let_go_of_set)) {
        return;
    }
    if (chance(world.plan.freed)) {
        finish_set(first->set);
    } else {
        release_set(first->set);
    }
}

static void on_set_lost(struct lw_all *all, int status, void *arg)
{
    struct set *set = arg;
    struct op *first = set->ops[0];
    unsigned lost = 0;

    trace("the set of op %u is lost: %s", first->id, lw_strerror(status));
    world.lost++;
    check_callback(first, "lost", true);
    if (set->lost_us || first->state != OP_HELD || all != set->all) {
        violation("the set of op %u: lost in state %d", first->id, first->state);
    }
    set->lost_us = world.now_us;
    for (unsigned i = 0; i < set->count; i++) {
        set->ops[i]->state = OP_OVER;
        lost += lw_lock_state(set->ops[i]->lock) == LW_LOST;
    }
    if (lost == 0) {
        violation("the set of op %u: lost, and none of its names is", first->id);
    }
    check_lost(first, status);
    if (lw_all_release(all, NULL, NULL) != LW_ENOTHELD) {
        violation("the set of op %u: lost, but it could be released", first->id);
    }
    dawdle();
    if (is_fatal(first)) {
        return;
    }
    if (chance(500)) {
        finish_somehow(first);
    } else {
        agenda_add(world.now_us + about(1 * SECOND), finish_late, first);
    }
}

static void note_member(struct op *op, struct lw_lock *lock)
{
    op->lock = lock;
    op->fence = lw_lock_fence(lock);
    trace("op %u is done, fence %llu, %lld ms", op->id, (unsigned long long)op->fence,
          (long long)lw_lock_remaining_ms(lock));
    stray_review(op);
    op->of_split = world.now_us <= world.split_until_us || stray_is_void(op);
    op->of_lost = stray_is(op);
    op->state = OP_HELD;
    op->left_ms = lw_lock_remaining_ms(lock);
    op->granted_us = world.now_us;
    (void)snprintf(op->token, sizeof(op->token), "%s", lw_lock_token(lock));
    op->renews = op->renewed = 1; /* its lease began before the set was held */
}

static void on_set_done(struct lw_all *all, int status, void *arg)
{
    struct set *set = arg;
    struct op *first = set->ops[0];

    trace("the set of op %u is done: %s", first->id, lw_strerror(status));
    check_callback(first, "done", false);
    if (++set->done != 1 || all != set->all) {
        violation("the set of op %u: done %u times", first->id, set->done);
    }
    for (unsigned i = 0; i < set->count; i++) {
        set->ops[i]->done = 1;
        set->ops[i]->state = OP_OVER;
        if (status == LW_OK) {
            note_member(set->ops[i], lw_all_lock(all, i));
        }
    }
    for (unsigned i = 0; i < set->count; i++) {
        check_done(set->ops[i], status);
    }
    if (status != LW_OK) {
        world.failed++;
        if (!is_fatal(first)) {
            finish_somehow(first);
        }
        return;
    }
    world.granted++;
    dawdle();
    if (is_fatal(first)) {
        return;
    }
    if (chance(world.plan.inside)) {
        let_go_of_set(first);
    } else {
        agenda_add(world.now_us + hold_us(first), let_go_of_set, first);
    }
}

/* Returns the set whose first name is `first`'s; the other names are drawn here. */
static struct set *set_new(struct op *first)
{
    struct set *set = must_alloc(sizeof(*set));
    unsigned names[NAMES], left = world.plan.names;

    for (unsigned i = 0; i < left; i++) {
        names[i] = i;
    }
    first->options.lost = NULL;
    first->options.at_risk = NULL;
    first->options.at_risk_ms = 0;
    set->count = (unsigned)rng_between(&world.rng, 2, world.plan.names);
    /* A round trip for each name: without renewals a shorter lease may never do. */
    if ((first->options.flags & LW_NO_RENEW) && first->options.lease_ms < SET_LEASE_MS) {
        first->options.lease_ms = SET_LEASE_MS;
    }
    for (unsigned i = 0; i < set->count; i++) {
        struct op *op = i == 0 ? first : must_alloc(sizeof(*op));
        unsigned at = (unsigned)rng_below(&world.rng, left);

        if (op != first) {
            *op = *first;
            op->id = ++world.op_count;
            op->next = world.ops;
            world.ops = op;
        }
        op->name = names[at];
        names[at] = names[--left];
        op->set = set;
        op->index = i;
        set->ops[i] = op;
        trace("op %u: name %u of the set of op %u: %s", op->id, i, first->id,
              load_name(op->name));
    }
    return set;
}

static int begin_set(struct op *first)
{
    struct set *set = set_new(first);
    const char *names[NAMES];

    for (unsigned i = 0; i < set->count; i++) {
        names[i] = load_given(load_name(set->ops[i]->name));
    }
    return lw_acquire_all(first->host->client, names, set->count, &first->options,
                          on_set_done, on_set_lost, set, &set->all);
}

/* ---- the actors ---- */

/* The adopter has the mode and the owner of the hold that it takes over. */
static int adopt(struct op *op)
{
    unsigned at = (unsigned)rng_below(&world.rng, left_count);
    struct left left = lefts[at];

    if (++lefts[at].uses == 2) {
        lefts[at] = lefts[--left_count];
    }
    op->adopted = true;
    op->name = left.name;
    op->options.mode = left.mode;
    op->options.owner = chance(500) && *left.owner ? op->owner : NULL;
    op->options.permits = world.plan.kinds[left.name] == KIND_SEMAPHORE ? PERMITS : 0;
    memcpy(op->owner, left.owner, sizeof(op->owner));
    trace("op %u: h%d adopts %s of %s in mode %d, lease %u, wait %lld", op->id,
          op->host->id, left.token, load_name(op->name), op->options.mode,
          (unsigned)op->options.lease_ms, (long long)op->options.wait_ms);
    return lw_adopt(op->host->client, load_given(load_name(op->name)), left.token,
                    &op->options, on_done, op, &op->lock);
}

static void begin_adoption(struct host *host)
{
    struct host *before = world.current;
    struct op *op;
    int status;

    check_beliefs();
    op = op_new(host);
    enter(op);
    status = adopt(op);
    leave(op, before);
    if (status != 0) {
        violation("op %u: lw_adopt: %s", op->id, lw_strerror(status));
    }
    if (op->done) {
        violation("op %u: done inside lw_adopt", op->id);
    }
    if (chance(world.plan.abandoned)) {
        agenda_add(world.now_us + about(world.plan.hold_us), abandon, op);
    }
}

static void acquire(struct host *host)
{
    struct host *before = world.current;
    struct op *op;
    bool keeps, several;
    int status;

    if (left_count > 0 && chance(500)) {
        begin_adoption(host);
        return;
    }
    check_beliefs(); /* about the time before the acquisition */
    op = op_new(host);
    keeps = keeping_draw(&op->options);
    if (op->options.max_hold_ms > 0 &&
        op->options.at_least_ms > op->options.max_hold_ms) {
        op->options.at_least_ms = (uint32_t)op->options.max_hold_ms;
    }
    several = world.plan.sets && chance(world.plan.sets);
    if (!keeps && !several && op->options.mode != LW_REDISSON && world.plan.limited &&
        chance(world.plan.limited)) {
        op->options.max_waiting = (uint32_t)rng_between(&world.rng, 1, 4);
    }
    trace("op %u: h%d %s %s in mode %d for %s, lease %u, wait %lld behind %u, margin %u, "
          "cap %lld%s%s",
          op->id, host->id, keeps ? "keeps" : "acquires",
          several ? "a set" : load_name(op->name), op->options.mode,
          *op->owner ? op->owner : "itself", (unsigned)op->options.lease_ms,
          (long long)op->options.wait_ms, (unsigned)op->options.max_waiting,
          (unsigned)op->options.margin_ms, (long long)op->options.max_hold_ms,
          op->options.flags & LW_NO_RENEW ? ", no renewal" : "",
          op->options.flags & LW_NO_FENCE ? ", no fence" : "");
    enter(op);
    status = several ? begin_set(op)
             : keeps ? keeping_begin(op)
                     : lw_acquire(host->client, load_given(load_name(op->name)),
                                  &op->options, on_done, op, &op->lock);
    leave(op, before);
    if (status != 0) {
        violation("op %u: lw_acquire: %s", op->id, lw_strerror(status));
    }
    if (op->done) {
        violation("op %u: done inside lw_acquire", op->id);
    }
    if (chance(world.plan.abandoned)) {
        agenda_add(world.now_us + about(world.plan.hold_us), abandon, op);
    }
}

static void next(void *arg)
{
    struct op *last = arg;

    if (world.healed || world.op_count >= world.plan.ops || postpone(last, next)) {
        return;
    }
    if (last->host->client != NULL && !last->host->closing) {
        acquire(last->host);
    } else {
        again_later(last);
    }
}

void load_begin(void)
{
    left_count = 0;
    for (unsigned i = 0; i < world.plan.hosts * world.plan.actors; i++) {
        struct op *op = must_alloc(sizeof(*op)); /* an op that has already ended */

        op->host = &world.hosts[i / world.plan.actors];
        op->state = OP_OVER;
        op->next = world.past;
        world.past = op;
        again_later(op);
    }
}

bool load_is_over(void)
{
    return world.ops == NULL;
}

void load_end(void)
{
    while (world.past != NULL) {
        struct op *op = world.past;

        world.past = op->next;
        if (op->set != NULL && op->index == 0) {
            free(op->set);
        }
        free(op);
    }
}
