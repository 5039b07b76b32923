/* SPDX-License-Identifier: MIT */
/* A claim: one token in Redis. This file feeds the claim's machine with replies, messages
 * and due times, and executes the machine's actions: it sends commands, and reports
 * events (struct lw__claim_events). It is independent of how handles share a claim
 * (turns.c). machine.c decides when the lock is held and what is sent, release.c which
 * form a release has.
 *
 * Usual course: START sends a try; its two replies grant, and `granted` is called.
 * RELEASE sends a release; its reply calls `released` and `ended`. A command is encoded
 * when it is sent, by what the waiters need then. A hand-over message goes to the claim
 * with its token (claim_message.c).
 *
 * Failures: without a link or a reply, or after a temporary error, the outcome is
 * unknown, and the machine decides what follows. A permanent error is REFUSED. A reply
 * that no script of ours can have sent is rejected (node_send.c). Without memory there is
 * no claim, and nothing is requested; the steps of a claim need none. */
#include "hold/hold.h"

#include "base/asserts.h"
#include "base/buffer.h"
#include "base/escape.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

/* A claim lingers for LINGER_ROUNDS rounds of LINGER_TIMEOUTS request time-outs. In one
 * round a subscription that has become silent is found and ended, with all messages that
 * it still had. The second round is for a process that was stopped during the first. */
#define LINGER_TIMEOUTS 2
#define LINGER_ROUNDS 2
#define SENDS ((unsigned)(LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE))

/* ---- creation ---- */

static void timer_due(void *arg)
{
    struct lw__claim *claim = arg;

    if (claim->machine.phase == LW__ENDED) {
        claim->holds->events->ended(claim);
    } else {
        lw__claim_event(claim, LW__EV_DUE);
    }
}

const struct lw__claim_extras lw__claim_no_extras;

/* Frees the claim, or keeps it for reuse with the room for its timer and its renewal. */
static void dispose(struct lw__holds *holds, struct lw__claim *claim)
{
    if (holds->free_claim_count == LW__POOLED) {
        lw__timer_unreserve(holds->loop, 1);
        lw__heap_unreserve(&holds->renewals.due, 1);
        free(claim);
        return;
    }
    holds->free_claim_count++;
    claim->next = holds->free_claims;
    holds->free_claims = claim;
}

/* Returns NULL if memory is short. */
static struct lw__claim *allocate(struct lw__holds *holds)
{
    struct lw__claim *claim = holds->free_claims;

    if (claim != NULL) {
        holds->free_claims = claim->next;
        holds->free_claim_count--;
        return claim;
    }
    if (lw__timer_reserve(holds->loop, 1) != 0) {
        return NULL;
    }
    if (lw__heap_reserve(&holds->renewals.due, 1) != 0) {
        lw__timer_unreserve(holds->loop, 1);
        return NULL;
    }
    claim = malloc(holds->claim_size);
    if (claim == NULL) {
        lw__timer_unreserve(holds->loop, 1);
        lw__heap_unreserve(&holds->renewals.due, 1);
    }
    return claim;
}

/* `lease_ms` is the machine's first lease. */
static struct lw__claim *make(struct lw__holds *holds, struct lw__name *name,
                              const struct lw__mode *mode, uint64_t n, uint32_t window_ms,
                              uint32_t lease_ms)
{
    struct lw__claim *claim = allocate(holds);

    if (claim == NULL) {
        return NULL;
    }
    memset(claim, 0, holds->claim_size);
    claim->holds = holds;
    claim->name = name;
    claim->mode = mode;
    claim->extras = &lw__claim_no_extras;
    claim->n = n;
    claim->window_ms = (uint16_t)window_ms;
    lw__machine_init(&claim->machine, (int64_t)window_ms * LW__MS,
                     (int64_t)lease_ms * LW__MS);
    lw__timer_init(&claim->timer, timer_due, claim);
    lw__name_ref(name);
    DL_APPEND(name->claims, claim);
    holds->open_claims++;
    return claim;
}

static bool needs_extras(const struct lw__holds *holds, const struct lw__claim_args *args)
{
    return holds->votes != NULL || args->adopts != NULL || args->note != NULL ||
           (args->mode->rw && (args->owner != NULL || args->permits > 0));
}

/* Copies the text, if there is one; false if memory is short. */
static bool copy(const char *text, char **ret)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text == NULL || *ret != NULL;
}

