/* SPDX-License-Identifier: MIT
 *
 * The mutex of script_model.h, and the lists. Lists are arrays, searched from the front,
 * and counts are never stored. Independent of Redis. */
#include "script_model_inside.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 16 };

const struct model_token *model_token_of(const struct model *model, int token)
{
    return &model->tokens[token];
}

bool model_dead(const struct model *model, int token)
{
    return model_token_of(model, token)->client == MODEL_DEAD_CLIENT;
}

int model_find(const struct model_list *list, int token)
{
    for (int i = 0; i < list->count; i++) {
        if (list->entries[i].token == token) {
            return i;
        }
    }
    return -1;
}

void model_remove_at(struct model_list *list, int i)
{
    list->count--;
    memmove(&list->entries[i], &list->entries[i + 1],
            (size_t)(list->count - i) * sizeof(list->entries[0]));
}

void model_remove(struct model_list *list, int token)
{
    int i = model_find(list, token);

    if (i >= 0) {
        model_remove_at(list, i);
    }
}

/* Compares the members' text, as Redis does if two tickets are the same. */
static int compare_members(const struct model *model, int x, int y)
{
    const struct model_token *a = model_token_of(model, x), *b = model_token_of(model, y);

    if (a->kind != b->kind) {
        return a->kind - b->kind;
    }
    if (a->permits != b->permits) {
        return a->permits - b->permits;
    }
    return strcmp(a->text, b->text);
}

void model_join(struct model *model, struct model_list *list, int token, long long ticket,
                struct model_answer *answer)
{
    int at = model_find(list, token);

    if (at < 0) {
        if (list->count == MODEL_CAPACITY) {
            abort();
        }
        at = list->count;
        while (ticket != MODEL_NO_TICKET && at > 0 &&
               (list->entries[at - 1].ticket == MODEL_NO_TICKET || /* it has just come */
                list->entries[at - 1].ticket > ticket ||
                (list->entries[at - 1].ticket == ticket &&
                 compare_members(model, list->entries[at - 1].token, token) > 0))) {
            at--;
        }
        memmove(&list->entries[at + 1], &list->entries[at],
                (size_t)(list->count - at) * sizeof(list->entries[0]));
        list->entries[at] = (struct model_entry){.token = token, .ticket = ticket};
        list->count++;
    }
    answer->ticket = list->entries[at].ticket;
}

bool model_full(const struct model *model, const struct model_list *list, int token)
{
    return model->limit > 0 && list->count >= model->limit && model_find(list, token) < 0;
}

void model_tell(struct model *model, struct model_answer *answer,
                struct model_event event)
{
    if (event.what != MODEL_ANSWER && model_dead(model, event.token)) {
        return;
    }
    if (answer->event_count == MODEL_CAPACITY) {
        abort();
    }
    answer->events[answer->event_count++] = event;
}

void model_begin(struct model_answer *answer, long long ticket)
{
    *answer = (struct model_answer){.position = -1, .ticket = ticket};
}

/* The mutex. */

static void grant(struct model *model, int token, struct model_answer *answer)
{
    model->holder = token;
    model_remove(&model->queue, token);
    answer->outcome = 1;
    model_tell(model, answer, (struct model_event){MODEL_ANSWER, token, true, 0});
}

/* Returns true if `me` may take the free name. */
static bool hand_over(struct model *model, int me, struct model_answer *answer)
{
    struct model_list *queue = &model->queue;

    if (model->closed) {
        return false;
    }
    for (int tried = 0; queue->count > 0 && queue->entries[0].token != me; tried++) {
        int head = queue->entries[0].token;

        if (tried == HEADS) {
            answer->again = 1;
            return false;
        }
        model_remove_at(queue, 0);
        if (model_dead(model, head)) {
            continue;
        }
        model->holder = head;
        model_tell(model, answer, (struct model_event){MODEL_TURN, head, true, 0});
        if (queue->count > 0 && queue->entries[0].token != me && /* its reply has it */
            model_token_of(model, queue->entries[0].token)->client !=
                model_token_of(model, head)->client) { /* it would hang, too */
            model_tell(model, answer,
                       (struct model_event){MODEL_STANDBY, queue->entries[0].token, false,
                                            model_token_of(model, head)->window});
        }
        return false;
    }
    return true;
}

