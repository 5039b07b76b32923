/* SPDX-License-Identifier: MIT */
/*
 * One token in Redis: turns replies, messages and due times into inputs of the machine,
 * and its actions into commands and events. Decides nothing itself; must not know how
 * handles share a token (turns.c does).
 *
 * Happy path: lw__token_new, START -> put_try, its two replies -> GRANTED ->
 * events->granted; RELEASE -> put_release, its reply -> events->released, events->ended.
 */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

static struct lw__token_id id_of(const struct lw__token *token)
{
    return (struct lw__token_id){token->client->uuid, token->n, token->window_ms};
}

static bool is_rw(const struct lw__token *token)
{
    return token->mode == LW_EXCLUSIVE || token->mode == LW_SHARED;
}

static const struct lw__rw *rw_of(const struct lw__token *token)
{
    return is_rw(token) ? &token->rw : NULL;
}

static void timer_due(void *arg)
{
    lw__token_event(arg, LW__EV_DUE);
}

static struct lw__token *make(struct lw_client *client, struct lw__name *name, uint64_t n,
                              uint32_t window_ms)
{
    struct lw__token *token = client->free_tokens;

    if (token != NULL) {
        client->free_tokens = token->next;
        client->free_token_count--;
    } else if ((token = malloc(sizeof(*token))) == NULL) {
        return NULL;
    }
    if (lw__loop_reserve(client->loop, 1) != 0) {
        goto fail;
    }
    if (lw__heap_reserve(&client->renewals, 1) != 0) {
        goto fail_reserved;
    }
    memset(token, 0, sizeof(*token));
    token->client = client;
    token->name = name;
    token->n = n;
    token->window_ms = window_ms;
    lw__machine_init(&token->machine);
    token->machine.window_us = (int64_t)window_ms * LW__MS;
    token->machine.lease_us = token->machine.window_us;
    lw__timer_init(&token->timer, timer_due, token);
    name->references++;
    DL_APPEND(name->tokens, token);
    client->open_tokens++;
    return token;

fail_reserved:
    lw__loop_unreserve(client->loop, 1);
fail:
    free(token);
    return NULL;
}

struct lw__token *lw__token_new(struct lw_client *client, struct lw_lock *lock)
{
    struct lw__token *token;
    char *owner = NULL;

    if (lock->owner != NULL && (owner = strdup(lock->owner)) == NULL) {
        return NULL;
    }
    token = make(client, lock->name, ++client->next_n, lock->window_ms);
    if (token == NULL) {
        free(owner);
        return NULL;
    }
    token->mode = lock->mode;
    token->rw_owner = owner;
    token->rw = (struct lw__rw){
        .write = lock->mode == LW_EXCLUSIVE, .permits = lock->permits, .owner = owner};
    return token;
}

void lw__token_free(struct lw__token *token)
{
    struct lw_client *client = token->client;

    lw__node_forget(client->node, &token->command);
    lw__timer_cancel(client->loop, &token->timer);
    lw__loop_unreserve(client->loop, 1);
    lw__renewal_forget(token);
    lw__heap_unreserve(&client->renewals, 1);
    DL_DELETE(token->name->tokens, token);
    if (token->name->shared == token) {
        token->name->shared = NULL;
    }
    lw__name_put(client, token->name);
    free(token->rw_owner);
    client->open_tokens--;
    if (client->free_token_count == LW__POOLED) {
        free(token);
        return;
    }
    client->free_token_count++;
    token->next = client->free_tokens;
    client->free_tokens = token;
}

/* ---- what is sent ---- */

/* In whose name the token asks: the first who waits, or all of them. */
static void take_terms(struct lw__token *token)
{
    const struct lw_lock *lock = token->waiting;

    if (lock != NULL && token->mode == LW_REDISSON) {
        token->machine.lease_us = lw__redisson_lease_us(token); /* they enter together */
    } else if (lock != NULL) {
        token->machine.lease_us = (int64_t)lock->lease_ms * LW__MS;
    }
}