/* Gives the claim extras of its own; false if memory is short. */
static bool add_extras(struct lw__claim *claim, const struct lw__claim_args *args)
{
    const struct lw__vote_ops *votes = claim->holds->votes;
    struct lw__claim_extras *extras = calloc(1, sizeof(*extras));

    if (extras == NULL) {
        return false;
    }
    claim->extras = extras;
    extras->permits = args->permits;
    if (args->note != NULL || args->adopts != NULL) {
        extras->description = lw__description_new(claim, args->note);
        if (extras->description == NULL) {
            return false;
        }
    }
    return copy(args->mode->rw ? args->owner : NULL, &extras->owner) &&
           copy(args->adopts, &extras->adopts) && (votes == NULL || votes->make(claim));
}

struct lw__claim *lw__claim_new(struct lw__holds *holds,
                                const struct lw__claim_args *args)
{
    struct lw__claim *claim = make(holds, args->name, args->mode, ++holds->next_n,
                                   args->window_ms, args->lease_ms);

    if (claim != NULL && needs_extras(holds, args) && !add_extras(claim, args)) {
        lw__claim_free(claim);
        return NULL;
    }
    return claim;
}

struct lw__claim *lw__claim_new_unknown(struct lw__holds *holds, struct lw__name *name,
                                        const struct lw__mode *mode,
                                        const struct lw__token *token)
{
    return make(holds, name, mode, token->n, token->window_ms, token->window_ms);
}

static void free_extras(struct lw__claim *claim)
{
    struct lw__claim_extras *extras = lw__claim_own_extras(claim);

    if (extras != &lw__claim_no_extras) {
        free(extras->owner);
        free(extras->adopts);
        lw__description_free(extras->description);
        free(extras);
    }
}

void lw__claim_free(struct lw__claim *claim)
{
    struct lw__holds *holds = claim->holds;

    if (claim->extras->votes != NULL) {
        holds->votes->free(claim);
    }
    lw__node_forget(&claim->command);
    lw__timer_cancel(holds->loop, &claim->timer);
    if (claim->linger_rounds > 0) {
        DL_DELETE(holds->lingering, claim);
    } else {
        DL_DELETE(claim->name->claims, claim);
    }
    lw__name_unref(holds, claim->name);
    free_extras(claim);
    holds->open_claims--;
    dispose(holds, claim);
}

bool lw__claim_linger(struct lw__claim *claim)
{
    struct lw__holds *holds = claim->holds;
    int64_t until;

    if (claim->linger_rounds == LINGER_ROUNDS || !lw__claim_stays(claim) ||
        holds->closing) {
        return false;
    }
    if (claim->linger_rounds == 0) {
        DL_DELETE(claim->name->claims, claim);
        DL_APPEND(holds->lingering, claim);
    }
    claim->linger_rounds++;
    until = lw__now_us() + (int64_t)LINGER_TIMEOUTS * holds->request_timeout_ms * LW__MS;
    if (claim->held.stays_until_us < until) {
        until = claim->held.stays_until_us;
    }
    lw__timer_set(holds->loop, &claim->timer, until);
    return true;
}

void lw__claim_close(struct lw__holds *holds)
{
    holds->closing = true;
    while (holds->lingering != NULL) {
        lw__claim_free(holds->lingering);
    }
}

void lw__claim_clear(struct lw__holds *holds)
{
    while (holds->free_claims != NULL) {
        struct lw__claim *claim = holds->free_claims;

        holds->free_claims = claim->next;
        free(claim);
    }
}

/* ---- the server's clock ---- */

static void note_clock(struct lw__claim *claim, int64_t sent_us, int64_t server_us)
{
    /* the node that replied, whose clock it is; the name may be at another one by now */
    struct lw__node *node = lw__node_of_command(&claim->command);

    claim->asking.sent_us = sent_us;
    claim->asking.server_us = server_us;
    claim->asking.connection = lw__node_connection(node);
    claim->holds->last_clock =
        (struct lw__clock_pair){sent_us, server_us, claim->asking.connection};
}

/* ---- encoding ---- */

/* A claim joins the queue if its client is bound at the node that gets the command. If
 * the command was redirected, that is not the name's node. */
static bool may_join(const struct lw__claim *claim, const struct lw__terms *terms)
{
    struct lw__node *node = lw__node_of_command(&claim->command);

    if (claim->machine.unwanted || !terms->place) {
        return false;
    }
    lw__node_subscribe(node, claim->name->slot);
    return lw__node_is_bound(node, claim->name->slot);
}

uint32_t lw__claim_lease_ms(struct lw__claim *claim, int64_t lease_us)
{
    if (lease_us != claim->machine.lease_us || claim->machine.handed_us != 0) {
        struct lw__input input = {.event = LW__EV_LEASE_SET, .lease_set = {lease_us}};

        (void)lw__machine_step(&claim->machine, &input);
    }
    return (uint32_t)(claim->machine.lease_us / LW__MS);
}

