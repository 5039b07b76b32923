/* SPDX-License-Identifier: MIT */
/* Renewals of held claims, in batches. Independent of what a reply means for the lock:
 * machine.c decides that.
 *
 * A heap has the held claims by the time of their next renewal, with one timer for all.
 * lw__renewal_plan sets that time after each grant and renewal: a third of the lease
 * later, minus a random share, so that renewals spread. The timer sends a script for up
 * to 32 keys of one slot; its reply gives the machine RENEWED, or LOST_ON_SERVER. A batch
 * that fails is retried soon, well before the deadlines. While a node is down nothing is
 * sent to it, since all its holds are verified when it comes up. If memory for a batch is
 * short, the timer fires again soon. While a slot is migrating each of its claims is
 * renewed alone. */
#include "hold/hold.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "base/heap.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <syslog.h>

#define BATCH 32
#define RETRY_US (50 * LW__MS)
/* After a full batch, claims that are nearly due follow at once, up to this many batches:
 * waking up costs both sides more than a batch. */
#define BATCHES_AT_ONCE 4

struct lw__batch {
    struct lw__command command;
    struct lw__batch *next;  /* of the free ones */
    struct lw__batch *older; /* of all, in flight or free */
    struct lw__holds *holds;
    unsigned count;
    /* The last claim's; one script renews all its claims. */
    const struct lw__mode *mode;
    struct lw__node *node;
    unsigned slot;
    struct lw__claim *claims[BATCH]; /* NULL: no longer held */
    uint32_t lease_ms[BATCH];
};

/* ---- when a claim is due ---- */

static struct lw__claim *claim_of(struct lw__heap_node *node)
{
    return LW__CONTAINER_OF(struct lw__claim, renewal, node);
}

static void arm_timer(struct lw__holds *holds)
{
    const struct lw__heap_entry *first = lw__heap_first(&holds->renewals.due);

    if (first == NULL) {
        lw__timer_cancel(holds->loop, &holds->renewals.timer);
    } else if (first->key < lw__timer_due_us(holds->loop, &holds->renewals.timer)) {
        lw__timer_set(holds->loop, &holds->renewals.timer, first->key);
    }
}

/* A claim whose renewal is in flight is planned when that has its reply. */
static void plan_at(struct lw__claim *claim, int64_t due_us)
{
    if (claim->held.batch != NULL) {
        return;
    }
    lw__heap_set(&claim->holds->renewals.due, &claim->renewal, due_us);
    arm_timer(claim->holds);
}

const char lw__renewal_not_extended[] =
    "the server was promoted, and the lease may end before the old master stops granting "
    "locks";

bool lw__renewal_may_extend(const struct lw__claim *claim)
{
    return lw__node_guard_may_extend(claim->name->node, claim->machine.deadline_us);
}

static bool needs_renewal(const struct lw__claim *claim, const struct lw__terms *terms)
{
    if (!lw__renewal_may_extend(claim)) {
        return false;
    }
    return claim->machine.phase == LW__HELD_BY_MESSAGE || terms->lease_short ||
           terms->renews;
}

static bool is_covered(const struct lw__claim *claim, const struct lw__terms *terms)
{
    return lw__machine_covers(claim->machine.deadline_us, terms->lease_us,
                              terms->hold_until_us);
}

/* Returns `at`, but at the latest the middle between now and the time at which the
 * margin begins, so that the reply arrives before that. */
static int64_t early_enough(const struct lw__claim *claim, int64_t margin_us, int64_t at)
{
    int64_t now = lw__loop_now_us(claim->holds->loop);
    int64_t latest = now + (claim->machine.deadline_us - margin_us - now) / 2;

    return at < latest ? at : latest;
}

static void explain_no_renewal(struct lw__claim *claim)
{
    if (lw__machine_holds(claim->machine.phase) && !lw__renewal_may_extend(claim)) {
        claim->holds->events->not_extended(claim, lw__renewal_not_extended);
    }
}