static bool wants_fence(const struct lw__token *token)
{
    const struct lw_lock *lock;

    DL_FOREACH2(token->waiting, lock, turn_next) {
        if (!(lock->flags & LW_NO_FENCE)) {
            return true;
        }
    }
    return false;
}

static bool wants_to_join(const struct lw__token *token)
{
    const struct lw_lock *lock;

    if (!lw__node_is_bound(token->client->node) || token->machine.abandoned) {
        return false;
    }
    DL_FOREACH2(token->waiting, lock, turn_next) {
        if (!lock->once) {
            return true;
        }
    }
    return false;
}

static uint32_t lease_ms_of(const struct lw__token *token)
{
    return (uint32_t)(token->machine.lease_us / LW__MS);
}

static void put_try(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__token *token = (struct lw__token *)command;
    struct lw__token_id id = id_of(token);
    bool fence = wants_fence(token);

    take_terms(token);
    token->set_done = token->set_answered = false;
    token->numbers = fence ? 1 : 0;
    command->request.expected = fence ? 2 : 1;
    command->request.second =
        lw__put_try(out, token->name->text, &id, lease_ms_of(token), fence);
}

static void put_acquire(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__token *token = (struct lw__token *)command;
    struct lw__token_id previous = {token->client->uuid, token->previous_n,
                                    token->previous_window_ms};
    struct lw__acquire_args args = {
        .name = token->name->text,
        .token = id_of(token),
        .previous = token->machine.turning ? &previous : NULL,
        .rw = rw_of(token),
        .server = lw__node_server(token->client->node),
        .ticket = token->machine.ticket,
        .wait = wants_to_join(token),
        .fence = wants_fence(token),
    };

    take_terms(token);
    args.lease_ms = lease_ms_of(token);
    token->asked_to_join = args.wait;
    token->numbers = args.fence ? 16 : 0;
    command->request.expected = 1;
    if (token->mode == LW_REDISSON) {
        lw__put_redisson_acquire(out, command->eval, args.name, &args.token,
                                 args.lease_ms);
    } else {
        lw__put_acquire(out, command->eval, &args);
    }
}

static void put_release(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__token *token = (struct lw__token *)command;
    struct lw__token_id id = id_of(token);

    command->request.expected = 1;
    if (token->mode == LW_REDISSON) {
        lw__put_redisson_release(out, command->eval, token->name->text, &id);
    } else {
        lw__put_release(out, command->eval, token->name->text, &id, rw_of(token),
                        lw__node_server(token->client->node));
    }
}

/* ---- what comes back ---- */

static int64_t sent_us_of(const struct lw__token *token)
{
    return token->command.request.sent_us;
}

static void outcome_open(struct lw__token *token, int status, const char *why, bool sent)
{
    struct lw__input input = {.event = LW__EV_UNKNOWN,
                              .was_sent = sent,
                              .sent_us = sent ? sent_us_of(token) : 0};

    token->client->events->open(token, status, why);
    lw__token_step(token, &input);
}

static void cannot_serve(struct lw__token *token, enum lw__error_class class,
                         const char *text, bool sent)
{
    struct lw__input input = {.event = LW__EV_REFUSED, .was_sent = sent};

    if (class != LW__ERR_REFUSED) {
        outcome_open(token, class == LW__ERR_LINK ? LW_ECONN : LW_EREDIS, text, sent);
        return;
    }
    token->client->events->said(token, text);
    lw__token_step(token, &input);
}

static void server_error(struct lw__token *token, const char *text)
{
    cannot_serve(token, lw__classify(text), text, true);
}

static void no_answer(struct lw__command *command, const char *why, bool sent)
{
    struct lw__token *token = (struct lw__token *)command;

    if (sent) {
        token->client->stats.resent++;
    }
    outcome_open(token, LW_ECONN, why, sent);
}