void lw__claim_put_set(struct lw__claim *claim, struct lw__buffer *out,
                       const struct lw__terms *terms)
{
    struct lw__token token = lw__claim_token(claim);

    claim->token_sent = true;
    claim->fences_drawn = 0;
    lw__encode_try(out, claim->name->text, &token,
                   lw__claim_lease_ms(claim, terms->lease_us));
}

void lw__claim_note_set(struct lw__claim *claim, int64_t sent_us)
{
    claim->asking.sent_us = sent_us;
    claim->asking.server_us = 0;
}

static void encode_try(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__terms terms = lw__claim_terms(claim);

    lw__claim_put_set(claim, out, &terms);
    claim->try = LW__TRY_IN_FLIGHT;
    claim->fences_drawn = terms.fence ? 1 : 0;
    command->request.expected = terms.fence ? 2 : 1;
    command->request.second = (uint32_t)out->length;
    if (terms.fence) {
        lw__node_encode_fence(command, claim->name->slot, out);
    }
}

/* A token that may queue is padded from the first time that it is sent (format.h). */
static void pad_token(struct lw__claim *claim)
{
    if (!claim->token_sent && claim->mode->mutex) {
        claim->n |= LW__PADDED;
    }
    claim->token_sent = true;
}

static void encode_acquire(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__terms terms = lw__claim_terms(claim);
    bool joins = may_join(claim, &terms);
    struct lw__rw rw;
    struct lw__acquire_args args = {
        .name = claim->name->text,
        .rw = lw__claim_rw(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .ticket = claim->machine.ticket,
        .max_waiting = terms.queue_limit,
        .wait = joins,
        .keep = joins && lw__name_should_extend_queue(claim->holds, claim->name),
        .fence = terms.fence,
    };

    pad_token(claim);
    args.token = lw__claim_token(claim);
    args.lease_ms = lw__claim_lease_ms(claim, terms.lease_us);
    claim->asked_to_join = args.wait;
    claim->sent_limit = args.max_waiting != 0;
    claim->fences_drawn = args.fence ? 16 : 0;
    claim->mode->encode_acquire(out, lw__command_evals(command), &args);
}

/* The new token is not padded: it never queues. */
static void encode_adopt(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__terms terms = lw__claim_terms(claim);
    struct lw__rw rw;
    char about[LW__ABOUT_SIZE] = "";
    struct lw__adopt_args args = {
        .name = claim->name->text,
        .previous = claim->extras->adopts,
        .token = lw__claim_token(claim),
        .rw = lw__claim_rw(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .fence = terms.fence,
        .about = about,
    };

    (void)lw__description_about(claim, about);
    claim->token_sent = true;
    args.lease_ms = lw__claim_lease_ms(claim, terms.lease_us);
    claim->fences_drawn = args.fence ? 16 : 0;
    lw__encode_adopt(out, lw__command_evals(command), &args);
}

/* ---- errors, and replies that do not come ---- */

static int64_t sent_us_of(const struct lw__claim *claim)
{
    return claim->command.request.sent_us;
}

static void step_undecided(struct lw__claim *claim, enum lw__event event, int status,
                           bool sent)
{
    struct lw__input input = {
        .event = event,
        .sent_us = sent_us_of(claim),
        .unknown = {.was_sent = sent, .for_now = status == LW_ECONN}};

    lw__claim_step(claim, &input);
}

static void outcome_unknown(struct lw__claim *claim, int status, const char *why,
                            bool sent)
{
    bool releases = lw__machine_releases(claim->machine.phase);

    claim->holds->events->outcome_unknown(claim, status, why);
    step_undecided(claim, LW__EV_UNKNOWN, status, sent);
    if (releases && !sent) { /* UNKNOWN ends no release, so the claim still exists */
        claim->holds->events->not_released(claim);
    }
}

static void fail(struct lw__claim *claim, enum lw__error_class class, int status,
                 const char *text, bool sent)
{
    if (class != LW__ERR_REFUSED) {
        outcome_unknown(claim, status, text, sent);
        return;
    }
    if (lw__machine_releases(claim->machine.phase) && claim->machine.held_until_us != 0) {
        lw__log_cause(claim->holds->log, lw__now_us(), LOG_WARNING,
                      "release of %s refused; the lock stays held until its lease "
                      "expires: %s",
                      claim->name->text, text);
    }
    claim->holds->events->on_error(claim, status, text);
    step_undecided(claim, LW__EV_REFUSED, status, sent);
}

void lw__claim_server_error(struct lw__claim *claim, const char *text, bool undone)
{
    char why[LW_WHY_SIZE];

    fail(claim, lw__classify(text), lw__classify_status(text), lw__explain(text, why),
         !undone);
}

void lw__claim_error_reply(struct lw__claim *claim, const struct lw__reply *reply)
{
    lw__claim_server_error(claim, lw__reply_text(reply, NULL), lw__reply_undone(reply));
}

void lw__claim_no_reply(struct lw__command *command, const char *why, bool sent)
{
    struct lw__claim *claim = lw__claim_of(command);

    if (sent) {
        claim->holds->stats->resent++;
    }
    outcome_unknown(claim, LW_ECONN, why, sent);
}

bool lw__claim_without_fence(struct lw__claim *claim, uint64_t fence)
{
    struct lw__node *node = lw__node_of_command(&claim->command);
    const char *why;

    if (fence == 0) {
        return false;
    }
    why = lw__node_reject_clock(node, (int64_t)fence);
    (void)lw__node_fence_fault(node); /* so that it is tried again */
    outcome_unknown(claim, LW_ECONN, why, true);
    return true;
}

void lw__claim_granted(struct lw__claim *claim, uint64_t fence, unsigned drawn,
                       int64_t sent_us)
{
    struct lw__input input = {
        .event = LW__EV_GRANTED, .sent_us = sent_us, .granted = {.fence = fence}};

    claim->fences_drawn = (uint8_t)drawn;
    lw__claim_step(claim, &input);
}

/* ---- the try: SET NX PX, and INCR for a fencing token ---- */

/* Lets the later claims of this client send their requests. They waited until the first
 * claim's try had ended and its next request was sent, so as not to queue ahead of it. */
static void wake_siblings(struct lw__holds *holds, struct lw__name *name)
{
    struct lw__claim *claim, *next;

    DL_FOREACH_SAFE(name->claims, claim, next) {
        if (claim->machine.phase == LW__QUEUED && claim->machine.due_us == LW__NEVER &&
            lw__node_is_up(name->node)) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        }
    }
    lw__name_unref(holds, name);
}

/* Returns the name, with a reference, for wake_siblings: the claim may be freed by then.
 */
static struct lw__name *end_try(struct lw__claim *claim)
{
    switch (claim->try) {
    case LW__TRY_SET:
        claim->try = LW__TRY_WON;
        break;
    case LW__TRY_IN_FLIGHT:
        claim->try = LW__TRY_NONE;
        break;
    default:
        claim->try = LW__TRY_OVER;
    }
    lw__name_ref(claim->name);
    return claim->name;
}

static void try_no_reply(struct lw__command *command, const char *why, bool sent)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__holds *holds = claim->holds;
    struct lw__name *name = end_try(claim);

    lw__claim_no_reply(command, why, sent);
    wake_siblings(holds, name);
}

