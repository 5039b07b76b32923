/* SPDX-License-Identifier: MIT
 *
 * Keeps: an acquisition that is followed by others. For the checks each of them is an op
 * of its own, so that its fence, its belief and its waiting time are judged like any
 * other. This file knows which acquisition a keep is at, and checks that gains and losses
 * alternate.
 *
 * Usual course: keeping_draw(), keeping_begin(), on_gained(), on_lost(). Then
 * keeping_review() finds that the keep acquires again, and moves the old acquisition to
 * the past.
 */
#include "world.h"

#include "lock/lock_private.h"

#include <string.h>

/* Continues the op as the next acquisition, and puts a copy of it as it was into the
 * past. */
static void turn_over(struct op *op, int64_t begun_us)
{
    struct op *was = must_alloc(sizeof(*was));

    *was = *op;
    *op = (struct op){.next = op->next,
                      .id = ++world.op_count,
                      .name = was->name,
                      .host = was->host,
                      .life = was->life,
                      .lock = lw_keep_lock(was->keep),
                      .keep = was->keep,
                      .options = was->options,
                      .begun_us = begun_us};
    was->lock = NULL;
    was->keep = NULL;
    was->next = world.past;
    world.past = was;
    memcpy(op->owner, was->owner, sizeof(op->owner));
    trace("op %u follows op %u", op->id, was->id);
}

static void review(struct op *op)
{
    const struct lw_lock *lock = lw_keep_lock(op->keep);

    if (lock == op->lock) {
        return;
    }
    if (op->state == OP_OVER && lw_lock_state(lock) == LW_WAITING) {
        turn_over(op, lock->asking.asked_us);
    }
    op->lock = lw_keep_lock(op->keep);
}

void keeping_review(void)
{
    for (struct op *op = world.ops; op != NULL; op = op->next) {
        if (op->keep != NULL) {
            review(op);
        }
    }
}

static void check_open(const struct op *op, const char *what)
{
    if (op->host->closing) {
        violation("op %u: %s, though its client closes", op->id, what);
    }
}

static void on_gained(struct lw_keep *keep, int status, void *arg)
{
    struct op *op = arg;

    check_open(op, "gained");
    if (op->state == OP_OVER) { /* lost and gained in one turn of the loop */
        turn_over(op, op->release_us);
    }
    op->lock = lw_keep_lock(keep);
    if (op->keep != keep || op->state != OP_WAITING || status != LW_OK) {
        violation("op %u: gained in state %d, with %d", op->id, op->state, status);
    }
    load_done(op, op->lock, status);
}

static void on_lost(struct lw_keep *keep, int status, void *arg)
{
    struct op *op = arg;

    check_open(op, "lost");
    op->release_us = world.now_us;
    if (load_lost(op, lw_keep_lock(keep), status)) {
        op->state = OP_OVER;
    }
}

bool keeping_draw(struct lw_acquire_options *options)
{
    if (!world.plan.kept || !rng_chance(&world.rng, world.plan.kept)) {
        return false;
    }
    options->wait_ms = -1;
    options->lost = NULL;
    if (rng_chance(&world.rng, 600)) {
        options->max_hold_ms = options->margin_ms + rng_between(&world.rng, 10, 1000);
    }
    return true;
}

int keeping_begin(struct op *op)
{
    int status = lw_keep_new(op->host->client, load_given(load_name(op->name)),
                             &op->options, on_gained, on_lost, op, &op->keep);

    if (status == LW_OK) {
        op->lock = lw_keep_lock(op->keep);
    }
    return status;
}