static void try_says(struct lw__token *token, bool fence_usable, uint64_t fence)
{
    struct lw__input input = {
        .event = token->set_done && fence_usable ? LW__EV_GRANTED : LW__EV_NOT_GRANTED,
        .sent_us = sent_us_of(token),
        .fence = fence,
        .set_done = token->set_done,
    };

    if (!token->set_done) {
        lw__wait_note_contended(token->client, token->name);
    }
    lw__token_step(token, &input);
}

/* The try is over and its token has asked for more: now those of this client that came
 * after it ask. They waited, so as not to queue before it. */
static void call_siblings(struct lw_client *client, struct lw__name *name)
{
    struct lw__token *token, *next;

    DL_FOREACH_SAFE(name->tokens, token, next) {
        if (token->machine.phase == LW__QUEUED && token->machine.due_us == LW__NEVER &&
            token->mode != LW_REDISSON && lw__node_is_up(client->node)) {
            lw__token_event(token, LW__EV_ASK_NOW);
        }
    }
    lw__name_put(client, name);
}

/* For call_siblings, when the token may be gone. */
static struct lw__name *end_try(struct lw__token *token)
{
    token->trying = false;
    token->name->references++;
    return token->name;
}

static void try_unanswered(struct lw__command *command, const char *why, bool sent)
{
    struct lw__token *token = (struct lw__token *)command;
    struct lw_client *client = token->client;
    struct lw__name *name = end_try(token);

    no_answer(command, why, sent);
    call_siblings(client, name);
}

/* Two replies, of SET and of INCR. An error of SET is told once both are in. */
static bool try_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__token *token = (struct lw__token *)command;
    enum lw__reply_type type = lw__reply_type(reply);
    int64_t number = lw__reply_integer(reply);
    struct lw_client *client = token->client;
    struct lw__name *name;
    char *set_error = client->set_error; /* the two follow each other on the wire */
    bool counted;

    if (!token->set_answered) {
        token->set_answered = true;
        token->set_done = type == LW__REPLY_STATUS &&
                          strcmp(lw__reply_text(reply, NULL), "OK") == 0;
        set_error[0] = '\0';
        if (type == LW__REPLY_ERROR) {
            lw__told(lw__reply_text(reply, NULL), set_error, LW__WHY);
        } else if (!token->set_done && type != LW__REPLY_NIL) {
            return false;
        }
        if (command->request.expected > 0) {
            return true;
        }
        number = LW__FENCE_MIN; /* none was asked for */
    } else if (type != LW__REPLY_INTEGER && type != LW__REPLY_ERROR) {
        return false;
    }
    counted = number >= LW__FENCE_MIN && number < LW__FENCE_END;
    name = end_try(token);
    if (set_error[0] != '\0') {
        server_error(token, set_error);
    } else {
        try_says(token, counted, token->numbers ? (uint64_t)number : 0);
    }
    call_siblings(client, name);
    return true;
}

static void tell_of_stranger(struct lw__token *token, const char *type)
{
    if (!token->stranger_told) {
        lw__log(&token->client->log, LOG_WARNING,
                "the key %s holds a %s that is not ours: it counts as held by a "
                "stranger and is not touched",
                token->name->text, type);
    }
    token->stranger_told = true;
}

/* The lock is ours; but the server lost its counter, and cannot begin another by its
 * clock. false: a script has a number, where one is wanted. */
static bool granted_without_number(struct lw__token *token, uint64_t number)
{
    struct lw__node *node = token->client->node;

    if (number == 0) {
        return false;
    }
    lw__node_doubt_clock(node, (int64_t)number);
    outcome_open(token, LW_EREDIS, lw__node_unseeded(node)->why, true);
    return true;
}