void lw__renewal_plan(struct lw__claim *claim)
{
    struct lw__holds *holds = claim->holds;
    struct lw__terms terms;
    int64_t at;

    if (claim->extras->votes != NULL) { /* each is renewed by its own client */
        holds->votes->match(claim);
        return;
    }
    if (claim->verify && lw__machine_holds(claim->machine.phase)) {
        lw__renewal_now(claim);
        return;
    }
    terms = lw__claim_terms(claim);
    if (!lw__machine_holds(claim->machine.phase) || !needs_renewal(claim, &terms) ||
        is_covered(claim, &terms)) {
        lw__heap_remove(&holds->renewals.due, &claim->renewal);
        explain_no_renewal(claim);
        return;
    }
    if (claim->machine.phase == LW__HELD_BY_MESSAGE) {
        at = claim->machine.due_us;
    } else if (terms.lease_short) {
        at = lw__now_us();
    } else {
        at = claim->machine.deadline_us - terms.lease_us + terms.lease_us / 3 -
             lw__random_between(&holds->random, 0, terms.lease_us / 20);
    }
    plan_at(claim, early_enough(claim, terms.margin_us, at));
}

void lw__renewal_now(struct lw__claim *claim)
{
    if (claim->extras->votes == NULL) {
        plan_at(claim, lw__now_us());
    } else if (!claim->holds->votes->renew(
                   claim, (uint32_t)(lw__claim_terms(claim).lease_us / LW__MS))) {
        claim->holds->events->renewed(claim, false);
    }
}

void lw__renewal_verify(struct lw__claim *claim)
{
    claim->verify = true;
    if (lw__machine_holds(claim->machine.phase)) {
        lw__renewal_now(claim);
    }
}

void lw__renewal_forget(struct lw__claim *claim)
{
    lw__heap_remove(&claim->holds->renewals.due, &claim->renewal);
    if (lw__machine_asks(claim->machine.phase) || claim->held.batch == NULL) {
        return;
    }
    for (unsigned i = 0; i < claim->held.batch->count; i++) {
        if (claim->held.batch->claims[i] == claim) {
            claim->held.batch->claims[i] = NULL;
        }
    }
    claim->held.batch = NULL;
}

/* ---- a batch ---- */

static struct lw__batch *batch_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__batch, command, command);
}

/* Returns the lease to request, in ms, so that the deadline never exceeds max_hold_ms.
 * Returns 1 to extend nothing, and only verify that the lock is still ours. */
static uint32_t lease_to_request_ms(const struct lw__claim *claim, int64_t now_us)
{
    struct lw__terms terms = lw__claim_terms(claim);
    int64_t lease = terms.lease_us;

    if (!needs_renewal(claim, &terms)) {
        return 1;
    }
    if (terms.hold_until_us != LW__NEVER && terms.hold_until_us - now_us < lease) {
        lease = terms.hold_until_us - now_us;
    }
    return lease < LW__MS ? 1 : (uint32_t)(lease / LW__MS);
}

static void encode_batch(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__batch *batch = batch_of(command);
    struct lw__renew_args args[BATCH];
    struct lw__script_env env =
        lw__node_script_env(lw__node_of_command(command), batch->slot);
    unsigned count = 0;
    int64_t now = lw__now_us();

    for (unsigned i = 0; i < batch->count; i++) {
        struct lw__claim *claim = batch->claims[i];

        if (claim == NULL) {
            continue;
        }
        claim->verify = false;
        batch->claims[count] = claim;
        batch->lease_ms[count] = lease_to_request_ms(claim, now);
        args[count] = (struct lw__renew_args){
            .name = claim->name->text,
            .token = lw__claim_token(claim),
            .lease_ms = batch->lease_ms[count],
        };
        count++;
    }
    batch->count = count;
    if (batch->mode->rw && command->request.one_key && count == 1) {
        lw__encode_rw_keepalive(out, lw__command_evals(command), args);
        return;
    }
    batch->mode->encode_renew(out, lw__command_evals(command), count, args, &env);
}

static void free_batch(struct lw__batch *batch)
{
    batch->next = batch->holds->renewals.free;
    batch->holds->renewals.free = batch;
}