static bool acquires_by_key(struct lw__claim *claim, const char *error)
{
    return claim->mode->acquire_one_key != NULL &&
           claim->mode->acquire_one_key(claim, error);
}

/* Notes the reply to SET. Returns false if SET cannot have this reply. */
static bool note_set(struct lw__claim *claim, const struct lw__reply *reply)
{
    switch (lw__reply_type(reply)) {
    case LW__REPLY_ERROR:
        claim->try = lw__reply_undone(reply) ? LW__TRY_UNDONE : LW__TRY_FAILED;
        lw__escape(lw__reply_text(reply, NULL),
                   lw__node_first_error(lw__node_of_command(&claim->command)),
                   LW_WHY_SIZE);
        return true;
    case LW__REPLY_NIL:
        claim->try = LW__TRY_TAKEN;
        claim->token_sent = false; /* SET had no effect */
        return true;
    case LW__REPLY_STATUS:
        if (strcmp(lw__reply_text(reply, NULL), "OK") != 0) {
            return false;
        }
        claim->try = LW__TRY_SET;
        return true;
    default:
        return false;
    }
}

/* An error of SET is reported once both replies are in. */
static void report_set_error(struct lw__claim *claim, bool undone)
{
    const char *error = lw__node_first_error(lw__node_of_command(&claim->command));

    if (!acquires_by_key(claim, error)) {
        lw__claim_server_error(claim, error, undone);
    }
}

static void step_tried(struct lw__claim *claim, bool set_done, uint64_t fence)
{
    struct lw__input input = {.sent_us = sent_us_of(claim)};

    if (set_done && (fence > 0 || claim->fences_drawn == 0)) {
        input.event = LW__EV_GRANTED;
        input.granted.fence = fence;
    } else {
        input.event = LW__EV_NOT_GRANTED;
        input.not_granted.set_done = set_done;
    }
    if (!set_done) {
        lw__name_note_contended(claim->holds, claim->name);
    }
    lw__claim_step(claim, &input);
}

