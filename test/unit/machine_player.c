/* SPDX-License-Identifier: MIT */
/*
 * A process of the random walk: see machine_walk.h. Fills in inputs and executes actions
 * as the library does around its machine. Independent of the other processes.
 *
 * Usual course: see machine_walk.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lockwire.h"
#include "machine_walk.h"

#define NO_JITTER 1000000000 /* so large that any delay would show it */
#define SENDS (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)

/* ---- conditions ---- */

void player_check(const struct player *p)
{
    const struct lw__machine *m = &p->machine;

    if ((!lw__machine_holds(m->phase) && m->phase != LW__EXPIRED) ||
        world.now_us >= m->deadline_us) {
        return;
    }
    if (world.server.mutex.holder != p->token) {
        broken(p, "believes to hold what is not its own");
    }
    if (world.server.ends_us < model_time(&world.server, m->deadline_us)) {
        broken(p, "D is past the lease's end");
    }
    if (m->deadline_us > p->deadline_at_most_us) {
        broken(p, "D is above sent + lease - drift");
    }
}

static void check_grant(struct player *p)
{
    if (world.now_us >= p->machine.deadline_us - p->margin_us) {
        broken(p, "granted, but too late");
    }
    if (p->machine.fence <= world.last_fence) {
        broken(p, "a fence that is not larger than the last");
    }
    world.last_fence = p->machine.fence;
    world.grants++;
    world.by_message += p->machine.phase == LW__HELD_BY_MESSAGE;
    p->served++;
}

static void check_end(const struct player *p, const struct lw__output *out)
{
    bool open = (out->actions & LW__DO_RELEASED) &&
                (out->release_status == LW_EUNKNOWN || out->release_status == LW_ECONN);

    if (!open && !p->haunted && model_has(&world.server, p->token)) {
        broken(p, "ended, and left something behind");
    }
}

/* ---- a process ---- */

static void step(struct player *p, struct lw__input in);

static void event(struct player *p, enum lw__event what)
{
    step(p, (struct lw__input){.event = what});
}

/* Draws when a command runs, if it does, and how it ends. */
static void launch(struct player *p, struct command *c, struct model_call call)
{
    *c = (struct command){.call = call,
                          .lease_us = p->machine.lease_us,
                          .in_flight = true,
                          .sent_us = world.now_us};
    c->run_us = world.now_us + delay();
    if (c->run_us < p->last_run_us) {
        c->run_us = p->last_run_us;
    }
    p->last_run_us = c->run_us;
    c->answer_us = c->run_us + delay();
    c->runs = true;
    if (world.calm || chance(88)) {
        return;
    }
    c->runs = chance(60);
    c->open = chance(40);
    c->lost = !c->open;
    c->unsent = c->lost && !c->runs && chance(50);
}

static void send(struct player *p, unsigned actions)
{
    if (p->ask.in_flight) {
        broken(p, "two commands in flight");
    }
    if (!p->linked) {
        event(p, LW__EV_UNKNOWN);
        return;
    }
    launch(p, &p->ask,
           (struct model_call){
               .kind = actions & LW__SEND_RELEASE ? MODEL_RELEASE
                       : actions & LW__SEND_TRY   ? MODEL_TRY
                                                  : MODEL_ACQUIRE,
               .token = p->token,
               .wait = !p->machine.unwanted,
               .ticket = p->machine.ticket,
           });
}

void player_renew(struct player *p)
{
    if (!p->renewal.in_flight && p->linked && lw__machine_holds(p->machine.phase)) {
        launch(p, &p->renewal,
               (struct model_call){.kind = MODEL_RENEW, .token = p->token});
    }
}

static void plan_renewal(struct player *p)
{
    const struct lw__machine *m = &p->machine;

    p->renew_us = m->phase == LW__HELD_BY_MESSAGE ? m->due_us
                                                  : m->deadline_us - m->lease_us * 2 / 3;
}

static void note(struct player *p, const struct lw__input *in,
                 const struct lw__output *out)
{
    int64_t lease = in->event == LW__EV_RENEWED ? in->renewed.lease_us
                                                : p->machine.lease_us;

    if (out->actions & LW__DO_GRANT) {
        check_grant(p);
        p->told = false;
        p->tell_us = world.now_us + delay() / 2;
        p->deadline_at_most_us = p->machine.phase == LW__HELD_BY_MESSAGE
                                     ? world.now_us + p->machine.window_us
                                     : 0;
    }
    if (in->event == LW__EV_RENEWED ||
        (in->event == LW__EV_GRANTED && out->actions & LW__DO_GRANT)) {
        int64_t most = in->sent_us + lease - lw__machine_drift_us(lease);

        if (most > p->deadline_at_most_us) {
            p->deadline_at_most_us = most;
        }
    }
    if (lw__machine_holds(p->machine.phase)) {
        plan_renewal(p);
    }
}

/* Fields are filled in, and actions executed, as by claim.c. */
static void step(struct player *p, struct lw__input in)
{
    struct lw__output out;

    world.steps++;
    in.now_us = world.now_us;
    in.jitter = lw__machine_delays(in.event) ? draw(-1000, 1000) : NO_JITTER;
    in.linked = p->linked;
    in.margin_us = p->margin_us;
    out = lw__machine_step(&p->machine, &in);
    note(p, &in, &out);
    if (!lw__machine_holds(p->machine.phase)) {
        p->renewal.forgotten = true;
    }
    player_check(p);
    if (out.actions & SENDS) {
        send(p, out.actions);
    }
    if (out.actions & LW__DO_END) {
        check_end(p, &out);
        p->act_us = world.now_us + draw(0, 500) * MS;
    }
}

