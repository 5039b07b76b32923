/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: any events in any order at the state machine of one token. The oracle knows
 * nothing of its phases' inner workings but what must hold after each step: belief ends in
 * time, at most one command goes out, a release is told once, the end is the end.
 *
 * Happy path: the terms, then event after event, the invariants after each.
 */
#include "fuzz.h"
#include "lockwire.h"
#include "machine.h"

#include <string.h>

#define MS 1000
#define AHEAD_US (50000 * MS) /* the server's clock */
#define SENDS (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)

struct run {
    struct lw__machine machine;
    int64_t now_us, sent_us;
    unsigned releases; /* whose outcome is still to be told */
};

static int64_t jitter(struct input *in)
{
    return (int64_t)(input_number(in, 1) % 21) * 100 - 1000;
}

/* A time that is `span` or less before now. */
static int64_t before(struct run *run, struct input *in)
{
    int64_t back = (int64_t)input_number(in, 2) * MS / 4;

    return run->now_us > back ? run->now_us - back : 0;
}

static struct lw__input next_input(struct run *run, struct input *in)
{
    struct lw__input step = {0};
    uint64_t flags, skew;

    step.event = (enum lw__event)(input_number(in, 1) % (LW__EV_LAPSE + 1));
    flags = input_number(in, 1);
    run->now_us += (int64_t)input_number(in, 2) * (flags & 1 ? MS : 1);
    step.now_us = run->now_us;
    step.sent_us = flags & 2 ? before(run, in) : run->sent_us;
    step.fence = input_number(in, 1);
    step.remaining_ms = (int64_t)input_number(in, 2) - 1;
    step.position = (int64_t)input_number(in, 1) - 1;
    step.ticket = step.position;
    step.server_us = step.sent_us + AHEAD_US + (int64_t)input_number(in, 2);
    step.handed_us = before(run, in) + AHEAD_US;
    step.pair_sent_us = before(run, in);
    skew = input_number(in, 2);
    step.pair_server_us = flags & 4 ? 0 : step.pair_sent_us + AHEAD_US;
    if (skew >= 0xf000) /* the server's clock was set */
        step.pair_server_us += (int64_t)(skew - 0xf800) * MS;
    step.window_us = run->machine.window_us;
    step.lease_us = 100 * MS + (int64_t)input_number(in, 2) * MS;
    step.jitter = jitter(in);
    step.holds_left = flags & 8 ? 1 : 0;
    step.first_script = flags & 16;
    step.again = step.released = flags & 32;
    step.linked = flags & 64;
    step.was_sent = flags & 128;
    return step;
}

static bool single(unsigned bits)
{
    return (bits & (bits - 1)) == 0;
}

/* The earliest moment, on our clock, at which the server can have handed the lock over. */
static int64_t handed_at(int64_t sent_us, int64_t server_us, int64_t handed_us)
{
    return sent_us + (handed_us - server_us);
}

/* I1: the latest moment that may be believed in, by what this step was told. */
static void check_belief(const struct lw__machine *was, const struct lw__machine *is,
                         const struct lw__input *step)
{
    int64_t lease_us = step->event == LW__EV_RENEWED ? step->lease_us : is->lease_us;
    int64_t lease_end = step->sent_us + lease_us - lw__drift_us(lease_us);

    if (is->phase != LW__HELD)
        return;
    switch (step->event) {
    case LW__EV_GRANTED:
        CHECK(was->phase == LW__HELD || is->deadline_us <= lease_end);
        break;
    case LW__EV_RENEWED:
        CHECK(is->deadline_us <= lease_end || is->deadline_us == was->deadline_us);
        break;
    case LW__EV_HANDED:
        CHECK(was->phase == LW__HELD ||
              is->deadline_us <
                  handed_at(step->pair_sent_us, step->pair_server_us, step->handed_us) +
                      is->window_us);
        break;
    case LW__EV_QUEUED: /* with a message noted before */
        CHECK(was->phase == LW__HELD ||
              is->deadline_us < handed_at(step->sent_us, step->server_us, was->handed_us) +
                                    is->window_us);
        break;
    default:
        CHECK(was->phase == LW__HELD && is->deadline_us == was->deadline_us);
    }
    CHECK(was->phase == LW__HELD || is->deadline_us - step->now_us > is->margin_us);
}

static void check_releases(struct run *run, const struct lw__machine *was,
                           const struct lw__input *step, const struct lw__output *out)
{
    const struct lw__machine *is = &run->machine;

    run->releases += step->event == LW__EV_TURN && was->phase == LW__HELD;
    run->releases += was->phase != LW__LEAVING && is->phase == LW__LEAVING;
    if (out->actions & LW__DO_RELEASED) {
        CHECK(run->releases > 0);
        run->releases--;
        CHECK(out->release_status == LW_OK || out->release_status == LW_STILLHELD ||
              out->release_status == LW_ENOTHELD || out->release_status == LW_EUNKNOWN);
    }
    if (is->phase == LW__ENDED)
        CHECK(run->releases == 0);
}

static void check(struct run *run, const struct lw__machine *was,
                  const struct lw__input *step, const struct lw__output *out)
{
    const struct lw__machine *is = &run->machine;

    CHECK(single(out->actions & SENDS));
    CHECK(single(out->actions & (LW__DO_GRANT | LW__DO_BUSY | LW__DO_FAIL | LW__DO_LOST)));
    CHECK(!(out->actions & LW__DO_END) ==
          !(is->phase == LW__ENDED && was->phase != LW__ENDED));
    CHECK(!(out->actions & LW__DO_GRANT) ==
          !(is->phase == LW__HELD && was->phase != LW__HELD));
    CHECK(!(out->actions & LW__DO_LOST) || was->phase == LW__HELD);
    CHECK(!(out->actions & LW__DO_GRANT) || !was->abandoned || was->turning);
    CHECK(!(out->actions & (LW__SEND_TRY | LW__SEND_ACQUIRE)) || is->phase == LW__ASKING);
    CHECK(!(out->actions & LW__SEND_RELEASE) || is->phase == LW__LEAVING);
    CHECK(!(out->actions & LW__SEND_RELEASE) || is->in_flight);
    if (was->phase == LW__ENDED)
        CHECK(out->actions == 0 && memcmp(was, is, sizeof *is) == 0);
    if (was->phase == LW__HELD && step->event == LW__EV_RELEASE)
        CHECK(out->actions == LW__SEND_RELEASE);
    if (is->phase == LW__LEAVING && !is->in_flight)
        CHECK(is->due_us != LW__NEVER); /* it ends, with or without a link */
    check_belief(was, is, step);
    check_releases(run, was, step, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct run run = {.now_us = 1000000000};

    lw__machine_init(&run.machine);
    run.machine.lease_us = 100 * MS + (int64_t)input_number(&in, 2) * MS;
    run.machine.margin_us = (int64_t)input_number(&in, 1) * run.machine.lease_us / 2 /
                            256;
    run.machine.window_us = 100 * MS + (int64_t)input_number(&in, 2) * MS;
    if (run.machine.window_us > run.machine.lease_us)
        run.machine.window_us = run.machine.lease_us;
    while (in.left > 0) {
        struct lw__machine was = run.machine;
        struct lw__input step = next_input(&run, &in);
        struct lw__output out = lw__machine_step(&run.machine, &step);

        check(&run, &was, &step, &out);
        if (out.actions & SENDS)
            run.sent_us = run.now_us;
    }
    return 0;
}
