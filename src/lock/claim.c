/* SPDX-License-Identifier: MIT */
/* What answers tell by the way: see hints.h. Must not decide how long a message may be
 * believed; machine.c does. A hand-over is judged by the last answer whose time is not
 * later; where there is none of this connection it cannot be judged. */
/* What a claim says to the server, written at the moment of sending, by the terms of the
 * handles that wait for it then. Must not know what is answered. Lack of memory is the
 * buffer's to tell. */
/* The steps of a claim: turns answers, messages and due times into inputs of its machine,
 * and the machine's actions into commands and events. Must not know handles, nor decide
 * anything about a lock.
 *
 * Happy path: START -> SEND_TRY, its two replies -> GRANTED -> events->granted; RELEASE
 * -> SEND_RELEASE, a drop where nobody seems to queue (may_drop), its reply ->
 * events->released, events->ended. No link, no answer, or an error that may pass: the
 * outcome is open, and the machine knows what then; an error that is for good: REFUSED.
 * An answer that no script of ours can have given is not taken (node_send.c). */
/* The life of a claim, one token in Redis. Must not know how handles share it (turns.c
 * does), nor what its machine says is to be done (claim_step.c). Without memory there is
 * no claim, and nothing is asked for; once there is one its steps need none. A hand-over
 * that finds none for its token makes one to give it back, or leaves it to expire. */
/* Messages to their claims. Must not decide how long a message may be believed; machine.c
 * does. Only whether it can be believed at all is known here. Happy path: a hand-over
 * goes to the claim with its token. One that is nobody's any more is given back; one of
 * another server than the command link's has its claim ask. A hint that a hold was broken
 * has it verified at once; it is never believed by itself. What is no message of ours is
 * told to the log. */
#include "lock/lock_private.h"

#include "base/buffer.h"
#include "base/escape.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/format.h"
#include "redis/node.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

/* ---- the server's clock, and names that are contended ---- */

#define CONTENDED_US (1000 * LW__MS)
#define KEEP_US (20000 * LW__MS) /* of the two minutes that a queue lives */

/* Two names in one slot drive each other out. */
static size_t slot_of(const struct lw__name *name)
{
    return name->hash % LW__CONTENDED_SLOTS;
}

static void note_clock(struct lw__claim *claim, int64_t sent_us, int64_t server_us)
{
    struct lw_client *client = claim->client;

    /* whose clock it is says who answered: the name may lead elsewhere by now */
    claim->asking.clock = (struct lw__clock_pair){
        sent_us, server_us, lw__node_connection(lw__node_of_command(&claim->command))};
    client->last_clock = claim->asking.clock;
}

static struct lw__clock_pair clock_pair(const struct lw__claim *claim, int64_t handed_us)
{
    const struct lw__clock_pair *last = &claim->client->last_clock;
    unsigned connection = lw__node_connection(claim->name->node);

    if (last->connection == connection && last->server_us <= handed_us) {
        return *last;
    }
    if (!lw__machine_asks(claim->machine.phase)) {
        return (struct lw__clock_pair){0};
    }
    return claim->asking.clock.connection == connection ? claim->asking.clock
                                                        : (struct lw__clock_pair){0};
}

static void note_contended(struct lw_client *client, const struct lw__name *name)
{
    struct lw__contended *slot = &client->contended[slot_of(name)];

    if (slot->hash != name->hash) {
        *slot = (struct lw__contended){.hash = name->hash};
    }
    slot->until_us = lw__now_us() + CONTENDED_US;
}

static bool is_contended(const struct lw_client *client, const struct lw__name *name)
{
    const struct lw__contended *slot = &client->contended[slot_of(name)];

    return slot->hash == name->hash && slot->until_us > lw__now_us();
}

static bool should_extend_queue(struct lw_client *client, const struct lw__name *name)
{
    struct lw__contended *slot = &client->contended[slot_of(name)];
    int64_t now = lw__now_us();

    if (slot->hash != name->hash) {
        return true; /* nothing is known of it */
    }
    if (now - slot->extended_us < KEEP_US) {
        return false;
    }
    slot->extended_us = now;
    return true;
}

/* ---- encoding ---- */

struct lw__token lw__claim_token(const struct lw__claim *claim)
{
    return (struct lw__token){claim->client->uuid, claim->n, claim->window_ms};
}