static void retry_soon(struct lw__claim *claim)
{
    int64_t delay = lw__claim_terms(claim).lease_us / 20;

    if (lw__machine_holds(claim->machine.phase)) {
        delay = delay < RETRY_US || claim->verify ? RETRY_US : delay;
        plan_at(claim, lw__now_us() + delay);
    }
    claim->holds->events->renewed(claim, false);
}

static void batch_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__batch *batch = batch_of(command);

    (void)why;
    (void)sent;
    for (unsigned i = 0; i < batch->count; i++) {
        struct lw__claim *claim = batch->claims[i];

        if (claim == NULL) {
            continue;
        }
        claim->held.batch = NULL;
        retry_soon(claim);
    }
    free_batch(batch);
}

void lw__renewal_answered(struct lw__claim *claim, bool renewed, int64_t sent_us,
                          uint32_t lease_ms)
{
    struct lw__holds *holds = claim->holds;
    struct lw__input input = {.event = LW__EV_LOST_ON_SERVER, .sent_us = sent_us};

    if (renewed) {
        holds->stats->renewed++;
        input.event = LW__EV_RENEWED;
        input.renewed.lease_us = (int64_t)lease_ms * LW__MS;
        input.renewed.wanted_us = lw__claim_terms(claim).lease_us;
    }
    lw__claim_step(claim, &input);
    if (renewed) {
        lw__description_send(claim);
        holds->events->renewed(claim, true);
    }
}

static void claim_answered(struct lw__batch *batch, unsigned i, bool renewed)
{
    struct lw__claim *claim = batch->claims[i];
    int64_t sent_us = batch->command.request.sent_us;

    if (claim == NULL) {
        return;
    }
    claim->held.batch = NULL;
    (void)lw__name_note_renewal(claim->name, NULL);
    lw__renewal_answered(claim, renewed, sent_us, batch->lease_ms[i]);
}

static void report_error(struct lw__batch *batch, const char *error)
{
    char text[LW_WHY_SIZE];

    (void)lw__explain(error, text);
    lw__log_cause(
        batch->holds->log, lw__now_us(), LOG_WARNING,
        "the server refused to renew held locks; retrying until their leases expire: %s",
        text);
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->claims[i] != NULL) {
            batch->holds->events->on_error(batch->claims[i], lw__classify_status(error),
                                           text);
        }
    }
}

/* Renews each claim alone, at once, if the error says that the slot is migrating: then
 * the server executes only commands of one key. Returns false for any other error. */
static bool split_batch(struct lw__batch *batch, const char *error)
{
    if (batch->command.request.one_key || !lw__classify_moving(error)) {
        return false;
    }
    for (unsigned i = 0; i < batch->count; i++) {
        struct lw__claim *claim = batch->claims[i];

        if (claim == NULL) {
            continue;
        }
        claim->held.batch = NULL;
        (void)lw__name_note_renewal(claim->name, error);
        if (lw__machine_holds(claim->machine.phase)) {
            lw__renewal_now(claim);
        }
    }
    free_batch(batch);
    return true;
}

static void batch_refused(struct lw__command *command, const char *error)
{
    if (!split_batch(batch_of(command), error)) {
        report_error(batch_of(command), error);
        batch_failed(command, "", true);
    }
}

static bool batch_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__batch *batch = batch_of(command);
    bool renewed[BATCH];

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        batch_refused(command, lw__reply_text(reply, NULL));
        return true;
    }
    if (!lw__decode_renewed(reply, batch->count, renewed)) {
        return false;
    }
    for (unsigned i = 0; i < batch->count; i++) {
        claim_answered(batch, i, renewed[i]);
    }
    free_batch(batch);
    return true;
}

static const struct lw__command_type batch_type = {encode_batch, batch_answered,
                                                   .failed = batch_failed};

/* Returns true if the batch can go by a command of one key. For a read-write lock that
 * command does not serve the queue, so that it is used only while the slot is migrating.
 */