static bool acquire_answered(struct lw__command *command, const struct lw__reply *reply)
{
    static const enum lw__event events[] = {
        [LW__ANSWER_GRANTED] = LW__EV_GRANTED,
        [LW__ANSWER_QUEUED] = LW__EV_QUEUED,
        [LW__ANSWER_DEADLOCK] = LW__EV_DEADLOCK,
    };
    struct lw__token *token = (struct lw__token *)command;
    struct lw__acquired answer;
    struct lw__input input = {.sent_us = sent_us_of(token)};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        server_error(token, lw__reply_text(reply, NULL));
        return true;
    }
    if (!lw__get_acquired(reply, token->machine.turning, &answer)) {
        return false;
    }
    if (answer.kind == LW__ANSWER_GRANTED && answer.fence < (uint64_t)LW__FENCE_MIN) {
        if (token->numbers > 0) {
            return granted_without_number(token, answer.fence);
        }
        answer.fence = 0;
    }
    input.event = events[answer.kind];
    input.fence = answer.fence;
    input.remaining_ms = answer.remaining_ms;
    input.position = answer.position;
    input.ticket = answer.ticket;
    input.server_us = answer.server_us;
    input.again = answer.again;
    input.released = answer.released;
    if (answer.kind == LW__ANSWER_QUEUED) {
        token->remaining_ms = answer.remaining_ms;
        lw__wait_note_clock(token, input.sent_us, answer.server_us);
        lw__wait_note_contended(token->client, token->name);
        /* a turn that was spent already takes no place in the queue */
        if (token->machine.turning && answer.position < 0 && token->asked_to_join) {
            token->machine.ask_again = true;
        }
    }
    if (token->mode == LW_REDISSON) {
        input.poll_ms = lw__redisson_poll_ms(token);
    }
    if (answer.stranger != NULL) {
        tell_of_stranger(token, answer.stranger);
    }
    lw__token_step(token, &input);
    return true;
}

static bool release_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__token *token = (struct lw__token *)command;
    struct lw__released answer;
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = sent_us_of(token)};

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        server_error(token, lw__reply_text(reply, NULL));
        return true;
    }
    if (token->mode == LW_REDISSON) {
        if (!lw__get_redisson_released(reply, &answer)) {
            return false;
        }
        lw__line_released(token->client, token->name->text, answer.told,
                          lw__redisson_hears(token->client, token->name->text));
    } else if (!lw__get_released(reply, is_rw(token), &answer)) {
        return false;
    }
    input.released = answer.released;
    input.holds_left = answer.holds_left;
    input.again = answer.again;
    lw__token_step(token, &input);
    return true;
}

static const struct lw__command_type try_type = {put_try, try_answered, try_unanswered,
                                                 LW__ORDER_FRESH};
static const struct lw__command_type acquire_types[LW__ORDERS] = {
    [LW__ORDER_KEEP] = {put_acquire, acquire_answered, no_answer, LW__ORDER_KEEP},
    [LW__ORDER_AGAIN] = {put_acquire, acquire_answered, no_answer, LW__ORDER_AGAIN},
    [LW__ORDER_FRESH] = {put_acquire, acquire_answered, no_answer, LW__ORDER_FRESH},
};
static const struct lw__command_type release_type = {put_release, release_answered,
                                                     no_answer, LW__ORDER_KEEP};

/* ---- the machine ---- */

static enum lw__order order_of(const struct lw__token *token)
{
    if (token->machine.claims) {
        return LW__ORDER_KEEP;
    }
    return token->machine.ticket >= 0 ? LW__ORDER_AGAIN : LW__ORDER_FRESH;
}

static void send(struct lw__token *token, unsigned actions)
{
    struct lw__node *node = token->client->node;
    const struct lw__command_type *type;
    const struct lw__unseeded *unseeded;

    if (actions & LW__SEND_RELEASE) {
        type = &release_type;
    } else if (wants_fence(token) && (unseeded = lw__node_unseeded(node)) != NULL) {
        cannot_serve(token, unseeded->class, unseeded->why, false);
        return;
    } else if (actions & LW__SEND_TRY) {
        type = &try_type;
    } else {
        type = &acquire_types[order_of(token)];
    }
    token->trying = type == &try_type;
    if (lw__node_send(node, &token->command, type)) {
        return;
    }
    token->trying = false;
    outcome_open(token, LW_ECONN, "", false);
}