/* At the node that is asked, which may be another than the name's so far. */
static bool wants_to_join(const struct lw__claim *claim)
{
    struct lw__node *node = lw__node_of_command(&claim->command);

    if (claim->machine.abandoned || !lw__handles_want_place(claim)) {
        return false;
    }
    lw__node_subscribe(node, claim->name->slot);
    return lw__node_is_bound(node, claim->name->slot);
}

/* In `room`; NULL where its mode asks for no more than the name. */
static const struct lw__rw *rw_of(const struct lw__claim *claim, struct lw__rw *room)
{
    *room = (struct lw__rw){claim->mode->write, claim->permits, claim->owner};
    return claim->mode->rw ? room : NULL;
}

/* The lease to ask for: what goes out is what the machine will count the answer by. */
uint32_t lw__claim_lease_ms(struct lw__claim *claim)
{
    int64_t lease_us = lw__handles_lease_us(claim);

    if (lease_us != claim->machine.lease_us || claim->machine.handed_us != 0) {
        struct lw__input input = {.event = LW__EV_LEASE_SET, .asked = {lease_us}};

        (void)lw__machine_step(&claim->machine, &input);
    }
    return (uint32_t)(claim->machine.lease_us / LW__MS);
}

static void encode_try(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);
    bool fence = lw__handles_want_fence(claim);

    claim->token_sent = true;
    claim->set_done = claim->set_answered = claim->set_failed = false;
    claim->fences_drawn = fence ? 1 : 0;
    command->request.expected = fence ? 2 : 1;
    lw__encode_try(out, claim->name->text, &token, lw__claim_lease_ms(claim));
    command->request.second = (uint32_t)out->length;
    if (fence) {
        lw__node_encode_fence(command, claim->name->slot, out);
    }
}

/* A token that may queue is a padded one, from the first time that it is sent. */
static void name_token(struct lw__claim *claim)
{
    if (!claim->token_sent && claim->mode->plain_set) {
        claim->n |= LW__PADDED;
    }
    claim->token_sent = true;
}

static void encode_acquire(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token previous = {claim->client->uuid, claim->previous_n,
                                 claim->previous_window_ms};
    bool joins = wants_to_join(claim);
    struct lw__rw rw;
    struct lw__acquire_args args = {
        .name = claim->name->text,
        .previous = claim->machine.turning ? &previous : NULL,
        .rw = rw_of(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .ticket = claim->machine.ticket,
        .wait = joins,
        .keep = joins && should_extend_queue(claim->client, claim->name),
        .fence = lw__handles_want_fence(claim),
    };

    name_token(claim);
    args.token = lw__claim_token(claim);
    args.lease_ms = lw__claim_lease_ms(claim);
    claim->asked_to_join = args.wait;
    claim->fences_drawn = args.fence ? 16 : 0;
    claim->mode->encode_acquire(out, lw__command_evals(command), &args);
}

static void encode_fast_release(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);

    claim->fast_release = lw__node_fast_release(lw__node_of_command(command));
    claim->mode->encode_fast_release(out, lw__command_evals(command), claim->fast_release,
                                     claim->name->text, &token);
}

static void encode_release(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__rw rw;
    struct lw__release_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
        .rw = rw_of(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
    };

    claim->mode->encode_release(out, lw__command_evals(command), &args);
}

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
    claim->client->events->outcome_unknown(claim, status, why);
    not_decided(claim, LW__EV_UNKNOWN, sent);
}

static void cannot_serve(struct lw__claim *claim, enum lw__error_class class, int status,
                         const char *text, bool sent)
{
    if (class != LW__ERR_REFUSED) {
        outcome_open(claim, status, text, sent);
        return;
    }
    if (claim->machine.phase == LW__RELEASING && claim->machine.held_until_us != 0) {
        lw__log_cause(&claim->client->log, lw__now_us(), LOG_WARNING,
                      "the release of %s is refused, it stays locked until its lease "
                      "ends: %s",
                      claim->name->text, text);
    }
    claim->client->events->on_error(claim, status, text);
    not_decided(claim, LW__EV_REFUSED, sent);
}

void lw__claim_server_error(struct lw__claim *claim, const char *text, bool undone)
{
    cannot_serve(claim, lw__classify(text), lw__classify_status(text), text, !undone);
}

