/* SPDX-License-Identifier: MIT */
/* machine_orders_scene.h's world and process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lockwire.h"
#include "machine_orders_scene.h"

#include <string.h>

const int64_t others_us[EVENTS_OF_OTHERS] = {
    100 * MS,                   /* the holder releases: handed over to us */
    100 * MS + WINDOW + 5 * MS, /* the other, standing by, finds that we did not come */
    100 * MS + WINDOW + 800 * MS}; /* and releases */

struct orders_counts orders;

void orders_show(const struct scene *s, const char *what)
{
    print_error("%s; at %lld us, phase %d, D %lld us, after:\n", what,
                (long long)s->now_us, s->machine.phase,
                (long long)s->machine.deadline_us);
    for (size_t i = 0; i < s->taken; i++) {
        print_error("  %s\n", s->trail[i]);
    }
    fail();
}

void orders_check(const struct scene *s)
{
    const struct lw__machine *m = &s->machine;

    orders.nodes++;
    if ((!lw__machine_holds(m->phase) && m->phase != LW__EXPIRED) ||
        s->now_us >= m->deadline_us) {
        return;
    }
    if (s->server.mutex.holder != US) {
        orders_show(s, "held, but not ours");
    }
    if (s->server.ends_us < model_time(&s->server, m->deadline_us)) {
        orders_show(s, "D is past the lease's end");
    }
}

/* ---- the world ---- */

static void collect(struct scene *s)
{
    for (size_t i = 0; i < s->server.messages; i++) {
        if (s->server.outbox[i].token != US) {
            continue;
        }
        assert_true(s->count < MESSAGES);
        s->messages[s->count++] = s->server.outbox[i];
    }
    s->server.messages = 0;
}

static void others_act(struct scene *s)
{
    static const struct model_call theirs[EVENTS_OF_OTHERS] = {
        [RELEASE_1] = {.kind = MODEL_RELEASE, .token = HOLDER},
        [ACQUIRE_2] = REQUEST_OF(OTHER),
        [RELEASE_2] = {.kind = MODEL_RELEASE, .token = OTHER}};
    struct lw__input ignored;

    model_run(&s->server, others_us[s->others_done], LEASE, &theirs[s->others_done],
              &ignored);
    s->others_done++;
}

static void execute(struct scene *s)
{
    struct model_call call = {.kind = s->sent == LW__SEND_RELEASE ? MODEL_RELEASE
                                                                  : MODEL_ACQUIRE,
                              .token = US,
                              .wait = !s->machine.unwanted,
                              .ticket = s->machine.ticket};

    s->answer = (struct lw__input){.sent_us = s->sent_us};
    model_run(&s->server, s->execute_us, s->machine.lease_us, &call, &s->answer);
    s->executed = true;
}

void orders_pass_time(struct scene *s, int64_t until_us)
{
    static const struct model_call renewal = {.kind = MODEL_RENEW, .token = US};
    struct lw__input renewed;

    if (s->renewal == RENEWAL_SENT && s->renewal_us <= until_us) {
        model_run(&s->server, s->renewal_us, LEASE, &renewal, &renewed);
        s->renewed = renewed.event == LW__EV_RENEWED;
        s->renewal = RENEWAL_DONE;
    }
    for (;;) {
        int64_t theirs = s->others_done < EVENTS_OF_OTHERS ? others_us[s->others_done]
                                                           : INT64_MAX;
        int64_t ours = s->in_flight && !s->executed ? s->execute_us : INT64_MAX;

        if (theirs > until_us && ours > until_us) {
            break;
        }
        if (theirs <= ours) {
            others_act(s);
        } else {
            execute(s);
        }
        collect(s);
    }
    s->now_us = until_us;
}

/* ---- the process ---- */

static void send(struct scene *s, unsigned actions)
{
    assert_false(s->in_flight); /* never two at once */
    if (!s->linked) {
        orders_step(s, (struct lw__input){.event = LW__EV_UNKNOWN}, "(not sent)");
        return;
    }
    s->sent = actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE);
    s->sent_us = s->now_us;
    s->execute_us = s->now_us + MS;
    s->in_flight = true;
    s->executed = false;
}

