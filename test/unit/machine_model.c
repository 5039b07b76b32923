/* SPDX-License-Identifier: MIT */
/* One server with one name: see machine_model.h. Follows the scripts line by line. */
#include "machine_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#define HEADS 16 /* the most that one call tries */

int64_t model_time(const struct model *model, int64_t now_us)
{
    return model->ahead_us + now_us + now_us / 1000 * model->ppm / 1000;
}

static void expire(struct model *model, int64_t us)
{
    if (us >= model->ends_us) {
        model->holder = 0;
    }
}

static int place_of(const struct model *model, unsigned token)
{
    for (int i = 0; i < (int)model->queued; i++) {
        if (model->queue[i].token == token) {
            return i;
        }
    }
    return -1;
}

bool model_has(const struct model *model, unsigned token)
{
    return model->holder == token || place_of(model, token) >= 0;
}

static bool take_out(struct model *model, unsigned token)
{
    int place = place_of(model, token);

    if (place < 0) {
        return false;
    }
    model->queued--;
    memmove(&model->queue[place], &model->queue[place + 1],
            (model->queued - (size_t)place) * sizeof(*model->queue));
    return true;
}

static int64_t join(struct model *model, unsigned token, int64_t ticket, int64_t us)
{
    int place = place_of(model, token);
    size_t at = model->queued;

    if (place >= 0) {
        return model->queue[place].ticket;
    }
    assert_true(model->queued < MODEL_QUEUE);
    if (ticket < 0) {
        ticket = at > 0 && model->queue[at - 1].ticket >= us
                     ? model->queue[at - 1].ticket + 1
                     : us;
    }
    for (; at > 0 && model->queue[at - 1].ticket > ticket; at--) {
        model->queue[at] = model->queue[at - 1];
    }
    model->queue[at].token = token;
    model->queue[at].ticket = ticket;
    model->queued++;
    return ticket;
}

static void publish(struct model *model, struct model_message message)
{
    assert_true(model->messages < MODEL_OUTBOX);
    model->outbox[model->messages++] = message;
}

static uint64_t draw(struct model *model)
{
    model->last_number += 16;
    return model->last_number - 15;
}

static bool is_deaf(const struct model *model, unsigned token)
{
    return (model->deaf >> MODEL_CLIENT(token) & 1) != 0;
}

/* Returns true if `me` may take the name. */
static bool hand_over(struct model *model, unsigned me, int64_t us, bool *again)
{
    for (int tried = 0;; tried++) {
        unsigned head = model->queued > 0 ? model->queue[0].token : 0;

        if (head == 0 || head == me) {
            take_out(model, me);
            return true;
        }
        if (tried == HEADS) {
            *again = true;
            return false;
        }
        take_out(model, head);
        if (is_deaf(model, head)) {
            continue;
        }
        publish(model,
                (struct model_message){
                    .token = head, .handed = true, .fence = draw(model), .us = us});
        model->holder = head;
        model->ends_us = us + model->window_us;
        if (model->queued > 0 && !is_deaf(model, model->queue[0].token)) {
            publish(model, (struct model_message){.token = model->queue[0].token,
                                                  .window_us = model->window_us});
        }
        return false;
    }
}

static void grant(struct model *model, unsigned token, int64_t ends_us,
                  struct lw__input *ret)
{
    if (model->holder != token || model->ends_us < ends_us) {
        model->ends_us = ends_us;
    }
    model->holder = token;
    ret->event = LW__EV_GRANTED;
    ret->granted.fence = draw(model);
}

static void refuse(struct model *model, unsigned token, int64_t ticket, int64_t us,
                   bool again, struct lw__input *ret)
{
    ret->event = LW__EV_QUEUED;
    ret->queued.remaining_ms = model->holder != 0 ? (model->ends_us - us) / 1000 : 0;
    ret->queued.position = place_of(model, token);
    ret->queued.ticket = ticket;
    ret->queued.server_us = us;
    ret->queued.again = again;
}

void model_try(struct model *model, int64_t now_us, unsigned token, int64_t lease_us,
               struct lw__input *ret)
{
    int64_t us = model_time(model, now_us);

    expire(model, us);
    if (model->holder == 0) {
        grant(model, token, us + lease_us, ret);
    } else {
        ret->event = LW__EV_NOT_GRANTED;
    }
}

void model_acquire(struct model *model, int64_t now_us, unsigned token, int64_t lease_us,
                   bool wait, int64_t ticket, struct lw__input *ret)
{
    int64_t us = model_time(model, now_us);
    bool again = false;

    expire(model, us);
    if (model->holder == token) {
        take_out(model, token);
        grant(model, token, us + lease_us, ret);
        return;
    }
    if (wait) {
        ticket = join(model, token, ticket, us);
    }
    if (model->holder == 0 && hand_over(model, token, us, &again)) {
        grant(model, token, us + lease_us, ret);
    } else {
        refuse(model, token, ticket, us, again, ret);
    }
}

void model_turn(struct model *model, int64_t now_us, unsigned previous, unsigned token,
                int64_t lease_us, bool wait, int64_t ticket, struct lw__input *ret)
{
    int64_t us = model_time(model, now_us);
    bool left, again = false, released;

    expire(model, us);
    released = model->holder == previous;
    if (released) {
        model->holder = 0;
    }
    left = take_out(model, previous);
    if (released || left || model_has(model, token)) {
        model_acquire(model, now_us, token, lease_us, wait, ticket, ret);
    } else {
        if (model->holder == 0) {
            hand_over(model, 0, us, &again);
        }
        refuse(model, token, -1, us, again, ret);
    }
    if (ret->event == LW__EV_GRANTED) {
        ret->granted.released = released;
    } else {
        ret->queued.released = released;
        ret->queued.asked_to_join = wait;
    }
}

void model_release(struct model *model, int64_t now_us, unsigned token,
                   struct lw__input *ret)
{
    int64_t us = model_time(model, now_us);

    expire(model, us);
    ret->event = LW__EV_RELEASED;
    ret->released.released = model->holder == token;
    if (ret->released.released) {
        model->holder = 0;
    }
    take_out(model, token);
    if (model->holder == 0) {
        hand_over(model, 0, us, &ret->released.again);
    }
}

bool model_renew(struct model *model, int64_t now_us, unsigned token, int64_t lease_us)
{
    int64_t us = model_time(model, now_us);

    expire(model, us);
    if (model->holder != token) {
        return false;
    }
    if (model->ends_us < us + lease_us) {
        model->ends_us = us + lease_us;
    }
    return true;
}
