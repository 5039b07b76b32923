/* SPDX-License-Identifier: MIT
 *
 * The read-write lock of script_model.h, and what must be true of every state. Each
 * decision whether a waiter may enter counts the holds afresh. Independent of Redis. */
#include "script_model_inside.h"

#include <stdlib.h>

enum { RW_HEADS = 128, NOTED_AT_ONCE = 16 };

/* Returns the number of holds of this kind (0: both) and of this owner (MODEL_NOBODY:
 * all). */
static int count_holds(const struct model *model, char kind, int owner)
{
    int count = 0;

    for (int i = 0; i < model->holds.count; i++) {
        const struct model_token *token =
            model_token_of(model, model->holds.entries[i].token);
        count += (!kind || token->kind == kind) &&
                 (owner == MODEL_NOBODY || token->owner == owner);
    }
    return count;
}

/* Returns true if the owner of this token holds. */
static bool holds(const struct model *model, int token)
{
    return count_holds(model, 0, model_token_of(model, token)->owner) > 0;
}

static int count_readers(const struct model *model)
{
    int count = 0;

    for (int owner = 0; owner < MODEL_OWNERS; owner++) {
        count += count_holds(model, 'r', owner) > 0;
    }
    return count;
}

static bool admits(const struct model *model, int index)
{
    const struct model_token *token = model_token_of(model, index);
    bool own = holds(model, index);
    bool alone = count_holds(model, 0, token->owner) == model->holds.count;

    if (token->kind == 'w' || count_holds(model, 'w', MODEL_NOBODY) > 0) {
        return alone;
    }
    return own || token->permits == 0 || count_readers(model) < token->permits;
}

/* Returns true for a new fencing token: the owner enters, or begins to write. */
static bool add(struct model *model, int index)
{
    const struct model_token *token = model_token_of(model, index);
    bool fresh = count_holds(model, 0, token->owner) == 0 ||
                 (token->kind == 'w' && count_holds(model, 'w', token->owner) == 0);

    if (model->holds.count == MODEL_CAPACITY) {
        abort();
    }
    model->holds.entries[model->holds.count++] = (struct model_entry){.token = index};
    return fresh;
}

/* Clears the notes unless the lock has readers: only then may a head keep others out that
 * could enter. */
static void holds_changed(struct model *model)
{
    if (count_holds(model, 'r', MODEL_NOBODY) == 0) {
        model->notes.count = 0;
    }
}

void model_vanish(struct model *model)
{
    model->holds.count = 0;
    holds_changed(model);
}

static void leave(struct model *model, int token)
{
    if (model_find(&model->rw_queue, token) < 0) {
        return;
    }
    model_remove(&model->rw_queue, token);
    model_remove(&model->notes, token);
}

/* Notes that the waiter has requested now, as far as is known. */
static void note(struct model *model, int token)
{
    struct model_list *notes = &model->notes;
    int at = model_find(notes, token);

    if (at < 0) {
        at = notes->count++;
    }
    if (at == MODEL_CAPACITY) {
        abort();
    }
    notes->entries[at] = (struct model_entry){.token = token};
}

