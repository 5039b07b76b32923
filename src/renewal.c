/* SPDX-License-Identifier: MIT */
/*
 * Who is due for renewal when, in batches: a heap of held tokens by due time, one timer
 * for all, up to 32 keys a script. And the renewals that callers ask for, each by itself.
 * Must not decide what a renewal's answer means for a lock; machine.c and turns.c do.
 *
 * Happy path: lw__renewal_plan at each grant; at a third of the lease (earlier by a
 * random share, so that many do not come at once) the batch goes out; its answer ->
 * RENEWED.
 */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BATCH (sizeof((struct lw__batch *)0)->tokens / sizeof(struct lw__token *))
#define RETRY_US (50 * LW__MS)
/* Batches of many locks: waking up costs both sides more than a batch. */
#define AT_ONCE 4

static void due(void *arg);

void lw__renewal_init(struct lw_client *client)
{
    lw__timer_init(&client->renewal_timer, due, client);
}

void lw__renewal_clear(struct lw_client *client)
{
    while (client->all_batches != NULL) {
        struct lw__batch *batch = client->all_batches;

        client->all_batches = batch->older;
        free(batch);
    }
    lw__heap_clear(&client->renewals);
}

static struct lw__token *token_of(struct lw__heap_node *node)
{
    return (struct lw__token *)((char *)node - offsetof(struct lw__token, renewal));
}

static void rearm(struct lw_client *client)
{
    const struct lw__heap_entry *first = lw__heap_first(&client->renewals);

    if (first == NULL) {
        lw__timer_cancel(client->loop, &client->renewal_timer);
    } else if (first->key < lw__timer_due_us(client->loop, &client->renewal_timer)) {
        lw__timer_set(client->loop, &client->renewal_timer, first->key);
    }
}

/* One whose renewal is in flight is planned when that is answered. */
static void plan_at(struct lw__token *token, int64_t due_us)
{
    if (token->batch != NULL) {
        return;
    }
    lw__heap_set(&token->client->renewals, &token->renewal, due_us);
    rearm(token->client);
}

static int64_t lease_us_of(const struct lw__token *token)
{
    const struct lw_lock *lock = token->holder != NULL ? token->holder : token->waiting;

    if (token->mode == LW_REDISSON) {
        return lw__redisson_lease_us(token);
    }
    return lock != NULL ? (int64_t)lock->lease_ms * LW__MS : token->machine.lease_us;
}

/* What an answer to a renewal is worth: a lease that was made shorter since stays
 * short. */
static int64_t believed_us(const struct lw__token *token, uint32_t asked_ms)
{
    int64_t asked = (int64_t)asked_ms * LW__MS, lease = lease_us_of(token);

    return asked < lease ? asked : lease;
}

static bool renews(const struct lw__token *token)
{
    return token->machine.by_message || token->renewing_for_next ||
           (token->holder != NULL && !(token->holder->flags & LW_NO_RENEW)) ||
           (token->mode == LW_REDISSON &&
            (token->waiting != NULL || token->entered_us != 0));
}

/* The lease to ask for, in ms, so that D never passes the end of max_hold_ms. 1 extends
 * nothing, and so only asks whether the lock is still ours. */
static uint32_t lease_ms_for(const struct lw__token *token, int64_t now_us)
{
    int64_t lease = lease_us_of(token);

    if (!renews(token)) {
        return 1;
    }
    if (token->holder != NULL && token->holder->hold_until_us != LW__NEVER &&
        token->holder->hold_until_us - now_us < lease) {
        lease = token->holder->hold_until_us - now_us;
    }
    return lease < LW__MS ? 1 : (uint32_t)(lease / LW__MS);
}

/* What is left until max_hold_ms ends it is covered already. */
static bool is_covered(const struct lw__token *token)
{
    const struct lw_lock *lock = token->holder;

    return lock != NULL && lock->hold_until_us != LW__NEVER &&
           token->machine.deadline_us + lw__drift_us(lease_us_of(token)) + LW__MS >=
               lock->hold_until_us;
}

/* Where a margin takes much of what is left, half of the rest is for the answer. */
static int64_t soon_enough(const struct lw__token *token, int64_t at)
{
    int64_t now = lw__now_us(), latest = token->machine.deadline_us;

    if (token->holder != NULL) {
        latest -= (int64_t)token->holder->margin_ms * LW__MS;
    }
    latest = now + (latest - now) / 2;
    return at < latest ? at : latest;
}

void lw__renewal_plan(struct lw__token *token)
{
    struct lw_client *client = token->client;
    int64_t lease = lease_us_of(token), at;

    if (token->machine.phase != LW__HELD || !renews(token) || is_covered(token)) {
        lw__heap_remove(&client->renewals, &token->renewal);
        return;
    }
    if (token->machine.by_message) {
        at = token->machine.due_us;
    } else if (token->entered_us != 0) {
        at = lw__now_us();
    } else {
        at = token->machine.deadline_us - lease + lease / 3 -
             lw__random_between(&client->random, 0, lease / 20);
    }
    plan_at(token, soon_enough(token, at));
}