void orders_step(struct scene *s, struct lw__input in, const char *what)
{
    struct lw__output out;

    in.now_us = s->now_us;
    in.linked = s->linked;
    if (s->taken < sizeof(s->trail) / sizeof(*s->trail)) {
        s->trail[s->taken++] = what;
    }
    out = lw__machine_step(&s->machine, &in);
    if ((out.actions & LW__DO_GRANT) && s->now_us >= s->machine.deadline_us) {
        orders_show(s, "granted, but too late");
    }
    if ((out.actions & LW__DO_GRANT) && s->gave_up) {
        orders_show(s, "granted to one who gave up");
    }
    orders.grants += (out.actions & LW__DO_GRANT) != 0;
    s->excused = (out.actions & LW__DO_END) &&
                 (out.release_status == LW_EUNKNOWN || out.release_status == LW_ECONN);
    orders.by_message += (out.actions & LW__DO_GRANT) != 0 &&
                         s->machine.phase == LW__HELD_BY_MESSAGE;
    if (out.actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)) {
        send(s, out.actions);
    }
    orders_check(s);
}

void orders_look_at_deadline(struct scene *s)
{
    if (lw__machine_holds(s->machine.phase) && s->now_us >= s->machine.deadline_us) {
        orders.losses++;
        orders_step(s,
                    (struct lw__input){.event = LW__EV_LOST_LOCALLY,
                                       .lost_locally = {.at_us = s->machine.deadline_us}},
                    "lost");
    }
}

void orders_take_message(struct scene *s, size_t i)
{
    struct model_message message = s->messages[i];
    struct lw__input in = {.event = LW__EV_STANDBY};

    s->count--;
    memmove(&s->messages[i], &s->messages[i + 1], (s->count - i) * sizeof(*s->messages));
    if (message.handed) {
        in.event = LW__EV_HANDED_OVER;
        in.handed_over.handed_us = message.us;
        in.handed_over.fence = message.fence;
        in.handed_over.pair_sent_us = s->pair_sent_us;
        if (message.us >= s->pair_server_us) { /* as in claim_message.c */
            in.handed_over.pair_server_us = s->pair_server_us;
        }
    } else {
        in.standby.window_us = message.window_us;
    }
    orders_step(s, in, message.handed ? "hand-over" : "standby");
}

void orders_take_answer(struct scene *s)
{
    s->in_flight = false;
    if (s->answer.event == LW__EV_QUEUED) {
        s->pair_sent_us = s->answer.sent_us;
        s->pair_server_us = s->answer.queued.server_us;
    }
    orders_step(s, s->answer, "answer");
}

void orders_lose_link(struct scene *s)
{
    s->linked = false;
    s->lost_once = true;
    s->in_flight = false; /* whether it was executed or not */
    s->pair_server_us = 0;
    orders_step(s,
                (struct lw__input){.event = LW__EV_UNKNOWN,
                                   .unknown = {.was_sent = true},
                                   .sent_us = s->sent_us},
                "the link is lost");
}

void orders_send_renewal(struct scene *s)
{
    s->renewal = RENEWAL_SENT;
    s->renewal_us = s->now_us;
}

void orders_take_renewal(struct scene *s)
{
    struct lw__input in = {.event = LW__EV_LOST_ON_SERVER, .sent_us = s->renewal_us};

    if (s->renewed) {
        in.event = LW__EV_RENEWED;
        in.renewed.lease_us = in.renewed.wanted_us = LEASE;
    }
    s->renewal = NO_RENEWAL;
    orders_step(s, in, "renewal");
}

void orders_give_up(struct scene *s)
{
    s->gave_up = true;
    orders_step(s,
                (struct lw__input){.event = lw__machine_holds(s->machine.phase)
                                                ? LW__EV_RELEASE
                                                : LW__EV_CANCEL},
                "given up");
}

void orders_link_up(struct scene *s)
{
    s->linked = true;
    orders_step(s, (struct lw__input){.event = LW__EV_RETRY_NOW}, "the link is up");
}

void orders_due(struct scene *s)
{
    if (s->machine.due_us > s->now_us) {
        orders_pass_time(s, s->machine.due_us);
    }
    orders_step(s, (struct lw__input){.event = LW__EV_DUE}, "due");
}