static bool hangs(struct model *model, int token)
{
    const struct model_list *queue = &model->rw_queue;
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
static void settle(struct model *model)
{
    struct model_list *queue = &model->rw_queue;

    for (int i = 0; i < queue->count && queue->entries[i].ticket == 0;) {
        int token = queue->entries[i].token;

        if (holds(model, token)) {
            i++;
            continue;
        }
        model_remove_at(queue, i);
        queue->entries[queue->count++] =
            (struct model_entry){token, MODEL_NO_TICKET, false};
    }
}

static bool purge(struct model *model)
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

static void rw_grant(struct model *model, int token, struct model_answer *answer)
{
    bool held = model_find(&model->holds, token) >= 0;
    bool fresh = !held && add(model, token);

    leave(model, token);
    answer->outcome = 1;
    model_tell(model, answer, (struct model_event){MODEL_ANSWER, token, fresh, 0});
}

/* Returns true if another token could enter were it not for this head, which may not. */
static bool keeps_out(const struct model *model, int head, int me)
{
    const struct model_list *queue = &model->rw_queue;

    if (head == me || count_holds(model, 'w', MODEL_NOBODY) > 0) {
        return false;
    }
    if (me != MODEL_NOBODY) {
        return admits(model, me);
    }
    return queue->count > 1 && (model_token_of(model, head)->kind == 'w' ||
                                admits(model, queue->entries[1].token));
}

static void serve(struct model *model, int me, struct model_answer *answer)
{
    struct model_list *queue = &model->rw_queue;
    int window = 0;

    if (model->closed) {
        return;
    }
    for (int tried = 0; queue->count > 0; tried++) {
        int head = queue->entries[0].token;
        if (!admits(model, head)) {
            if (keeps_out(model, head, me) &&
                (hangs(model, head) || model_dead(model, head))) {
                leave(model, head);
                continue;
            }
            if (window > 0) {
                model_tell(model, answer,
                           (struct model_event){MODEL_STANDBY, head, false, window});
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
        if (model_dead(model, head)) {
            continue;
        }
        model_tell(model, answer,
                   (struct model_event){MODEL_TURN, head, add(model, head), 0});
        if (model_token_of(model, head)->window > window) {
            window = model_token_of(model, head)->window;
        }
    }
}

/* Returns true if another owner that reads waits to write. Removes dead ones. */
static bool has_rival(struct model *model, int index)
{
    for (int i = 0; i < model->rw_queue.count;) {
        struct model_entry *entry = &model->rw_queue.entries[i];
        int owner = model_token_of(model, entry->token)->owner;

        if (entry->ticket != 0) {
            return false;
        }
        if (model_dead(model, entry->token)) {
            leave(model, entry->token);
        } else if (owner != model_token_of(model, index)->owner &&
                   count_holds(model, 'r', owner) > 0) {
            return true;
        } else {
            i++;
        }
    }
    return false;
}

/* Returns true if the token need not queue: there are no waiters, or its owner holds. */
static bool enters(const struct model *model, int token)
{
    return admits(model, token) && (holds(model, token) || model->rw_queue.count == 0);
}

void model_rw_acquire(struct model *model, int token, bool wait, long long ticket,
                      struct model_answer *answer)
{
    struct model_list *queue = &model->rw_queue;
    bool own, full = false;

    model_begin(answer, ticket);
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
    if (model->limit > 0 && !own) { /* waiters are served before they are counted */
        serve(model, token, answer);
        if (answer->outcome == 0 && enters(model, token)) {
            rw_grant(model, token, answer);
        }
        full = !holds(model, token) && model_full(model, queue, token);
    }
    if (answer->outcome == 0 && !answer->again) {
        if (wait && !full) {
            model_join(model, queue, token, ticket, answer);
        }
        serve(model, token, answer);
        if (answer->outcome == 0 && enters(model, token)) {
            rw_grant(model, token, answer);
        }
    }
    if (answer->outcome == 0 && !full && wait && answer->ticket != 0 &&
        holds(model, token)) {
        model_remove(queue, token);
        model_join(model, queue, token, 0, answer);
    }
    answer->position = full && !answer->again ? MODEL_FULL : model_find(queue, token);
    if (answer->position >= 0 && count_holds(model, 'r', MODEL_NOBODY) > 0) {
        note(model, token);
    }
}

void model_rw_release(struct model *model, int token, struct model_answer *answer)
{
    model_begin(answer, MODEL_NO_TICKET);
    answer->released = model_find(&model->holds, token) >= 0;
    model_remove(&model->holds, token);
    holds_changed(model);
    leave(model, token);
    purge(model);
    serve(model, MODEL_NOBODY, answer);
    answer->left = count_holds(model, 0, model_token_of(model, token)->owner);
}

void model_rw_renew(struct model *model, int token, struct model_answer *answer)
{
    bool purged;

    model_begin(answer, MODEL_NO_TICKET);
    purged = purge(model);
    answer->outcome = model_find(&model->holds, token) >= 0;
    if (purged || !answer->outcome) {
        serve(model, MODEL_NOBODY, answer);
    }
}

bool model_head_could_enter(const struct model *model, bool rw)
{
    if (!rw) {
        return model->holder == MODEL_NOBODY && model->queue.count > 0;
    }
    return model->rw_queue.count > 0 && admits(model, model->rw_queue.entries[0].token);
}

bool model_excludes(const struct model *model)
{
    for (int i = 0; i < model->holds.count; i++) {
        const struct model_token *token =
            model_token_of(model, model->holds.entries[i].token);
        if (token->kind == 'w' &&
            count_holds(model, 0, token->owner) != model->holds.count) {
            return false;
        }
    }
    return true;
}
