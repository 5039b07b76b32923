/* SPDX-License-Identifier: MIT */
/* The mutex of mutex_model.h. Lists are arrays, searched from the front. */
#include "mutex_model.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 16 }; /* the most waiters that one call removes */

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

static void insert(struct model_list *list, int at, struct model_entry entry)
{
    if (list->count == MODEL_CAPACITY) {
        abort();
    }
    memmove(&list->entries[at + 1], &list->entries[at],
            (size_t)(list->count - at) * sizeof(list->entries[0]));
    list->entries[at] = entry;
    list->count++;
}

void model_append(struct model_list *list, int token)
{
    insert(list, list->count,
           (struct model_entry){.token = token, .ticket = MODEL_NO_TICKET});
}

/* Returns true if the entry is behind a token with this ticket. */
static bool is_behind(const struct model_entry *entry, int token, long long ticket)
{
    return entry->ticket == MODEL_NO_TICKET || /* it has just come */
           entry->ticket > ticket ||
           (entry->ticket == ticket && model_compare(entry->token, token) > 0);
}

void model_join(struct model_list *queue, int token, long long ticket,
                struct model_answer *answer)
{
    int at = model_find(queue, token);

    if (at < 0) {
        at = queue->count;
        while (ticket != MODEL_NO_TICKET && at > 0 &&
               is_behind(&queue->entries[at - 1], token, ticket)) {
            at--;
        }
        insert(queue, at, (struct model_entry){.token = token, .ticket = ticket});
    }
    answer->ticket = queue->entries[at].ticket;
}

bool model_full(const struct model_list *queue, int token, int limit)
{
    return limit > 0 && queue->count >= limit && model_find(queue, token) < 0;
}

void model_begin(struct model_answer *answer, long long ticket)
{
    answer->outcome = answer->released = answer->left = answer->again = 0;
    answer->position = -1;
    answer->ticket = ticket;
    answer->event_count = 0;
}

void model_tell(struct model_answer *answer, enum model_event_kind what, int token,
                bool fresh, int head)
{
    if (what != MODEL_GRANTED && model_client(token) == MODEL_DEAD_CLIENT) {
        return;
    }
    if (answer->event_count == MODEL_CAPACITY) {
        abort();
    }
    answer->events[answer->event_count++] =
        (struct model_event){what, token, fresh, head};
}

void model_detached(const struct model_list *queue, struct model_answer *answer)
{
    for (int i = 0; i < queue->count && i < HEADS; i++) {
        int token = queue->entries[i].token;

        if (model_client(token) != MODEL_DEAD_CLIENT) {
            model_tell(answer, MODEL_STANDBY, token, false, MODEL_NOBODY);
            return;
        }
    }
}

/* The mutex. */

static void hold(struct mutex_model *mutex, int token, struct model_answer *answer)
{
    mutex->holder = token;
    answer->outcome = 1;
    model_tell(answer, MODEL_GRANTED, token, true, MODEL_NOBODY);
}

static void grant(struct mutex_model *mutex, int token, struct model_answer *answer)
{
    model_remove(&mutex->queue, token);
    hold(mutex, token, answer);
}

/* Returns true if `me` may take the free name. */
static bool hand_over(struct mutex_model *mutex, int me, struct model_answer *answer)
{
    struct model_list *queue = &mutex->queue;

    for (int tried = 0; queue->count > 0 && queue->entries[0].token != me; tried++) {
        int head = queue->entries[0].token, next;

        if (tried == HEADS) {
            answer->again = 1;
            return false;
        }
        model_remove_at(queue, 0);
        if (model_client(head) == MODEL_DEAD_CLIENT) {
            continue;
        }
        mutex->holder = head;
        model_tell(answer, MODEL_HANDED_OVER, head, true, MODEL_NOBODY);
        next = queue->count > 0 ? queue->entries[0].token : me;
        if (next != me &&                               /* whose reply has its position */
            model_client(next) != model_client(head)) { /* it would hang, too */
            model_tell(answer, MODEL_STANDBY, next, false, head);
        }
        return false;
    }
    return true;
}

static void take_or_join(struct mutex_model *mutex, const struct model_call *call,
                         struct model_answer *answer)
{
    bool full;

    if (mutex->holder == call->token) {
        grant(mutex, call->token, answer);
        return;
    }
    if (call->limit > 0 && mutex->holder == MODEL_NOBODY &&
        hand_over(mutex, call->token, answer)) { /* waiters are served first */
        grant(mutex, call->token, answer);
        return;
    }
    if (answer->again) {
        answer->position = model_find(&mutex->queue, call->token);
        return;
    }
    full = model_full(&mutex->queue, call->token, call->limit);
    if (call->wait && !full) {
        model_join(&mutex->queue, call->token, call->ticket, answer);
    }
    if (mutex->holder == MODEL_NOBODY && hand_over(mutex, call->token, answer)) {
        grant(mutex, call->token, answer);
    } else {
        answer->position = full ? MODEL_FULL : model_find(&mutex->queue, call->token);
    }
}

static void let_go(struct mutex_model *mutex, int token, struct model_answer *answer)
{
    model_remove(&mutex->queue, token);
    answer->released = mutex->holder == token;
    if (answer->released) {
        mutex->holder = MODEL_NOBODY;
    }
}

static void serve(struct mutex_model *mutex, struct model_answer *answer)
{
    if (mutex->holder == MODEL_NOBODY) {
        hand_over(mutex, MODEL_NOBODY, answer);
    }
}

void mutex_model_run(struct mutex_model *mutex, const struct model_call *call,
                     struct model_answer *answer)
{
    int before = mutex->holder;

    model_begin(answer, call->ticket);
    switch (call->kind) {
    case MODEL_TRY:
        if (before == MODEL_NOBODY) {
            mutex->marked = false;
            hold(mutex, call->token, answer);
        }
        return;
    case MODEL_RELEASE_FAST:
        answer->released = before == call->token && !mutex->marked;
        if (answer->released) {
            mutex->holder = MODEL_NOBODY;
        }
        return;
    case MODEL_RENEW:
        answer->outcome = before == call->token;
        return;
    case MODEL_DETACH:
        answer->outcome = before == call->token;
        if (answer->outcome) {
            model_detached(&mutex->queue, answer);
        }
        return;
    case MODEL_ADOPT:
        answer->outcome = -1;
        if (before == call->token || before == call->old) {
            hold(mutex, call->token, answer);
        }
        return;
    case MODEL_RELEASE:
        let_go(mutex, call->token, answer);
        if (!call->closed) {
            serve(mutex, answer);
        }
        break;
    default:
        take_or_join(mutex, call, answer);
    }
    /* After any script that reads the queue: if the value is not marked, there are no
     * waiters. Once marked, it stays marked while its holder has it. */
    mutex->marked = mutex->queue.count > 0 || (mutex->marked && mutex->holder == before);
}