static bool try_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__holds *holds = claim->holds;
    struct lw__name *name;
    enum lw__try outcome;
    uint64_t fence = 0;

    LW__ASSERT(claim->try >= LW__TRY_IN_FLIGHT && claim->try <= LW__TRY_UNDONE);
    if (claim->try == LW__TRY_IN_FLIGHT) {
        if (!note_set(claim, reply)) {
            return false;
        }
        if (command->request.expected > 0) {
            return true;
        }
    } else if (!lw__node_read_fence(command, claim->name->slot, reply, &fence)) {
        return false;
    }
    outcome = claim->try;
    name = end_try(claim);
    if (outcome == LW__TRY_FAILED || outcome == LW__TRY_UNDONE) {
        report_set_error(claim, outcome == LW__TRY_UNDONE);
    } else {
        step_tried(claim, outcome == LW__TRY_SET, fence);
    }
    wake_siblings(holds, name);
    return true;
}

/* ---- the script that acquires or joins the queue ---- */

/* Returns a text that names the kinds of lock, other than the claim's, whose keys have
 * this type; or "". */
static const char *other_kind(const struct lw__claim *claim, const char *type)
{
    if (strcmp(type, "string") == 0) {
        return " (a mutex?)";
    }
    if (strcmp(type, "hash") == 0) {
        return claim->mode->rw ? " (Redisson's lock?)"
                               : " (a read-write lock or Redisson's?)";
    }
    return "";
}

static void log_foreign_key(struct lw__claim *claim, const char *type)
{
    lw__log_cause(claim->holds->log, lw__now_us(), LOG_WARNING,
                  "key %s contains a %s not written by this kind of lock%s; treating the "
                  "lock as held by another program, key left unchanged",
                  claim->name->text, type, other_kind(claim, type));
}

/* Another program's key: this library writes none without a TTL. */
static void log_no_ttl(const struct lw__claim *claim)
{
    lw__log_cause(
        claim->holds->log, lw__now_us(), LOG_WARNING,
        "key %s has no TTL: something else holds the lock without a time limit, "
        "until the key is deleted (lockwire break --foreign)",
        claim->name->text);
}

/* Another owner holds the lock, or held it a moment ago. */
static void read_queued(struct lw__claim *claim, const struct lw__acquired *answer,
                        struct lw__input *input)
{
    int64_t left = answer->remaining_ms;

    if (left == LW__NOT_TOLD) {
        left = claim->window_ms; /* as if it were handed over now */
    }
    input->event = LW__EV_QUEUED;
    input->queued.remaining_ms = left;
    input->queued.position = answer->position;
    input->queued.ticket = answer->ticket;
    input->queued.server_us = answer->server_us;
    input->queued.again = answer->again;
    claim->full = answer->full;
    claim->asking.place = (uint32_t)(answer->position + 1);
    note_clock(claim, input->sent_us, answer->server_us);
    lw__name_note_contended(claim->holds, claim->name);
    input->queued.poll_ms = claim->mode->polls ? claim->holds->events->poll_ms(claim) : 0;
    if (answer->foreign != NULL) {
        log_foreign_key(claim, answer->foreign);
    } else if (answer->remaining_ms == -1) {
        log_no_ttl(claim);
    }
}

/* Returns true if this request found the lock busy because of a hold that this client is
 * releasing. The first release had no effect, because the value was marked, there were
 * waiters, or the server did not have the script. It was then sent again, behind this
 * request or in the same write. Returns false if the request has joined the queue. */
static bool came_before_release(const struct lw__claim *claim)
{
    const struct lw__claim *first = claim->name->claims;

    return !claim->asked_to_join && first != claim &&
           (claim->mode->mutex || first->short_release_sent) &&
           first->machine.phase == LW__RELEASING && !lw__claim_stays(first) &&
           (lw__node_is_unsent(&first->command) ||
            first->command.request.sent_us >= sent_us_of(claim));
}

/* Returns false if a fencing token was requested and the reply has none. */
static bool read_granted(struct lw__claim *claim, const struct lw__acquired *answer,
                         struct lw__input *input)
{
    input->event = LW__EV_GRANTED;
    input->granted.fence = answer->fence >= (uint64_t)LW__FENCE_MIN ? answer->fence : 0;
    return input->granted.fence > 0 || claim->fences_drawn == 0;
}