void lw__renewal_now(struct lw__token *token)
{
    plan_at(token, lw__now_us());
}

void lw__renewal_forget(struct lw__token *token)
{
    lw__heap_remove(&token->client->renewals, &token->renewal);
    if (token->batch == NULL) {
        return;
    }
    for (unsigned i = 0; i < token->batch->count; i++) {
        if (token->batch->tokens[i] == token) {
            token->batch->tokens[i] = NULL;
        }
    }
    token->batch = NULL;
}

/* ---- batches ---- */

/* Which script: LW_EXCLUSIVE stands for both modes of a read-write lock. */
static uint8_t script_of(const struct lw__token *token)
{
    return token->mode == LW_SHARED ? LW_EXCLUSIVE : token->mode;
}

static void put_renewals(const struct lw_client *client, struct lw__buffer *out,
                         bool eval, uint8_t script, size_t count,
                         const struct lw__renew_args *args)
{
    if (script == LW_REDISSON) {
        lw__put_redisson_renew(out, eval, count, args);
    } else {
        lw__put_renew(out, eval, count, args,
                      script == LW_EXCLUSIVE ? lw__node_server(client->node) : NULL);
    }
}

static void put_batch(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__batch *batch = (struct lw__batch *)command;
    struct lw__renew_args args[BATCH];
    unsigned kept = 0;
    int64_t now = lw__now_us();

    for (unsigned i = 0; i < batch->count; i++) {
        struct lw__token *token = batch->tokens[i];

        if (token == NULL) {
            continue;
        }
        batch->tokens[kept] = token;
        batch->lease_ms[kept] = lease_ms_for(token, now);
        args[kept] = (struct lw__renew_args){
            .name = token->name->text,
            .token = {token->client->uuid, token->n, token->window_ms},
            .lease_ms = batch->lease_ms[kept],
        };
        kept++;
    }
    batch->count = kept;
    command->request.expected = 1;
    put_renewals(batch->client, out, command->eval, batch->mode, kept, args);
}

static void free_batch(struct lw__batch *batch)
{
    batch->next = batch->client->free_batches;
    batch->client->free_batches = batch;
}

/* The outcome is open: soon again, well before the deadline. */
static void try_again(struct lw__token *token)
{
    int64_t delay = lease_us_of(token) / 20;

    if (token->machine.phase == LW__HELD) {
        plan_at(token, lw__now_us() + (delay < RETRY_US ? RETRY_US : delay));
    }
    token->client->events->renewed(token, false);
}

static void batch_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__batch *batch = (struct lw__batch *)command;

    (void)why;
    (void)sent;
    for (unsigned i = 0; i < batch->count; i++) {
        struct lw__token *token = batch->tokens[i];

        if (token == NULL) {
            continue;
        }
        token->batch = NULL;
        try_again(token);
    }
    free_batch(batch);
}

static void answered_one(struct lw__batch *batch, unsigned i, bool renewed)
{
    struct lw__token *token = batch->tokens[i];
    struct lw__input input = {
        .event = renewed ? LW__EV_RENEWED : LW__EV_GONE,
        .sent_us = batch->command.request.sent_us,
    };

    if (token == NULL) {
        return;
    }
    token->batch = NULL;
    if (input.sent_us > token->entered_us) {
        token->entered_us = 0;
    }
    input.lease_us = believed_us(token, batch->lease_ms[i]);
    if (renewed) {
        batch->client->stats.renewed++;
    }
    lw__token_step(token, &input);
    if (renewed) {
        batch->client->events->renewed(token, true);
    }
}

static bool batch_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__batch *batch = (struct lw__batch *)command;
    bool renewed[BATCH];

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        for (unsigned i = 0; i < batch->count; i++) {
            if (batch->tokens[i] != NULL) {
                batch->client->events->said(batch->tokens[i],
                                            lw__reply_text(reply, NULL));
            }
        }
        batch_failed(command, "", true);
        return true;
    }
    if (!lw__get_renewed(reply, batch->count, renewed)) {
        return false;
    }
    for (unsigned i = 0; i < batch->count; i++) {
        answered_one(batch, i, renewed[i]);
    }
    free_batch(batch);
    return true;
}

static const struct lw__command_type batch_type = {put_batch, batch_answered,
                                                   batch_failed, LW__ORDER_KEEP};

static struct lw__batch *take_batch(struct lw_client *client)
{
    struct lw__batch *batch = client->free_batches;

    if (batch != NULL) {
        client->free_batches = batch->next;
    } else {
        batch = malloc(sizeof(*batch));
        if (batch == NULL) {
            return NULL;
        }
        batch->older = client->all_batches;
        client->all_batches = batch;
    }
    *batch = (struct lw__batch){.client = client, .older = batch->older};
    return batch;
}

/* So that batches fill. */
static bool is_nearly_due(const struct lw__heap_entry *entry, int64_t now_us)
{
    return entry->key - lease_us_of(token_of(entry->node)) / 60 <= now_us;
}

