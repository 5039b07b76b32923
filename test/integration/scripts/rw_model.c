/* SPDX-License-Identifier: MIT
 *
 * The read-write lock of rw_model.h, and what must be true of every state. Each decision
 * whether a waiter may enter counts the holds afresh. Independent of Redis. */
#include "rw_model.h"

#include <stdlib.h>

enum { RW_HEADS = 128, NOTED_AT_ONCE = 16 };

static bool is_dead(int token)
{
    return model_client(token) == MODEL_DEAD_CLIENT;
}

/* Returns the number of holds of this kind (0: both) and of this owner (MODEL_NOBODY:
 * all). */
static int count_holds(const struct rw_model *model, char kind, int owner)
{
    int count = 0;

    for (int i = 0; i < model->holds.count; i++) {
        const struct model_token *token = &model->tokens[model->holds.entries[i].token];
        count += (!kind || token->kind == kind) &&
                 (owner == MODEL_NOBODY || token->owner == owner);
    }
    return count;
}

/* Returns true if the owner of this token holds. */
static bool holds(const struct rw_model *model, int token)
{
    return count_holds(model, 0, model->tokens[token].owner) > 0;
}

static int count_readers(const struct rw_model *model)
{
    int count = 0;

    for (int owner = 0; owner < MODEL_OWNERS; owner++) {
        count += count_holds(model, 'r', owner) > 0;
    }
    return count;
}

static bool admits(const struct rw_model *model, int index)
{
    const struct model_token *token = &model->tokens[index];
    bool own = holds(model, index);
    bool alone = count_holds(model, 0, token->owner) == model->holds.count;

    if (token->kind == 'w' || count_holds(model, 'w', MODEL_NOBODY) > 0) {
        return alone;
    }
    return own || token->permits == 0 || count_readers(model) < token->permits;
}

/* Returns true for a new fencing token: the owner enters, or begins to write. */
static bool add(struct rw_model *model, int index)
{
    const struct model_token *token = &model->tokens[index];
    bool fresh = count_holds(model, 0, token->owner) == 0 ||
                 (token->kind == 'w' && count_holds(model, 'w', token->owner) == 0);

    model_append(&model->holds, index);
    return fresh;
}

/* Clears the notes unless the lock has readers: only then may a head keep others out that
 * could enter. */
static void holds_changed(struct rw_model *model)
{
    if (count_holds(model, 'r', MODEL_NOBODY) == 0) {
        model->notes.count = 0;
    }
}

static void leave(struct rw_model *model, int token)
{
    if (model_find(&model->queue, token) < 0) {
        return;
    }
    model_remove(&model->queue, token);
    model_remove(&model->notes, token);
}

/* Notes that the waiter has requested now, as far as is known. */
static void note(struct rw_model *model, int token)
{
    struct model_list *notes = &model->notes;
    int at = model_find(notes, token);

    if (at < 0) {
        model_append(notes, token);
    } else {
        notes->entries[at].ended = false;
    }
}

static bool hangs(struct rw_model *model, int token)
{
    const struct model_list *queue = &model->queue;
    int at = model_find(&model->notes, token);

    if (at >= 0) {
        return model->notes.entries[at].ended;
    }
    for (int i = 0; i < queue->count && i < NOTED_AT_ONCE; i++) {
        if (model_find(&model->notes, queue->entries[i].token) < 0) {
            note(model, queue->entries[i].token);
        }
    }
    return false;
}

/* Only upgraders wait before all others. Former upgraders move to the end of the queue,
 * as if they came now. */
static void settle(struct rw_model *model)
{
    struct model_list *queue = &model->queue;

    for (int i = 0; i < queue->count && queue->entries[i].ticket == 0;) {
        int token = queue->entries[i].token;

        if (holds(model, token)) {
            i++;
            continue;
        }
        model_remove_at(queue, i);
        model_append(queue, token);
    }
}

static bool purge(struct rw_model *model)
{
    int before = model->holds.count;

    for (int i = model->holds.count - 1; i >= 0; i--) {
        if (model->holds.entries[i].ended) {
            model_remove_at(&model->holds, i);
        }
    }
    holds_changed(model);
    settle(model);
    return model->holds.count < before;
}

static void rw_grant(struct rw_model *model, int token, struct model_answer *answer)
{
    bool held = model_find(&model->holds, token) >= 0;
    bool fresh = !held && add(model, token);

    leave(model, token);
    answer->outcome = 1;
    model_tell(answer, MODEL_GRANTED, token, fresh, MODEL_NOBODY);
}

/* Returns true if another token could enter were it not for this head, which may not. */
static bool keeps_out(const struct rw_model *model, int head, int me)
{
    const struct model_list *queue = &model->queue;

    if (head == me || count_holds(model, 'w', MODEL_NOBODY) > 0) {
        return false;
    }
    if (me != MODEL_NOBODY) {
        return admits(model, me);
    }
    return queue->count > 1 &&
           (model->tokens[head].kind == 'w' || admits(model, queue->entries[1].token));
}

