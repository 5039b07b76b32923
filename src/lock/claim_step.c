/* SPDX-License-Identifier: MIT */
/* The steps of a claim: turns answers, messages and due times into inputs of its machine,
 * and the machine's actions into commands and events. Must not know handles, nor decide
 * anything about a lock.
 *
 * Happy path: START -> SEND_TRY, its two replies -> GRANTED -> events->granted; RELEASE
 * -> SEND_RELEASE, a drop where nobody seems to queue (may_drop), its reply ->
 * events->released, events->ended. No link, no answer, or an error that may pass: the
 * outcome is open, and the machine knows what then; an error that is for good: REFUSED.
 * An answer that no script of ours can have given is not taken (node_send.c). */
#include "lock/claim_inside.h"

#include "base/log.h"
#include "base/random.h"
#include "base/escape.h"
#include "lock/claim.h"
#include "lock/hints.h"
#include "lock/machine.h"
#include "lock/mode.h"
#include "lock/name.h"
#include "lock/terms.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <string.h>
#include <syslog.h>
#include <utlist.h>

#define UNSEEN_US (20 * LW__MS)
#define LOOKS_ONCE_IN 32

/* ---- what comes back ---- */

static int64_t sent_us_of(const struct lw__claim *claim)
{
    return claim->command.request.sent_us;
}

static void not_decided(struct lw__claim *claim, enum lw__event event, bool sent)
{
    struct lw__input input = {
        .event = event, .sent_us = sent_us_of(claim), .unknown = {.was_sent = sent}};

    lw__claim_step(claim, &input);
}

static void outcome_open(struct lw__claim *claim, int status, const char *why, bool sent)
{
    claim->client->events->open(claim, status, why);
    not_decided(claim, LW__EV_UNKNOWN, sent);
}

static void cannot_serve(struct lw__claim *claim, enum lw__error_class class, int status,
                         const char *text, bool sent)
{
    if (class != LW__ERR_REFUSED) {
        outcome_open(claim, status, text, sent);
        return;
    }
    if (claim->machine.phase == LW__LEAVING && claim->machine.held_until_us != 0) {
        lw__log_cause(&claim->client->log, lw__now_us(), LOG_WARNING,
                      "the release of %s is refused, it stays locked until its lease "
                      "ends: %s",
                      claim->name->text, text);
    }
    claim->client->events->said(claim, status, text);
    not_decided(claim, LW__EV_REFUSED, sent);
}

void lw__claim_server_error(struct lw__claim *claim, const char *text, bool undone)
{
    cannot_serve(claim, lw__classify(text), lw__classify_status(text), text, !undone);
}

void lw__claim_error_answer(struct lw__claim *claim, const struct lw__reply *reply)
{
    lw__claim_server_error(claim, lw__reply_text(reply, NULL), lw__reply_undone(reply));
}

void lw__claim_no_answer(struct lw__command *command, const char *why, bool sent)
{
    struct lw__claim *claim = lw__claim_of(command);

    if (sent) {
        claim->client->stats.resent++;
    }
    outcome_open(claim, LW_ECONN, why, sent);
}

void lw__claim_granted(struct lw__claim *claim, uint64_t number, int64_t sent_us)
{
    struct lw__input input = {.event = LW__EV_GRANTED,
                              .sent_us = sent_us,
                              .granted = {.fence = number, .released = false}};

    lw__claim_step(claim, &input);
}

static void try_says(struct lw__claim *claim, bool fence_usable, uint64_t fence)
{
    struct lw__input input = {.event = LW__EV_NOT_GRANTED,
                              .sent_us = sent_us_of(claim),
                              .not_granted = {.set_done = claim->set_done}};

    if (!claim->set_done) {
        lw__hints_note_contended(claim->client, claim->name);
    }
    if (claim->set_done && fence_usable) {
        lw__claim_granted(claim, fence, input.sent_us);
    } else {
        lw__claim_step(claim, &input);
    }
}