static void start(struct player *p)
{
    lw__machine_init(&p->machine, world.server.window_us, draw(500, 4000) * MS);
    p->margin_us = chance(30) ? p->machine.lease_us / 10 : 0;
    p->token = MODEL_TOKEN(p->client, ++p->number);
    p->haunted = p->wants_out = false;
    p->act_us = world.now_us + (world.calm ? CALM_US : draw(100, 20000) * MS);
    step(p, (struct lw__input){.event = LW__EV_START,
                               .start = {.first_script = chance(50)}});
}

/* Makes the caller's next move. */
void player_act(struct player *p)
{
    p->act_us = world.now_us + (world.calm ? CALM_US : draw(100, 20000) * MS);
    if (p->machine.phase == LW__ENDED || p->machine.phase == LW__IDLE) {
        start(p);
    } else if (lw__machine_holds(p->machine.phase) && p->told) {
        event(p, LW__EV_RELEASE);
    } else if (p->machine.phase == LW__EXPIRED && chance(20)) {
        event(p, LW__EV_RELEASE);
    } else if (!p->wants_out && !world.calm && chance(50) &&
               (p->machine.phase == LW__ACQUIRING || p->machine.phase == LW__QUEUED)) {
        p->wants_out = true;
        event(p, LW__EV_CANCEL);
    }
}

void player_tell(struct player *p)
{
    p->told = true;
    p->act_us = world.now_us + draw(1, world.calm ? 200 : 3000) * MS;
}

/* A command that was sent and has not run may run later, from the dead connection. */
static void haunt(struct player *p, struct command *c)
{
    bool runs_late = c->in_flight && !c->ran && c->runs;

    for (size_t i = 0; i < GHOSTS && runs_late; i++) {
        if (world.ghosts[i].in_flight) {
            continue;
        }
        world.ghosts[i] = *c;
        world.ghosts[i].run_us = world.now_us + draw(0, 3000) * MS;
        p->haunted = true;
        break;
    }
}

static void lose_link(struct player *p)
{
    struct command ask = p->ask;

    haunt(p, &p->ask);
    haunt(p, &p->renewal);
    p->ask.in_flight = p->renewal.in_flight = false;
    p->linked = false;
    p->pair_server_us = 0;
    p->last_run_us = 0;
    p->link_up_us = world.now_us + (world.calm ? 10 * MS : draw(10, 3000) * MS);
    plan_renewal(p);
    if (ask.in_flight) {
        step(p, (struct lw__input){.event = LW__EV_UNKNOWN,
                                   .unknown = {.was_sent = !ask.unsent},
                                   .sent_us = ask.sent_us});
    }
}

void player_subscribed(struct player *p)
{
    player_deadline(p);
    if (lw__machine_holds(p->machine.phase)) {
        p->renew_us = world.now_us;
    } else {
        event(p, LW__EV_RETRY_NOW);
    }
}

void player_link_up(struct player *p)
{
    p->linked = true;
    player_subscribed(p);
}

void player_answer(struct player *p)
{
    struct command ask = p->ask;

    if (ask.lost) {
        lose_link(p);
        return;
    }
    p->ask.in_flight = false;
    if (ask.open) {
        step(p, (struct lw__input){.event = LW__EV_UNKNOWN,
                                   .unknown = {.was_sent = true},
                                   .sent_us = ask.sent_us});
        return;
    }
    if (ask.answer.event == LW__EV_QUEUED) {
        p->pair_sent_us = ask.sent_us;
        p->pair_server_us = ask.answer.queued.server_us;
    }
    step(p, ask.answer);
}

void player_renewal(struct player *p)
{
    struct command renewal = p->renewal;

    if (renewal.lost) {
        lose_link(p);
        return;
    }
    p->renewal.in_flight = false;
    if (renewal.open) {
        p->renew_us = world.now_us + 50 * MS;
    } else if (!renewal.forgotten) {
        step(p, renewal.answer);
    }
}

void player_message(struct player *p, size_t i)
{
    struct model_message message = p->inbox[i].message;
    struct lw__input in = {.event = message.handed ? LW__EV_HANDED_OVER : LW__EV_STANDBY};

    p->inbox[i].at_us = 0;
    if (!message.handed) {
        in.standby.window_us = message.window_us;
    } else {
        in.handed_over.handed_us = message.us;
        in.handed_over.fence = message.fence;
    }
    if (message.handed && p->pair_server_us <= message.us) {
        in.handed_over.pair_sent_us = p->pair_sent_us;
        in.handed_over.pair_server_us = p->pair_server_us;
    }
    if (message.token == p->token && p->machine.phase != LW__ENDED) {
        step(p, in);
    } else if (message.handed) { /* for an unknown token: released */
        struct lw__input ignored;

        model_run(&world.server, world.now_us, 0,
                  &(struct model_call){.kind = MODEL_RELEASE, .token = message.token},
                  &ignored);
        deliver();
    }
}

/* Checks the deadline, before anything else as the library's loop does. */
void player_deadline(struct player *p)
{
    if (!lw__machine_holds(p->machine.phase) ||
        world.now_us < p->machine.deadline_us - p->margin_us) {
        return;
    }
    world.losses++;
    if (p->told) {
        step(p, (struct lw__input){.event = LW__EV_LOST_LOCALLY,
                                   .lost_locally = {.at_us = p->machine.deadline_us}});
    } else {
        event(p, LW__EV_UNDELIVERED);
    }
}

void player_due(struct player *p)
{
    event(p, LW__EV_DUE);
}