static bool has_one_key(const struct lw__batch *batch)
{
    return batch->count == 1 &&
           (!batch->mode->rw || batch->claims[0]->name->slot_migrating);
}

/* ---- sending what is due ---- */

/* Returns NULL if memory is short. */
static struct lw__batch *get_batch(struct lw__holds *holds)
{
    struct lw__batch *batch = holds->renewals.free;

    if (batch != NULL) {
        holds->renewals.free = batch->next;
    } else {
        batch = malloc(sizeof(*batch));
        if (batch == NULL) {
            return NULL;
        }
        batch->older = holds->renewals.all;
        holds->renewals.all = batch;
    }
    *batch = (struct lw__batch){.holds = holds, .older = batch->older};
    return batch;
}

/* Returns the first claim to renew, or NULL. Drops the claims of a node that is down: all
 * its holds are verified when it comes up. */
static const struct lw__heap_entry *next_due(struct lw__holds *holds)
{
    const struct lw__heap_entry *first;

    while ((first = lw__heap_first(&holds->renewals.due)) != NULL &&
           !lw__node_is_up(claim_of(first->node)->name->node)) {
        lw__heap_remove(&holds->renewals.due, first->node);
    }
    return first;
}

/* Returns true also for a claim that is due up to 1/60 of its lease later, so that
 * batches fill. */
static bool is_nearly_due(const struct lw__heap_entry *entry, int64_t now_us)
{
    return entry->key - lw__claim_terms(claim_of(entry->node)).lease_us / 60 <= now_us;
}

static bool fits(const struct lw__batch *batch, const struct lw__claim *claim)
{
    return batch->mode->encode_renew == claim->mode->encode_renew &&
           batch->node == claim->name->node && batch->slot == claim->name->slot &&
           !claim->name->slot_migrating && !batch->claims[0]->name->slot_migrating;
}

static void fill_batch(struct lw__batch *batch, int64_t now_us)
{
    struct lw__holds *holds = batch->holds;
    const struct lw__heap_entry *first;

    while (batch->count < BATCH && (first = next_due(holds)) != NULL) {
        struct lw__claim *claim = claim_of(first->node);

        if (batch->count > 0 && !fits(batch, claim)) {
            break;
        }
        if (!is_nearly_due(first, now_us)) {
            break;
        }
        if (now_us > first->key + lw__claim_terms(claim).lease_us / 10) {
            holds->stats->renewals_late++;
        }
        lw__heap_remove(&holds->renewals.due, &claim->renewal);
        batch->mode = claim->mode;
        batch->node = claim->name->node;
        batch->slot = claim->name->slot;
        claim->held.batch = batch;
        batch->claims[batch->count++] = claim;
    }
}

static void send_due(void *arg)
{
    struct lw__holds *holds = arg;
    int64_t now = lw__now_us();
    const struct lw__heap_entry *first;
    unsigned full_batches = 0;

    while ((first = next_due(holds)) != NULL &&
           (first->key <= now || (full_batches > 0 && full_batches < BATCHES_AT_ONCE &&
                                  is_nearly_due(first, now)))) {
        struct lw__batch *batch = get_batch(holds);

        if (batch == NULL) {
            lw__timer_set(holds->loop, &holds->renewals.timer, now + RETRY_US);
            return;
        }
        fill_batch(batch, now);
        full_batches = batch->count == BATCH ? full_batches + 1 : BATCHES_AT_ONCE;
        if (!lw__node_send(batch->node, &batch->command, &batch_type, LW__PRIORITY_RENEW,
                           has_one_key(batch))) {
            batch_failed(&batch->command, "", false);
        }
    }
    arm_timer(holds);
}

void lw__renewal_init(struct lw__holds *holds)
{
    lw__timer_init(&holds->renewals.timer, send_due, holds);
}

void lw__renewal_clear(struct lw__holds *holds)
{
    while (holds->renewals.all != NULL) {
        struct lw__batch *batch = holds->renewals.all;

        holds->renewals.all = batch->older;
        free(batch);
    }
    lw__heap_clear(&holds->renewals.due);
}