/* The try is over and its claim has asked for more: now those of this client that came
 * after it ask. They waited, so as not to queue before it. */
static void call_siblings(struct lw_client *client, struct lw__name *name)
{
    struct lw__claim *claim, *next;

    DL_FOREACH_SAFE(name->claims, claim, next) {
        if (claim->machine.phase == LW__QUEUED && claim->machine.due_us == LW__NEVER &&
            claim->mode->in_line == NULL && lw__node_is_up(name->node)) {
            lw__claim_event(claim, LW__EV_ASK_NOW);
        }
    }
    lw__name_put(client, name);
}

/* For call_siblings, when the claim may be gone. */
static struct lw__name *end_try(struct lw__claim *claim)
{
    claim->trying = false;
    lw__name_keep(claim->name);
    return claim->name;
}

static void try_unanswered(struct lw__command *command, const char *why, bool sent)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw_client *client = claim->client;
    struct lw__name *name = end_try(claim);

    lw__claim_no_answer(command, why, sent);
    call_siblings(client, name);
}

static bool asks_by_key(struct lw__claim *claim, const char *error)
{
    return claim->mode->by_key != NULL && claim->mode->by_key->ask(claim, error);
}

static void note_set_error(struct lw__claim *claim, const struct lw__reply *reply)
{
    claim->set_failed = true;
    claim->set_undone = lw__reply_undone(reply);
    lw__escape(lw__reply_text(reply, NULL),
               lw__node_first_error(lw__node_of_command(&claim->command)), LW__WHY_MAX);
}

static void tell_set_error(struct lw__claim *claim)
{
    const char *error = lw__node_first_error(lw__node_of_command(&claim->command));

    if (!asks_by_key(claim, error)) {
        lw__claim_server_error(claim, error, claim->set_undone);
    }
}

/* Two replies, of SET and of INCR. An error of SET is told once both are in. */
static bool try_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    enum lw__reply_type type = lw__reply_type(reply);
    uint64_t number = 0;
    struct lw_client *client = claim->client;
    struct lw__name *name;

    if (!claim->set_answered) {
        claim->set_answered = true;
        claim->set_done = type == LW__REPLY_STATUS &&
                          strcmp(lw__reply_text(reply, NULL), "OK") == 0;
        if (type == LW__REPLY_ERROR) {
            note_set_error(claim, reply);
        } else if (type == LW__REPLY_NIL) {
            claim->named = false; /* nothing of it is there, nor will be */
        } else if (!claim->set_done) {
            return false;
        }
        if (command->request.expected > 0) {
            return true;
        }
    } else if (!lw__node_read_fence(command, claim->name->slot, reply, &number)) {
        return false;
    }
    name = end_try(claim);
    if (claim->set_failed) {
        tell_set_error(claim);
    } else {
        try_says(claim, number > 0 || claim->numbers == 0, number);
    }
    call_siblings(client, name);
    return true;
}

/* The other kind of lock of ours that has a key of this type, as a text; "": none has. */
static const char *other_kind(const struct lw__claim *claim, const char *type)
{
    if (strcmp(type, "string") == 0) {
        return " (as a mutex is, and this is another kind of lock)";
    }
    if (strcmp(type, "hash") == 0) {
        return claim->mode->rw ? " (as Redisson's lock is)"
                               : " (as a read-write lock or Redisson's is, and this is "
                                 "another kind of lock)";
    }
    return "";
}

static void tell_of_stranger(struct lw__claim *claim, const char *type)
{
    if (!claim->stranger_told) {
        lw__log(&claim->client->log, LOG_WARNING,
                "the key %s holds a %s that is not ours%s: it counts as held by a "
                "stranger and is not touched",
                claim->name->text, type, other_kind(claim, type));
    }
    claim->stranger_told = true;
}