static bool acquire_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__acquired answer;
    struct lw__input input = {.sent_us = sent_us_of(claim)};

    LW__ASSERT(lw__machine_asks(claim->machine.phase) && claim->extras->adopts == NULL);
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (!acquires_by_key(claim, lw__reply_text(reply, NULL))) {
            lw__claim_error_reply(claim, reply);
        }
        return true;
    }
    if (!claim->mode->decode_acquired(reply, &answer) ||
        (answer.full && !claim->sent_limit)) {
        return false;
    }
    switch (answer.kind) {
    case LW__ANSWER_GRANTED:
        if (!read_granted(claim, &answer, &input)) {
            return lw__claim_without_fence(claim, answer.fence);
        }
        break;
    case LW__ANSWER_QUEUED:
        if (came_before_release(claim)) {
            input.event = LW__EV_NOT_GRANTED;
            input.not_granted.set_done = false;
            input.not_granted.ticket = answer.ticket;
        } else {
            read_queued(claim, &answer, &input);
        }
        break;
    case LW__ANSWER_DEADLOCK:
        input.event = LW__EV_DEADLOCK;
        break;
    }
    lw__claim_step(claim, &input);
    return true;
}

/* ---- adopting ---- */

static void not_adopted(struct lw__claim *claim, bool held)
{
    struct lw__input input = {.event = LW__EV_NOT_ADOPTED, .sent_us = sent_us_of(claim)};

    input.not_adopted.status = held ? LW_EINVAL : LW_ENOTHELD;
    if (held) {
        claim->holds->events->on_error(claim, LW_EINVAL,
                                       claim->mode->rw
                                           ? "the key is no read-write lock, or the "
                                             "token's hold has another mode or "
                                             "owner"
                                           : "the key is no mutex");
    }
    lw__claim_step(claim, &input);
}

static bool adopt_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__adopted answer;
    struct lw__input input = {.event = LW__EV_GRANTED, .sent_us = sent_us_of(claim)};

    LW__ASSERT(lw__machine_asks(claim->machine.phase) && claim->extras->adopts != NULL);
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__claim_error_reply(claim, reply);
        return true;
    }
    if (!lw__decode_adopted(reply, claim->mode->rw, &answer)) {
        return false;
    }
    if (answer.kind != LW__ADOPTED) {
        not_adopted(claim, answer.kind == LW__ADOPTED_OTHER_KIND);
        return true;
    }
    if (claim->mode->rw) {
        claim->holds->events->adopted(claim, answer.owner);
    }
    input.granted.fence = answer.fence >= (uint64_t)LW__FENCE_MIN ? answer.fence : 0;
    if (input.granted.fence == 0 && claim->fences_drawn > 0) {
        return lw__claim_without_fence(claim, answer.fence);
    }
    lw__claim_step(claim, &input);
    return true;
}

/* ---- releases ---- */

static const struct lw__command_type
    release_types[LW__RELEASE_WAYS]; /* by enum lw__release */

/* Handles an error in reply to a release or detach. If it says that the slot is
 * migrating, sends another one for the name's key alone. */
static void release_failed(struct lw__claim *claim, const struct lw__reply *reply)
{
    enum lw__release way = lw__claim_stays(claim) ? LW__RELEASE_DETACH : LW__RELEASE_FULL;

    if (claim->command.request.one_key || claim->mode->polls ||
        !lw__classify_moving(lw__reply_text(reply, NULL)) ||
        !lw__node_send(claim->name->node, &claim->command, &release_types[way],
                       LW__PRIORITY_RENEW, true)) {
        lw__claim_error_reply(claim, reply);
    }
}

static bool detach_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(claim)};
    bool detached;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        release_failed(claim, reply);
        return true;
    }
    LW__ASSERT(lw__machine_releases(claim->machine.phase));
    if (!lw__decode_detached(reply, &detached)) {
        return false;
    }
    input.released.released = detached;
    lw__claim_step(claim, &input);
    return true;
}

static bool release_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__released answer;
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(claim)};

    LW__ASSERT(lw__machine_releases(claim->machine.phase));
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        release_failed(claim, reply);
        return true;
    }
    if (!(command->request.one_key
              ? lw__decode_released_one_key(reply, claim->mode->rw, &answer)
              : claim->mode->decode_released(reply, &answer))) {
        return false;
    }
    if (claim->mode->polls) {
        claim->holds->events->release_replied(claim, &answer);
    }
    if (answer.again && claim->short_release_sent) {
        lw__name_note_contended(claim->holds, claim->name);
    }
    input.released.released = answer.released;
    input.released.holds_left = answer.holds_left;
    input.released.again = answer.again;
    lw__claim_step(claim, &input);
    return true;
}