/* Holds after any script that reads the queue: if the value is not marked, there are no
 * waiters. Once marked, it stays marked while its holder has it. */
static void settle_mark(struct model *model, int before)
{
    model->marked = model->queue.count > 0 || (model->marked && model->holder == before);
}

static void ask(struct model *model, int token, bool wait, long long ticket,
                struct model_answer *answer)
{
    bool full;

    if (model->holder == token) {
        grant(model, token, answer);
        return;
    }
    if (model->limit > 0 && model->holder == MODEL_NOBODY &&
        hand_over(model, token, answer)) { /* waiters are served first */
        grant(model, token, answer);
        return;
    }
    if (answer->again) {
        answer->position = model_find(&model->queue, token);
        return;
    }
    full = model_full(model, &model->queue, token);
    if (wait && !full) {
        model_join(model, &model->queue, token, ticket, answer);
    }
    if (model->holder == MODEL_NOBODY && hand_over(model, token, answer)) {
        grant(model, token, answer);
    } else {
        answer->position = full ? MODEL_FULL : model_find(&model->queue, token);
    }
}

void model_acquire(struct model *model, int token, bool wait, long long ticket,
                   struct model_answer *answer)
{
    int before = model->holder;

    model_begin(answer, ticket);
    ask(model, token, wait, ticket, answer);
    settle_mark(model, before);
}

static void let_go(struct model *model, int token, struct model_answer *answer)
{
    model_remove(&model->queue, token);
    answer->released = model->holder == token;
    if (answer->released) {
        model->holder = MODEL_NOBODY;
    }
}

void model_release(struct model *model, int token, struct model_answer *answer)
{
    int before = model->holder;

    model_begin(answer, MODEL_NO_TICKET);
    let_go(model, token, answer);
    if (model->holder == MODEL_NOBODY) {
        hand_over(model, MODEL_NOBODY, answer);
    }
    settle_mark(model, before);
}

void model_drop(struct model *model, int token, struct model_answer *answer)
{
    model_begin(answer, MODEL_NO_TICKET);
    answer->released = model->holder == token && !model->marked;
    if (answer->released) {
        model->holder = MODEL_NOBODY;
    }
}

void model_turn(struct model *model, int old, int token, bool wait, long long ticket,
                struct model_answer *answer)
{
    bool known = model->holder == old || model->holder == token ||
                 model_find(&model->queue, old) >= 0 ||
                 model_find(&model->queue, token) >= 0;
    int before = model->holder;

    model_begin(answer, ticket);
    let_go(model, old, answer);
    if (known) {
        ask(model, token, wait, ticket, answer);
    } else {
        answer->ticket = MODEL_NO_TICKET;
        if (model->holder == MODEL_NOBODY) {
            hand_over(model, MODEL_NOBODY, answer);
        }
    }
    settle_mark(model, before);
}

void model_renew(struct model *model, int token, struct model_answer *answer)
{
    model_begin(answer, MODEL_NO_TICKET);
    answer->outcome = model->holder == token;
}

/* Both locks. */

/* Returns the token's hold of the read-write lock, or NULL. */
static struct model_entry *hold_of(struct model *model, int token)
{
    int i = model_find(&model->holds, token);

    return i < 0 ? NULL : &model->holds.entries[i];
}

void model_detach(struct model *model, int token, struct model_answer *answer)
{
    const struct model_entry *hold = hold_of(model, token);

    model_begin(answer, MODEL_NO_TICKET);
    answer->outcome = model->holder == token || (hold != NULL && !hold->ended);
}

void model_adopt(struct model *model, int old, int token, struct model_answer *answer)
{
    struct model_entry *its_own = hold_of(model, token), *hold = hold_of(model, old);
    bool mutex = !model_token_of(model, token)->kind;

    model_begin(answer, MODEL_NO_TICKET);
    answer->outcome = 1;
    if (mutex && (model->holder == token || model->holder == old)) {
        model->holder = token;
    } else if (its_own != NULL) {
        its_own->ended = false;
    } else if (hold != NULL && !hold->ended) {
        hold->token = token;
    } else {
        answer->outcome = -1;
        return;
    }
    model_tell(model, answer,
               (struct model_event){MODEL_ANSWER, token, its_own == NULL, 0});
}