void lw__claim_error_reply(struct lw__claim *claim, const struct lw__reply *reply)
{
    lw__claim_server_error(claim, lw__reply_text(reply, NULL), lw__reply_undone(reply));
}

void lw__claim_no_reply(struct lw__command *command, const char *why, bool sent)
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
        note_contended(claim->client, claim->name);
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
            claim->mode->local_queue == NULL && lw__node_is_up(name->node)) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        }
    }
    lw__name_unref(client, name);
}

/* For call_siblings, when the claim may be gone. */
static struct lw__name *end_try(struct lw__claim *claim)
{
    claim->trying = false;
    lw__name_ref(claim->name);
    return claim->name;
}

static void try_unanswered(struct lw__command *command, const char *why, bool sent)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw_client *client = claim->client;
    struct lw__name *name = end_try(claim);

    lw__claim_no_reply(command, why, sent);
    call_siblings(client, name);
}

static bool asks_by_key(struct lw__claim *claim, const char *error)
{
    return claim->mode->one_key != NULL && claim->mode->one_key->acquire(claim, error);
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
            claim->token_sent = false; /* nothing of it is there, nor will be */
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
        try_says(claim, number > 0 || claim->fences_drawn == 0, number);
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
    if (!claim->foreign_logged) {
        lw__log(&claim->client->log, LOG_WARNING,
                "the key %s holds a %s that is not ours%s: it counts as held by a "
                "stranger and is not touched",
                claim->name->text, type, other_kind(claim, type));
    }
    claim->foreign_logged = true;
}

bool lw__claim_without_fence(struct lw__claim *claim, uint64_t number)
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
    const struct lw__local_queue_ops *local_queue = claim->mode->local_queue;
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
    note_clock(claim, input->sent_us, answer->server_us);
    note_contended(claim->client, claim->name);
    input->queued.poll_ms = local_queue != NULL ? local_queue->poll_ms(claim) : 0;
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

    return !claim->asked_to_join && first != claim &&
           claim->mode->encode_fast_release != NULL && !claim->machine.turning &&
           first->machine.phase == LW__RELEASING && first->machine.in_flight &&
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
            lw__claim_error_reply(claim, reply);
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
            if (claim->fences_drawn > 0) {
                return lw__claim_without_fence(claim, answer.fence);
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

        if (claim->mode->one_key == NULL || !claim->mode->one_key->release(claim, text)) {
            lw__claim_error_reply(claim, reply);
        }
        return true;
    }
    if (!claim->mode->decode_released(reply, &answer)) {
        return false;
    }
    if (claim->mode->local_queue != NULL) {
        claim->mode->local_queue->released(claim, &answer);
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

        if (claim->fast_release == LW__FAST_RELEASE_SCRIPT ||
            lw__classify(text) != LW__ERR_REFUSED) {
            lw__claim_error_reply(claim, reply);
            return true;
        }
        lw__node_fast_release_refused(lw__node_of_command(command));
    } else if (!lw__decode_fast_released(reply, &answer)) {
        lw__node_disable_fast_release(lw__node_of_command(command));
        return false;
    } else if (answer.again) {
        note_contended(claim->client, claim->name);
    }
    input.released.released = answer.released;
    input.released.again = answer.again;
    lw__claim_step(claim, &input);
    return true;
}

static const struct lw__command_type try_type = {encode_try, try_answered, try_unanswered,
                                                 .priority = LW__PRIORITY_NEW,
                                                 .noscript_is_error = true};
static const struct lw__command_type acquire_types[LW__PRIORITIES] = {
    [LW__PRIORITY_RENEW] = {encode_acquire, acquire_answered, lw__claim_no_reply,
                            .priority = LW__PRIORITY_RENEW},
    [LW__PRIORITY_RETRY] = {encode_acquire, acquire_answered, lw__claim_no_reply,
                            .priority = LW__PRIORITY_RETRY},
    [LW__PRIORITY_NEW] = {encode_acquire, acquire_answered, lw__claim_no_reply,
                          .priority = LW__PRIORITY_NEW},
};
static const struct lw__command_type drop_type = {
    encode_fast_release, drop_answered, lw__claim_no_reply,
    .priority = LW__PRIORITY_RENEW, .one_key = true};