static void serve(struct rw_model *model, int me, struct model_answer *answer)
{
    struct model_list *queue = &model->queue;
    int widest = MODEL_NOBODY; /* the token let in that has the longest window */

    for (int tried = 0; queue->count > 0; tried++) {
        int head = queue->entries[0].token;
        if (!admits(model, head)) {
            if (keeps_out(model, head, me) && (hangs(model, head) || is_dead(head))) {
                leave(model, head);
                continue;
            }
            if (widest != MODEL_NOBODY) {
                model_tell(answer, MODEL_STANDBY, head, false, widest);
            }
            return;
        }
        if (tried == RW_HEADS) {
            abort(); /* more than this test queues */
        }
        if (head == me) {
            rw_grant(model, me, answer);
            continue;
        }
        leave(model, head);
        if (is_dead(head)) {
            continue;
        }
        model_tell(answer, MODEL_HANDED_OVER, head, add(model, head), MODEL_NOBODY);
        if (widest == MODEL_NOBODY ||
            model->tokens[head].window > model->tokens[widest].window) {
            widest = head;
        }
    }
}

/* Returns true if another owner that reads waits to write. Removes dead ones. */
static bool has_rival(struct rw_model *model, int index)
{
    for (int i = 0; i < model->queue.count;) {
        struct model_entry *entry = &model->queue.entries[i];
        int owner = model->tokens[entry->token].owner;

        if (entry->ticket != 0) {
            return false;
        }
        if (is_dead(entry->token)) {
            leave(model, entry->token);
        } else if (owner != model->tokens[index].owner &&
                   count_holds(model, 'r', owner) > 0) {
            return true;
        } else {
            i++;
        }
    }
    return false;
}

/* Returns true if the token need not queue: there are no waiters, or its owner holds. */
static bool enters(const struct rw_model *model, int token)
{
    return admits(model, token) && (holds(model, token) || model->queue.count == 0);
}

static void take(struct rw_model *model, int token, struct model_answer *answer)
{
    serve(model, token, answer);
    if (answer->outcome == 0 && enters(model, token)) {
        rw_grant(model, token, answer);
    }
}

static void acquire(struct rw_model *model, const struct model_call *call,
                    struct model_answer *answer)
{
    struct model_list *queue = &model->queue;
    int token = call->token;
    long long ticket = call->ticket;
    bool own, full = false;

    purge(model);
    own = holds(model, token);
    if (model_find(&model->holds, token) >= 0 || enters(model, token)) {
        rw_grant(model, token, answer);
        serve(model, MODEL_NOBODY, answer);
        return;
    }
    if (own && has_rival(model, token)) {
        answer->outcome = -1;
        return;
    }
    if (own || ticket == 0) {
        ticket = own ? 0 : MODEL_NO_TICKET;
    }
    answer->ticket = ticket;
    if (call->limit > 0 && !own) { /* waiters are served before they are counted */
        take(model, token, answer);
        full = !holds(model, token) && model_full(queue, token, call->limit);
    }
    if (answer->outcome == 0 && !answer->again) {
        if (call->wait && !full) {
            model_join(queue, token, ticket, answer);
        }
        take(model, token, answer);
    }
    if (answer->outcome == 0 && !full && call->wait && answer->ticket != 0 &&
        holds(model, token)) {
        model_remove(queue, token);
        model_join(queue, token, 0, answer);
    }
    answer->position = full && !answer->again ? MODEL_FULL : model_find(queue, token);
    if (answer->position >= 0 && count_holds(model, 'r', MODEL_NOBODY) > 0) {
        note(model, token);
    }
}

static void release(struct rw_model *model, int token, bool closed,
                    struct model_answer *answer)
{
    answer->released = model_find(&model->holds, token) >= 0;
    model_remove(&model->holds, token);
    holds_changed(model);
    leave(model, token);
    purge(model);
    if (!closed) {
        serve(model, MODEL_NOBODY, answer);
    }
    answer->left = count_holds(model, 0, model->tokens[token].owner);
}

static void renew(struct rw_model *model, int token, bool closed,
                  struct model_answer *answer)
{
    bool purged = purge(model);

    answer->outcome = model_find(&model->holds, token) >= 0;
    if (!closed && (purged || !answer->outcome)) {
        serve(model, MODEL_NOBODY, answer);
    }
}

static void adopt(struct rw_model *model, int old, int token, struct model_answer *answer)
{
    int at = model_find(&model->holds, token);
    bool fresh = at < 0;

    at = fresh ? model_find(&model->holds, old) : at;
    answer->outcome = -1;
    if (at >= 0 && !(fresh && model->holds.entries[at].ended)) {
        model->holds.entries[at].token = token;
        model->holds.entries[at].ended = false;
        answer->outcome = 1;
        model_tell(answer, MODEL_GRANTED, token, fresh, MODEL_NOBODY);
    }
}

void rw_model_run(struct rw_model *model, const struct model_call *call,
                  struct model_answer *answer)
{
    int at = model_find(&model->holds, call->token);

    model_begin(answer, call->ticket);
    switch (call->kind) {
    case MODEL_RELEASE:
        release(model, call->token, call->closed, answer);
        return;
    case MODEL_RENEW:
        renew(model, call->token, call->closed, answer);
        return;
    case MODEL_DETACH:
        answer->outcome = at >= 0 && !model->holds.entries[at].ended;
        if (answer->outcome) {
            model_detached(&model->queue, answer);
        }
        return;
    case MODEL_ADOPT:
        adopt(model, call->old, call->token, answer);
        return;
    default:
        acquire(model, call, answer);
    }
}

bool rw_model_head_could_enter(const struct rw_model *model)
{
    return model->queue.count > 0 && admits(model, model->queue.entries[0].token);
}

bool rw_model_excludes(const struct rw_model *model)
{
    for (int i = 0; i < model->holds.count; i++) {
        const struct model_token *token = &model->tokens[model->holds.entries[i].token];
        if (token->kind == 'w' &&
            count_holds(model, 0, token->owner) != model->holds.count) {
            return false;
        }
    }
    return true;
}