/* A command that the server refuses had no effect: a full release follows. */
static bool fast_release_replied(struct lw__command *command,
                                 const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__node *node = lw__node_of_command(command);
    struct lw__released answer = {.again = true};
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(claim)};

    LW__ASSERT(lw__machine_releases(claim->machine.phase));
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (claim->fast_release == LW__FAST_RELEASE_SCRIPT ||
            lw__classify(lw__reply_text(reply, NULL)) != LW__ERR_REFUSED) {
            lw__claim_error_reply(claim, reply);
            return true;
        }
        lw__node_fast_release_refused(node);
    } else if (!lw__decode_fast_released(reply, &answer)) {
        lw__node_disable_fast_release(node);
        return false;
    } else if (answer.again) {
        lw__name_note_contended(claim->holds, claim->name);
    }
    input.released.released = answer.released;
    input.released.again = answer.again;
    lw__claim_step(claim, &input);
    return true;
}

/* ---- sending ---- */

static const struct lw__command_type try_type = {
    encode_try, try_replied, .failed = try_no_reply, .noscript_is_error = true};
static const struct lw__command_type acquire_type = {encode_acquire, acquire_replied,
                                                     .failed = lw__claim_no_reply};
static const struct lw__command_type adopt_type = {encode_adopt, adopt_replied,
                                                   .failed = lw__claim_no_reply};
static const struct lw__command_type release_types[LW__RELEASE_WAYS] = {
    [LW__RELEASE_DETACH] = {lw__release_encode_detach, detach_replied,
                            .failed = lw__claim_no_reply},
    [LW__RELEASE_SHORT] = {lw__release_encode_short, release_replied,
                           .failed = lw__claim_no_reply},
    [LW__RELEASE_FAST] = {lw__release_encode_fast, fast_release_replied,
                          .failed = lw__claim_no_reply},
    [LW__RELEASE_FULL] = {lw__release_encode, release_replied,
                          .failed = lw__claim_no_reply},
};

/* Releases, adoptions, and requests of a token that may hold the lock have the priority
 * of a renewal: a lease is running. */
static enum lw__priority priority_of(const struct lw__claim *claim,
                                     const struct lw__command_type *type)
{
    if (type == &try_type) {
        return LW__PRIORITY_NEW;
    }
    if (type != &acquire_type || claim->machine.maybe_held) {
        return LW__PRIORITY_RENEW;
    }
    return claim->machine.ticket >= 0 ? LW__PRIORITY_RETRY : LW__PRIORITY_NEW;
}

/* The caller of lw_detach relies on the lease, as on one that is renewed. */
static bool may_detach(const struct lw__claim *claim)
{
    return !claim->machine.detaches || !lw__claim_stays(claim) ||
           claim->held.stays_until_us == LW__NEVER ||
           claim->held.stays_until_us <= claim->machine.deadline_us ||
           lw__node_guard_may_extend(claim->name->node, claim->machine.deadline_us);
}

static void send_wanted(struct lw__claim *claim, unsigned actions, int64_t now_us)
{
    struct lw__node *node = claim->name->node;
    const struct lw__command_type *type;
    const struct lw__node_fault *fault;

    LW__ASSERT(claim->command.request.prev == NULL && claim->extras->votes == NULL);
    if (actions & LW__SEND_RELEASE && !may_detach(claim)) {
        fail(claim, LW__ERR_REFUSED, LW_ECONN,
             "the server was promoted, and the old master may still grant the lock when "
             "its lease ends",
             false);
        return;
    }
    if (actions & LW__SEND_RELEASE) {
        type = &release_types[lw__release_choose(claim, now_us)];
    } else if ((fault = lw__node_guard_fault(node)) != NULL) {
        claim->holds->stats->guarded++;
        fail(claim, fault->class, fault->status, fault->why, false);
        return;
    } else if ((fault = lw__node_fence_fault(node)) != NULL &&
               lw__claim_terms(claim).fence) {
        fail(claim, fault->class, fault->status, fault->why, false);
        return;
    } else if (claim->extras->adopts != NULL) {
        type = &adopt_type;
    } else if (actions & LW__SEND_TRY) {
        type = &try_type;
    } else {
        type = &acquire_type;
    }
    if (type == &try_type) {
        claim->try = LW__TRY_IN_FLIGHT;
    } else if (claim->try == LW__TRY_WON) {
        claim->try = LW__TRY_OVER;
    }
    if (!lw__node_send(node, &claim->command, type, priority_of(claim, type),
                       type == &release_types[LW__RELEASE_FAST])) {
        claim->try = claim->try == LW__TRY_IN_FLIGHT ? LW__TRY_NONE : claim->try;
        outcome_unknown(claim, LW_ECONN, "", false);
    }
}

/* ---- steps ---- */