static const struct lw__command_type release_type = {
    encode_release, release_answered, lw__claim_no_reply, .priority = LW__PRIORITY_RENEW};

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

    return claim->tried && claim->set_done && claim->mode->encode_fast_release != NULL &&
           !claim->machine.uncertain && claim->name->claims == claim &&
           claim->next == NULL && !is_contended(client, claim->name) &&
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
    } else if (lw__handles_want_fence(claim) &&
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
    input->margin_us = claim->waiting != NULL ? lw__handle_margin_us(claim->waiting) : 0;
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
            claim->fences_drawn = 16;
            claim->client->stats.handed_over++;
        }
        events->granted(claim);
    }
    if (out.actions & LW__DO_BUSY) {
        events->refused(claim);
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
    const struct lw__local_queue_ops *local_queue = claim->mode->local_queue;
    struct lw_client *client = claim->client;
    struct lw__name *name = claim->name;
    enum lw__phase before = claim->machine.phase;
    bool ended;

    lw__name_ref(name);
    ended = (step(claim, input) & LW__DO_END) != 0;
    local_queue->changed(name, ended && before != LW__ACQUIRING && before != LW__QUEUED);
    lw__name_unref(client, name);
}

void lw__claim_step(struct lw__claim *claim, struct lw__input *input)
{
    if (claim->mode->local_queue != NULL) {
        step_in_line(claim, input);
    } else {
        (void)step(claim, input);
    }
}

/* Of one client and name, the first one tries; the others ask when that is over. */
static bool starts_behind(const struct lw__claim *claim)
{
    if (claim->mode->local_queue != NULL) {
        return claim->mode->local_queue->must_wait(claim);
    }
    return claim->name->claims->trying;
}

static bool starts_with_script(const struct lw__claim *claim)
{
    return !claim->mode->plain_set || claim->name->claims != claim ||
           claim->next != NULL || is_contended(claim->client, claim->name);
}

void lw__claim_event(struct lw__claim *claim, enum lw__event event)
{
    struct lw__input input = {.event = event};

    /* What is still to be written will ask as things stand then. */
    if (event == LW__EV_RETRY_NOW && lw__node_is_unsent(&claim->command)) {
        return;
    }
    if (event == LW__EV_START) {
        input.start.first_script = starts_with_script(claim);
        input.start.behind = starts_behind(claim);
    }
    lw__claim_step(claim, &input);
}

/* ---- a claim's life ---- */

static void timer_due(void *arg)
{
    lw__claim_event(arg, LW__EV_DUE);
}

/* `lease_ms`: to begin with. */
static struct lw__claim *make(struct lw_client *client, struct lw__name *name,
                              const struct lw__mode *mode, uint64_t n, uint32_t window_ms,
                              uint32_t lease_ms)
{
    struct lw__claim *claim = client->free_claims;

    if (claim != NULL) {
        client->free_claims = claim->next;
        client->free_claim_count--;
    } else if ((claim = malloc(sizeof(*claim))) == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(client->loop, 1) != 0) {
        goto fail;
    }
    if (lw__heap_reserve(&client->renewals.due, 1) != 0) {
        goto fail_reserved;
    }
    memset(claim, 0, sizeof(*claim));
    claim->client = client;
    claim->name = name;
    claim->mode = mode;
    claim->n = n;
    claim->window_ms = window_ms;
    lw__machine_init(&claim->machine, (int64_t)window_ms * LW__MS,
                     (int64_t)lease_ms * LW__MS);
    lw__timer_init(&claim->timer, timer_due, claim);
    lw__name_ref(name);
    DL_APPEND(name->claims, claim);
    client->open_claims++;
    return claim;

fail_reserved:
    lw__timer_unreserve(client->loop, 1);
fail:
    free(claim);
    return NULL;
}

struct lw__claim *lw__claim_new(struct lw_client *client, const struct lw_lock *lock)
{
    struct lw__claim *claim = make(client, lock->name, lock->mode, ++client->next_n,
                                   lock->window_ms, lock->lease_ms);

    if (claim == NULL) {
        return NULL;
    }
    if (lock->owner != NULL && (claim->owner = strdup(lock->owner)) == NULL) {
        lw__claim_free(claim);
        return NULL;
    }
    claim->permits = lock->permits;
    return claim;
}