bool lw__claim_without_number(struct lw__claim *claim, uint64_t number)
{
    struct lw__node *node = lw__node_of_command(&claim->command);
    const char *why;

    if (number == 0) {
        return false;
    }
    why = lw__node_reject_clock(node, (int64_t)number);
    (void)lw__node_fence_fault(node); /* so that it is tried again */
    outcome_open(claim, LW_EREDIS, why, true);
    return true;
}

/* Somebody else has it, or had it lately. */
static void take_queued(struct lw__claim *claim, const struct lw__acquired *answer,
                        struct lw__input *input)
{
    const struct lw__in_line *in_line = claim->mode->in_line;
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
    input->queued.asked_to_join = claim->asked_to_join;
    input->queued.released = answer->released;
    claim->asking.remaining_ms = left;
    claim->asking.place = (uint32_t)(answer->position + 1);
    lw__hints_note_clock(claim, input->sent_us, answer->server_us);
    lw__hints_note_contended(claim->client, claim->name);
    input->queued.poll_ms = in_line != NULL ? in_line->poll_ms(claim) : 0;
    if (answer->stranger != NULL) {
        tell_of_stranger(claim, answer->stranger);
    }
}

/* Returns true if this request, which did not join the queue, was refused because of a
 * hold that this client is releasing: the first release did nothing (the value was
 * marked, or NOSCRIPT) and was sent again behind the request. */
static bool came_before_release(const struct lw__claim *claim)
{
    const struct lw__claim *first = claim->name->claims;

    return !claim->asked_to_join && first != claim && claim->mode->encode_drop != NULL &&
           !claim->machine.turning && first->machine.phase == LW__LEAVING &&
           first->machine.in_flight &&
           (lw__node_is_unsent(&first->command) ||
            first->command.request.sent_us > sent_us_of(claim));
}

static bool acquire_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__acquired answer;
    struct lw__input input = {.sent_us = sent_us_of(claim)};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *text = lw__reply_text(reply, NULL);

        if (!asks_by_key(claim, text)) {
            lw__claim_error_answer(claim, reply);
        }
        return true;
    }
    if (!claim->mode->decode_acquired(reply, claim->machine.turning, &answer)) {
        return false;
    }
    if (answer.kind == LW__ANSWER_QUEUED && came_before_release(claim)) {
        input.event = LW__EV_NOT_GRANTED;
        input.not_granted.set_done = false;
        input.not_granted.ticket = answer.ticket; /* a waiter that is not bound yet */
        lw__claim_step(claim, &input);
        return true;
    }
    switch (answer.kind) {
    case LW__ANSWER_GRANTED:
        if (answer.fence < (uint64_t)LW__FENCE_MIN) {
            if (claim->numbers > 0) {
                return lw__claim_without_number(claim, answer.fence);
            }
            answer.fence = 0;
        }
        input.event = LW__EV_GRANTED;
        input.granted.fence = answer.fence;
        input.granted.released = answer.released;
        break;
    case LW__ANSWER_QUEUED:
        take_queued(claim, &answer, &input);
        break;
    case LW__ANSWER_DEADLOCK:
        input.event = LW__EV_DEADLOCK;
        input.deadlock.released = answer.released;
        break;
    }
    lw__claim_step(claim, &input);
    return true;
}

static bool release_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__released answer;
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(claim)};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *text = lw__reply_text(reply, NULL);

        if (claim->mode->by_key == NULL || !claim->mode->by_key->release(claim, text)) {
            lw__claim_error_answer(claim, reply);
        }
        return true;
    }
    if (!claim->mode->decode_released(reply, &answer)) {
        return false;
    }
    if (claim->mode->in_line != NULL) {
        claim->mode->in_line->released(claim, &answer);
    }
    input.released.released = answer.released;
    input.released.holds_left = answer.holds_left;
    input.released.again = answer.again;
    lw__claim_step(claim, &input);
    return true;
}

/* What is not released so is released with a look at the queue. A command that the server
 * refuses has done nothing. */