static void fill(struct lw__batch *batch, int64_t now_us)
{
    struct lw_client *client = batch->client;
    const struct lw__heap_entry *first;

    while (batch->count < BATCH && (first = lw__heap_first(&client->renewals)) != NULL) {
        struct lw__token *token = token_of(first->node);

        if (batch->count > 0 && batch->mode != script_of(token)) {
            break;
        }
        if (!is_nearly_due(first, now_us)) {
            break;
        }
        if (now_us > first->key + lease_us_of(token) / 10) {
            client->stats.renewals_late++;
        }
        lw__heap_remove(&client->renewals, &token->renewal);
        batch->mode = script_of(token);
        token->batch = batch;
        batch->tokens[batch->count++] = token;
    }
}

static void due(void *arg)
{
    struct lw_client *client = arg;
    int64_t now = lw__now_us();
    const struct lw__heap_entry *first;
    unsigned full = 0; /* batches */

    if (!lw__node_is_up(client->node)) {
        return; /* coming up has all holds verified */
    }
    while ((first = lw__heap_first(&client->renewals)) != NULL &&
           (first->key <= now ||
            (full > 0 && full < AT_ONCE && is_nearly_due(first, now)))) {
        struct lw__batch *batch = take_batch(client);

        if (batch == NULL) { /* memory: again soon */
            lw__timer_set(client->loop, &client->renewal_timer, now + RETRY_US);
            return;
        }
        fill(batch, now);
        full = batch->count == BATCH ? full + 1 : AT_ONCE;
        if (!lw__node_send(client->node, &batch->command, &batch_type)) {
            batch_failed(&batch->command, "", false);
        }
    }
    rearm(client);
}

/* ---- lw_renew ---- */

static void put_extension(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__extension *extension = (struct lw__extension *)command;
    struct lw__token *token = extension->lock->token;
    struct lw__renew_args args = {
        .name = token->name->text,
        .token = {token->client->uuid, token->n, token->window_ms},
    };
    int64_t left = extension->lock->hold_until_us - lw__now_us();

    if (extension->lock->hold_until_us != LW__NEVER &&
        left < (int64_t)extension->lease_ms * LW__MS) {
        extension->lease_ms = left < LW__MS ? 1 : (uint32_t)(left / LW__MS);
    }
    args.lease_ms = extension->lease_ms;
    command->request.expected = 1;
    put_renewals(token->client, out, command->eval, script_of(token), 1, &args);
}

static void extension_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__extension *extension = (struct lw__extension *)command;

    (void)sent;
    lw__lock_set_errstr(extension->lock, why);
    lw__notify_extension(extension, LW_ECONN);
}

static bool extension_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__extension *extension = (struct lw__extension *)command;
    struct lw__token *token = extension->lock->token;
    bool renewed;
    struct lw__input input = {
        .sent_us = command->request.sent_us,
    };

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__lock_set_errstr(extension->lock, lw__reply_text(reply, NULL));
        lw__notify_extension(extension, LW_EREDIS);
        return true;
    }
    if (!lw__get_renewed(reply, 1, &renewed)) {
        return false;
    }
    input.event = renewed ? LW__EV_RENEWED : LW__EV_GONE;
    input.lease_us = believed_us(token, extension->lease_ms);
    if (renewed) {
        token->client->stats.renewed++;
        lw__notify_extension(extension, LW_OK);
    }
    lw__token_step(token, &input); /* gone: ends this one, too */
    if (renewed) {
        token->client->events->renewed(token, true);
    }
    return true;
}

static const struct lw__command_type extension_type = {put_extension, extension_answered,
                                                       extension_failed, LW__ORDER_KEEP};

int lw__extension_new(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                      void *arg)
{
    struct lw__extension *extension = calloc(1, sizeof(*extension));

    if (extension == NULL) {
        return LW_ENOMEM;
    }
    extension->lock = lock;
    extension->done = done;
    extension->arg = arg;
    extension->lease_ms = lease_ms;
    DL_APPEND(lock->extensions, extension);
    if (lock->notice.kind == LW__NOTICE_LOST || lock->token == NULL) {
        lw__notify_extension(extension, LW_ELOST);
    } else if (!lw__node_send(lock->client->node, &extension->command, &extension_type)) {
        lw__notify_extension(extension, LW_ECONN);
    }
    return 0;
}

void lw__extension_end_all(struct lw_lock *lock, int status)
{
    struct lw__extension *extension;

    DL_FOREACH(lock->extensions, extension) {
        /* One that is answered but not told yet is pending as well, for the caller. */
        if (extension->notice.kind == LW__NOTICE_NONE) {
            lw__node_forget(lock->client->node, &extension->command);
        }
        lw__notify_extension(extension, status);
    }
}

void lw__extension_free(struct lw__extension *extension)
{
    struct lw_lock *lock = extension->lock;

    lw__notify_cancel(lock->client, &extension->notice);
    lw__node_forget(lock->client->node, &extension->command);
    DL_DELETE(lock->extensions, extension);
    free(extension);
}