void lw__claim_free(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;

    lw__node_forget(&claim->command);
    lw__timer_cancel(client->loop, &claim->timer);
    lw__timer_unreserve(client->loop, 1);
    lw__heap_unreserve(&client->renewals.due, 1);
    DL_DELETE(claim->name->claims, claim);
    lw__name_unref(client, claim->name);
    free(claim->owner);
    client->open_claims--;
    if (client->free_claim_count == LW__POOLED) {
        free(claim);
        return;
    }
    client->free_claim_count++;
    claim->next = client->free_claims;
    client->free_claims = claim;
}

void lw__claim_reacquire(struct lw__claim *claim)
{
    struct lw__input input = {.event = LW__EV_REACQUIRE};

    claim->previous_n = claim->n;
    claim->previous_window_ms = claim->window_ms;
    claim->n = ++claim->client->next_n;
    claim->token_sent = false;
    claim->verify = false;
    if (claim->waiting != NULL) {
        claim->window_ms = claim->waiting->window_ms;
    }
    input.turn.window_us = (int64_t)claim->window_ms * LW__MS;
    lw__claim_step(claim, &input);
}

static void release_unknown(struct lw_client *client, const struct lw__message *message)
{
    /* the script of shared holds releases either kind */
    const struct lw__mode *mode = &client->modes[message->rw ? LW_SHARED : LW_MUTEX];
    struct lw__name *name = lw__name_get(client, message->name);
    struct lw__claim *claim;

    if (name == NULL) {
        return;
    }
    claim = make(client, name, mode, message->token.n, message->token.window_ms,
                 message->token.window_ms);
    lw__name_unref(client, name);
    if (claim != NULL) {
        lw__claim_event(claim, LW__EV_RELEASE);
    }
}

/* ---- messages ---- */

static struct lw__claim *find_claim(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    struct lw__claim *claim = NULL;

    if (name != NULL) { /* FIFO: it is among the first */
        DL_SEARCH_SCALAR(name->claims, claim, n, m->token.n);
    }
    return claim;
}

/* A turn is on its way that ends this token: it says all there is to say. To give it back
 * as well would have the turn find nothing, and its release told as too late. */
static bool is_being_ended(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    const struct lw__claim *claim;

    if (name == NULL) {
        return false;
    }
    DL_FOREACH(name->claims, claim) {
        if (claim->machine.turning && claim->previous_n == m->token.n) {
            return true;
        }
    }
    return false;
}

/* Whether the server that we send to gave us the lock. A subscription at another one
 * hears what that gave away, or what its master did, and by another clock. */
static bool is_of_our_server(const struct lw__name *name, const struct lw__message *m)
{
    return lw__node_is_bound(name->node, name->slot) && *m->server &&
           strcmp(m->server, lw__node_server(name->node)) == 0;
}

/* What it is asking on its way to is another server, by whose clock its answer is. */
static bool asks_elsewhere(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ACQUIRING && claim->command.request.prev != NULL &&
           lw__node_of_command(&claim->command) != claim->name->node;
}

void lw__claim_message(void *arg, const char *text, size_t length)
{
    struct lw_client *client = arg;
    struct lw__message message;
    struct lw__claim *claim;
    struct lw__input input = {0};
    struct lw__clock_pair pair;

    if (!lw__format_read_message(text, length, client->uuid, &message)) {
        lw__log(&client->log, LOG_NOTICE,
                "a message that is not ours to understand on the channel of %s",
                client->uuid);
        return;
    }
    claim = find_claim(client, &message);
    if (claim == NULL) {
        if (message.handed && !is_being_ended(client, &message)) {
            release_unknown(client, &message);
        }
        return;
    }
    if (message.verify) {
        client->events->broken(claim);
        return;
    }
    if (!message.handed) {
        input.event = LW__EV_STANDBY;
        input.standby.window_us = message.window_ms * LW__MS;
        if (lw__machine_asks(claim->machine.phase)) {
            claim->asking.place = 1;
        }
    } else if (is_of_our_server(claim->name, &message) && !asks_elsewhere(claim)) {
        pair = clock_pair(claim, message.handed_us);
        input.event = LW__EV_HANDED_OVER;
        input.handed.handed_us = message.handed_us;
        input.handed.fence = message.fence >= (uint64_t)LW__FENCE_MIN ? message.fence : 0;
        input.handed.pair_sent_us = pair.sent_us;
        input.handed.pair_server_us = pair.server_us;
    } else {
        input.event = LW__EV_RETRY_NOW;
    }
    lw__claim_step(claim, &input);
}
