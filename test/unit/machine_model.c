/* SPDX-License-Identifier: MIT */
/* One server with one name: see machine_model.h. */
#include "machine_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

int model_client(int token)
{
    return MODEL_CLIENT(token);
}

int model_compare(int token, int other)
{
    return token - other;
}

int64_t model_time(const struct model *model, int64_t now_us)
{
    return model->ahead_us + now_us + now_us / 1000 * model->ppm / 1000;
}

bool model_has(const struct model *model, int token)
{
    return model->mutex.holder == token || model_find(&model->mutex.queue, token) >= 0;
}

/* Returns the server's time, and ends a lease that ends by then. */
static int64_t begin(struct model *model, int64_t now_us)
{
    int64_t us = model_time(model, now_us);

    if (us >= model->ends_us) {
        model->mutex.holder = MODEL_NOBODY;
        model->ends_us = us;
    }
    return us;
}

static void extend(struct model *model, int64_t ends_us)
{
    if (model->ends_us < ends_us) {
        model->ends_us = ends_us;
    }
}

/* Returns the place of a new message. */
static struct model_message *publish(struct model *model, int token)
{
    struct model_message *message = &model->outbox[model->messages];

    assert_true(model->messages < MODEL_OUTBOX);
    model->messages++;
    memset(message, 0, sizeof(*message));
    message->token = token;
    return message;
}

/* Gives each event its fencing token, its lease and its message. */
static void settle(struct model *model, int64_t us, int64_t lease_us,
                   const struct model_answer *answer, struct lw__input *reply)
{
    if (answer->released) {
        model->ends_us = us;
    }
    for (int i = 0; i < answer->event_count; i++) {
        const struct model_event *event = &answer->events[i];
        struct model_message *message;

        if (event->what == MODEL_STANDBY) {
            publish(model, event->token)->window_us = model->window_us;
            continue;
        }
        model->last_number += 16;
        if (event->what == MODEL_HANDED_OVER) {
            message = publish(model, event->token);
            message->handed = true;
            message->fence = model->last_number - 15;
            message->us = us;
            extend(model, us + model->window_us);
        } else {
            reply->event = LW__EV_GRANTED;
            reply->granted.fence = model->last_number - 15;
            extend(model, us + lease_us);
        }
    }
}

/* Returns the ticket of a token that is refused. A newcomer's is the server's time, but
 * behind the waiter in front. */
static int64_t ticket_of(struct model *model, int64_t us, int place,
                         const struct model_answer *answer)
{
    struct model_entry *entry = model->mutex.queue.entries;

    if (place < 0) {
        return answer->ticket != MODEL_NO_TICKET ? answer->ticket : us;
    }
    entry += place;
    if (entry->ticket == MODEL_NO_TICKET) {
        entry->ticket = place > 0 && entry[-1].ticket >= us ? entry[-1].ticket + 1 : us;
    }
    return entry->ticket;
}

static void refuse(struct model *model, int64_t us, const struct model_answer *answer,
                   struct lw__input *reply)
{
    reply->event = LW__EV_QUEUED;
    reply->queued.remaining_ms = (model->ends_us - us) / 1000;
    reply->queued.position = answer->position;
    reply->queued.ticket = ticket_of(model, us, answer->position, answer);
    reply->queued.server_us = us;
    reply->queued.again = answer->again != 0;
}

void model_run(struct model *model, int64_t now_us, int64_t lease_us,
               const struct model_call *call, struct lw__input *reply)
{
    int64_t us = begin(model, now_us);
    struct model_answer answer;

    reply->event = LW__EV_NOT_GRANTED;
    mutex_model_run(&model->mutex, call, &answer);
    settle(model, us, lease_us, &answer, reply);
    switch (call->kind) {
    case MODEL_TRY:
        break;
    case MODEL_RENEW:
        reply->event = LW__EV_LOST_ON_SERVER;
        if (answer.outcome == 1) {
            extend(model, us + lease_us);
            reply->event = LW__EV_RENEWED;
            reply->renewed.lease_us = reply->renewed.wanted_us = lease_us;
        }
        break;
    case MODEL_RELEASE:
        reply->event = LW__EV_RELEASED;
        reply->released.released = answer.released != 0;
        reply->released.again = answer.again != 0;
        break;
    default:
        if (answer.outcome == 0) {
            refuse(model, us, &answer, reply);
        }
    }
}