static bool drop_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__released answer = {.again = true};
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(claim)};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *text = lw__reply_text(reply, NULL);

        if (claim->drop == LW__FAST_RELEASE_SCRIPT ||
            lw__classify(text) != LW__ERR_REFUSED) {
            lw__claim_error_answer(claim, reply);
            return true;
        }
        lw__node_fast_release_refused(lw__node_of_command(command));
    } else if (!lw__decode_fast_released(reply, &answer)) {
        lw__node_disable_fast_release(lw__node_of_command(command));
        return false;
    } else if (answer.again) {
        lw__hints_note_contended(claim->client, claim->name);
    }
    input.released.released = answer.released;
    input.released.again = answer.again;
    lw__claim_step(claim, &input);
    return true;
}

static const struct lw__command_type try_type = {
    lw__claim_put_try, try_answered, try_unanswered, .priority = LW__PRIORITY_NEW,
    .noscript_is_error = true};
static const struct lw__command_type acquire_types[LW__PRIORITIES] = {
    [LW__PRIORITY_RENEW] = {lw__claim_put_acquire, acquire_answered, lw__claim_no_answer,
                            .priority = LW__PRIORITY_RENEW},
    [LW__PRIORITY_RETRY] = {lw__claim_put_acquire, acquire_answered, lw__claim_no_answer,
                            .priority = LW__PRIORITY_RETRY},
    [LW__PRIORITY_NEW] = {lw__claim_put_acquire, acquire_answered, lw__claim_no_answer,
                          .priority = LW__PRIORITY_NEW},
};
static const struct lw__command_type drop_type = {
    lw__claim_put_drop, drop_answered, lw__claim_no_answer,
    .priority = LW__PRIORITY_RENEW, .one_key = true};
static const struct lw__command_type release_type = {
    lw__claim_put_release, release_answered, lw__claim_no_answer,
    .priority = LW__PRIORITY_RENEW};

/* ---- sending ---- */

static enum lw__priority order_of(const struct lw__claim *claim)
{
    if (claim->machine.keeps) {
        return LW__PRIORITY_RENEW;
    }
    return claim->machine.ticket >= 0 ? LW__PRIORITY_RETRY : LW__PRIORITY_NEW;
}

/* Whether it is released without a look at the queue: granted by the plain try, so that
 * nobody queued then as far as is known, and its value would say if somebody did since.
 * That can be wrong where the lease of whoever held before ran out while others waited.
 * So each that was held for a while looks, and some of the others. Only how long those
 * wait rests on it. */
static bool may_drop(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;

    return claim->tried && claim->set_done && claim->mode->encode_drop != NULL &&
           !claim->machine.uncertain && claim->name->claims == claim &&
           claim->next == NULL && !lw__hints_is_contended(client, claim->name) &&
           lw__now_us() - sent_us_of(claim) <= UNSEEN_US &&
           lw__random_between(&client->random, 1, LOOKS_ONCE_IN) != 1;
}

static void send_wanted(struct lw__claim *claim, unsigned actions)
{
    struct lw__node *node = claim->name->node;
    const struct lw__command_type *type;
    const struct lw__fence_fault *unseeded;

    if (actions & LW__SEND_RELEASE) {
        type = may_drop(claim) ? &drop_type : &release_type;
    } else if (lw__terms_wants_fence(claim) &&
               (unseeded = lw__node_fence_fault(node)) != NULL) {
        cannot_serve(claim, unseeded->class, lw__classify_status(unseeded->why),
                     unseeded->why, false);
        return;
    } else if (actions & LW__SEND_TRY) {
        type = &try_type;
    } else {
        type = &acquire_types[order_of(claim)];
    }
    claim->trying = claim->tried = type == &try_type;
    if (lw__node_send(node, &claim->command, type)) {
        return;
    }
    claim->trying = false;
    outcome_open(claim, LW_ECONN, "", false);
}

/* ---- steps ---- */