static void rearm(struct lw__token *token)
{
    struct lw__machine *machine = &token->machine;

    if (machine->due_us == LW__NEVER || machine->phase == LW__HELD) {
        lw__timer_cancel(token->client->loop, &token->timer);
    } else {
        lw__timer_set(token->client->loop, &token->timer, machine->due_us);
    }
}

/* The actions taken; with LW__DO_END, the token is gone. */
__attribute__((noinline)) static unsigned step(struct lw__token *token,
                                               struct lw__input *input)
{
    const struct lw__token_events *events = token->client->events;
    struct lw__output out;

    input->now_us = lw__now_us();
    input->jitter = lw__random_between(&token->client->random, -1000, 1000);
    input->linked = lw__node_is_up(token->client->node);
    token->machine.margin_us =
        token->waiting != NULL ? (int64_t)token->waiting->margin_ms * LW__MS : 0;
    out = lw__machine_step(&token->machine, input);
    rearm(token);
    if (out.actions & LW__DO_RELEASED) {
        events->released(token, out.release_status);
    }
    if (out.actions & LW__DO_LOST) {
        events->lost(token);
    }
    if (out.actions & LW__DO_GRANT) {
        if (token->machine.by_message) {
            token->numbers = 16;
            token->client->stats.handed_over++;
        }
        events->granted(token);
    }
    if (out.actions & LW__DO_BUSY) {
        events->busy(token);
    }
    if (out.actions & LW__DO_FAIL) {
        events->failed(token, out.fail_status);
    }
    if (out.actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)) {
        send(token, out.actions);
    }
    if (out.actions & LW__DO_END) {
        events->ended(token);
    }
    return out.actions;
}

static void step_in_line(struct lw__token *token, struct lw__input *input)
{
    struct lw_client *client = token->client;
    struct lw__name *name = token->name;
    enum lw__phase before = token->machine.phase;
    bool ended;

    name->references++;
    ended = (step(token, input) & LW__DO_END) != 0;
    lw__line_moved(name, ended && before != LW__ASKING && before != LW__QUEUED);
    lw__name_put(client, name);
}

void lw__token_step(struct lw__token *token, struct lw__input *input)
{
    if (token->mode == LW_REDISSON) {
        step_in_line(token, input);
    } else {
        (void)step(token, input);
    }
}

void lw__token_event(struct lw__token *token, enum lw__event event)
{
    struct lw__input input = {.event = event};

    /* What is still to be written will ask as things stand then. */
    if (event == LW__EV_ASK_NOW && lw__node_is_unsent(&token->command)) {
        return;
    }
    if (event == LW__EV_START) {
        input.first_script = token->mode != LW_MUTEX || token->name->tokens != token ||
                             token->next != NULL ||
                             lw__wait_is_contended(token->client, token->name);
        input.behind = token->mode == LW_REDISSON
                           ? lw__line_must_wait(token)
                           : token->name->tokens->trying; /* only the first one does */
    }
    lw__token_step(token, &input);
}

void lw__token_turn(struct lw__token *token)
{
    token->previous_n = token->n;
    token->previous_window_ms = token->window_ms;
    token->n = ++token->client->next_n;
    if (token->waiting != NULL) {
        token->window_ms = token->waiting->window_ms;
    }
    token->machine.window_us = (int64_t)token->window_ms * LW__MS;
    lw__token_event(token, LW__EV_TURN);
}

/* A hand-over to a token of ours that nobody here knows any more: a command of a
 * connection long gone had asked for it. */
void lw__token_give_back(struct lw_client *client, const char *text,
                         const struct lw__message *message)
{
    struct lw__name *name = lw__name_get(client, text);
    struct lw__token *token;

    if (name == NULL) {
        return;
    }
    token = make(client, name, message->n, message->token_window_ms);
    lw__name_put(client, name);
    if (token == NULL) {
        return;
    }
    token->mode = message->rw ? LW_SHARED
                              : LW_MUTEX; /* its script releases either kind */
    lw__token_event(token, LW__EV_RELEASE);
}