static void arm_timer(struct lw__claim *claim)
{
    if (claim->machine.due_us == LW__NEVER || lw__machine_holds(claim->machine.phase)) {
        lw__timer_cancel(claim->holds->loop, &claim->timer);
    } else {
        lw__timer_set(claim->holds->loop, &claim->timer, claim->machine.due_us);
    }
}

/* The fields of `asking` have no meaning once the claim holds, and the reverse. */
static void clear_part(struct lw__claim *claim, bool asks)
{
    if (asks) {
        memset(&claim->asking, 0, sizeof(claim->asking));
    } else {
        memset(&claim->held, 0, sizeof(claim->held));
    }
}

static void report(struct lw__claim *claim, const struct lw__output *out)
{
    const struct lw__claim_events *events = claim->holds->events;

    if (out->actions & LW__DO_RELEASED) {
        events->released(claim, out->release_status);
    }
    if (out->actions & LW__DO_LOST) {
        events->lost(claim);
    }
    if (out->actions & LW__DO_GRANT) {
        if (claim->machine.phase == LW__HELD_BY_MESSAGE) {
            claim->fences_drawn = 16;
            claim->holds->stats->handed_over++;
        }
        events->granted(claim);
    }
    if (out->actions & LW__DO_BUSY) {
        events->busy(claim);
    }
    if (out->actions & LW__DO_FAIL) {
        events->failed(claim, out->fail_status);
    }
}

/* Events are called after the machine's step, and `ended` last: it frees the claim, or
 * keeps it (lw__claim_linger). */
void lw__claim_step(struct lw__claim *claim, struct lw__input *input)
{
    bool asked = lw__machine_asks(claim->machine.phase);
    struct lw__output out;

    if (claim->machine.phase == LW__ENDED) { /* it lingers */
        return;
    }
    input->now_us = lw__loop_now_us(claim->holds->loop);
    if (asked && input->event == LW__EV_QUEUED) {
        claim->asking.remaining_ms = input->queued.remaining_ms;
    }
    if (lw__machine_delays(input->event)) {
        input->jitter = lw__random_between(&claim->holds->random, -1000, 1000);
    }
    input->linked = lw__node_is_up(claim->name->node);
    if (lw__machine_grants(input->event)) {
        input->margin_us = claim->holds->events->grant_margin_us(claim);
    }
    out = lw__machine_step(&claim->machine, input);
    if (lw__machine_asks(claim->machine.phase) != asked) {
        clear_part(claim, !asked);
    }
    arm_timer(claim);
    if (out.actions & ~SENDS) {
        report(claim, &out);
    }
    /* an event that `report` has called may have freed a claim that is not to send */
    if (out.actions & SENDS || out.actions == 0) {
        if (claim->extras->votes != NULL) {
            claim->holds->votes->stepped(claim, out.actions);
        } else if (out.actions & SENDS) {
            send_wanted(claim, out.actions, input->now_us);
        }
    }
    if (out.actions & LW__DO_END) {
        claim->holds->events->ended(claim);
    }
}

static bool starts_with_script(const struct lw__claim *claim)
{
    return !claim->mode->mutex || claim->extras->adopts != NULL ||
           claim->name->claims != claim || claim->next != NULL ||
           lw__name_is_contended(claim->holds, claim->name);
}

void lw__claim_event(struct lw__claim *claim, enum lw__event event)
{
    struct lw__input input = {.event = event};

    /* A request that waits for room is encoded when it is sent: no other is needed. */
    if (event == LW__EV_RETRY_NOW && lw__node_is_unsent(&claim->command)) {
        return;
    }
    lw__claim_step(claim, &input);
}

int lw__claim_release_status(const struct lw__claim *claim)
{
    bool in_flight = claim->command.request.prev != NULL &&
                     claim->command.request.sent_us != 0;

    return lw__machine_release_status(&claim->machine, in_flight);
}

void lw__claim_stand_by(struct lw__claim *claim, int64_t window_us)
{
    struct lw__input input = {.event = LW__EV_STANDBY, .standby = {window_us}};

    lw__claim_step(claim, &input);
}

/* Only the first of a client's claims for a name tries. The others wait until the try is
 * over. */
void lw__claim_start(struct lw__claim *claim, int64_t rest_us, int64_t ticket)
{
    bool behind = rest_us > 0 || lw__claim_is_trying(claim->name->claims);
    struct lw__input input = {.event = LW__EV_START,
                              .start = {.first_script = starts_with_script(claim),
                                        .behind = behind,
                                        .ticket = ticket}};

    lw__claim_step(claim, &input);
    if (rest_us > 0 && lw__node_is_up(claim->name->node)) {
        lw__claim_stand_by(claim, rest_us);
    }
}