static void rearm(struct lw__claim *claim)
{
    if (claim->machine.due_us == LW__NEVER || claim->machine.phase == LW__HELD) {
        lw__timer_cancel(claim->client->loop, &claim->timer);
    } else {
        lw__timer_set(claim->client->loop, &claim->timer, claim->machine.due_us);
    }
}

/* What stands in the claim while it asks has no meaning afterwards, nor before. */
static void begin_part(struct lw__claim *claim, bool asks)
{
    if (asks) {
        memset(&claim->asking, 0, sizeof(claim->asking));
    } else {
        memset(&claim->held, 0, sizeof(claim->held));
    }
}

/* The actions taken; with LW__DO_END, the claim is gone. */
__attribute__((noinline)) static unsigned step(struct lw__claim *claim,
                                               struct lw__input *input)
{
    const struct lw__claim_events *events = claim->client->events;
    bool asked = lw__machine_asks(claim->machine.phase);
    struct lw__output out;

    input->now_us = lw__now_us();
    input->jitter = lw__random_between(&claim->client->random, -1000, 1000);
    input->linked = lw__node_is_up(claim->name->node);
    input->margin_us = claim->waiting != NULL ? lw__terms_margin_us(claim->waiting) : 0;
    out = lw__machine_step(&claim->machine, input);
    if (lw__machine_asks(claim->machine.phase) != asked) {
        begin_part(claim, !asked);
    }
    rearm(claim);
    if (out.actions & LW__DO_RELEASED) {
        events->released(claim, out.release_status);
    }
    if (out.actions & LW__DO_LOST) {
        events->lost(claim);
    }
    if (out.actions & LW__DO_GRANT) {
        if (claim->machine.by_message) {
            claim->numbers = 16;
            claim->client->stats.handed_over++;
        }
        events->granted(claim);
    }
    if (out.actions & LW__DO_BUSY) {
        events->busy(claim);
    }
    if (out.actions & LW__DO_FAIL) {
        events->failed(claim, out.fail_status);
    }
    if (out.actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)) {
        send_wanted(claim, out.actions);
    }
    if (out.actions & LW__DO_END) {
        events->ended(claim);
    }
    return out.actions;
}

/* Not inlined, as step() is not: the one that is not taken costs no more than a look. */
__attribute__((noinline)) static void step_in_line(struct lw__claim *claim,
                                                   struct lw__input *input)
{
    const struct lw__in_line *in_line = claim->mode->in_line;
    struct lw_client *client = claim->client;
    struct lw__name *name = claim->name;
    enum lw__phase before = claim->machine.phase;
    bool ended;

    lw__name_keep(name);
    ended = (step(claim, input) & LW__DO_END) != 0;
    in_line->moved(name, ended && before != LW__ASKING && before != LW__QUEUED);
    lw__name_put(client, name);
}

void lw__claim_step(struct lw__claim *claim, struct lw__input *input)
{
    if (claim->mode->in_line != NULL) {
        step_in_line(claim, input);
    } else {
        (void)step(claim, input);
    }
}

/* Of one client and name, the first one tries; the others ask when that is over. */
static bool starts_behind(const struct lw__claim *claim)
{
    if (claim->mode->in_line != NULL) {
        return claim->mode->in_line->must_wait(claim);
    }
    return claim->name->claims->trying;
}

static bool starts_with_script(const struct lw__claim *claim)
{
    return !claim->mode->tries || claim->name->claims != claim || claim->next != NULL ||
           lw__hints_is_contended(claim->client, claim->name);
}

void lw__claim_event(struct lw__claim *claim, enum lw__event event)
{
    struct lw__input input = {.event = event};

    /* What is still to be written will ask as things stand then. */
    if (event == LW__EV_ASK_NOW && lw__node_is_unsent(&claim->command)) {
        return;
    }
    if (event == LW__EV_START) {
        input.start.first_script = starts_with_script(claim);
        input.start.behind = starts_behind(claim);
    }
    lw__claim_step(claim, &input);
}
