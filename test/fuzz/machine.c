/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: any events in any order at the state machine of one token. The oracle does
 * not know how the phases work, only what must hold after each step: reliance on a lock
 * ends in time, at most one command is sent, each release is reported once, and the end
 * is final.
 *
 * Usual course: the lease terms, then one event after the other, with the checks after
 * each.
 */
#include "fuzz.h"
#include "lockwire.h"
#include "hold/machine.h"

#include <string.h>

#define MS 1000
#define AHEAD_US (50000 * MS) /* of the server's clock */
#define SENDS (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)

struct run {
    struct lw__machine machine;
    int64_t now_us, sent_us, margin_us;
    unsigned releases; /* with an outcome that is not yet reported */
};

static int64_t jitter(struct input *in)
{
    return (int64_t)(input_number(in, 1) % 21) * 100 - 1000;
}

static int64_t lease(struct input *in)
{
    return 100 * MS + (int64_t)input_number(in, 2) * MS;
}

/* Returns a time up to 16 s before now. */
static int64_t before(struct run *run, struct input *in)
{
    int64_t back = (int64_t)input_number(in, 2) * MS / 4;

    return run->now_us > back ? run->now_us - back : 0;
}

static void fill_in_queued(struct input *in, uint64_t flags, struct lw__input *step)
{
    step->queued.remaining_ms = (int64_t)input_number(in, 2) - 1;
    step->queued.position = (int64_t)input_number(in, 1) - 1;
    step->queued.ticket = step->queued.position;
    step->queued.server_us = step->sent_us + AHEAD_US + (int64_t)input_number(in, 2);
    step->queued.again = flags & 32;
}

static void fill_in_handed(struct run *run, struct input *in, uint64_t flags,
                           struct lw__input *step)
{
    uint64_t skew;

    step->handed_over.fence = input_number(in, 1);
    step->handed_over.handed_us = before(run, in) + AHEAD_US;
    step->handed_over.pair_sent_us = before(run, in);
    skew = input_number(in, 2);
    step->handed_over.pair_server_us =
        flags & 4 ? 0 : step->handed_over.pair_sent_us + AHEAD_US;
    if (skew >= 0xf000) { /* the server's clock was set */
        step->handed_over.pair_server_us += (int64_t)(skew - 0xf800) * MS;
    }
}

/* Fills in the reply to a command. */
static void fill_in_answer(struct input *in, uint64_t flags, struct lw__input *step)
{
    switch (step->event) {
    case LW__EV_GRANTED:
        step->granted.fence = input_number(in, 1);
        break;
    case LW__EV_NOT_GRANTED:
        step->not_granted.set_done = flags & 16;
        step->not_granted.ticket = flags & 32 ? (int64_t)input_number(in, 2) : 0;
        break;
    case LW__EV_QUEUED:
        fill_in_queued(in, flags, step);
        break;
    case LW__EV_NOT_ADOPTED:
        step->not_adopted.status = flags & 32 ? LW_ENOTHELD : LW_EINVAL;
        break;
    case LW__EV_UNKNOWN:
    case LW__EV_REFUSED:
        step->unknown.was_sent = flags & 128;
        break;
    case LW__EV_RELEASED:
        step->released.holds_left = flags & 8 ? 1 : 0;
        step->released.again = step->released.released = flags & 32;
        break;
    case LW__EV_RENEWED:
        step->renewed.lease_us = lease(in);
        step->renewed.wanted_us = flags & 16 ? lease(in) : step->renewed.lease_us;
        break;
    default:
        break;
    }
}

static void fill_in(struct run *run, struct input *in, uint64_t flags,
                    struct lw__input *step)
{
    switch (step->event) {
    case LW__EV_START:
        step->start.first_script = flags & 16;
        step->start.behind = flags & 32;
        break;
    case LW__EV_LEASE_SET:
        step->lease_set.lease_us = lease(in);
        break;
    case LW__EV_SHORTEN:
        step->shorten.lease_us = lease(in);
        break;
    case LW__EV_HANDED_OVER:
        fill_in_handed(run, in, flags, step);
        break;
    case LW__EV_STANDBY:
        step->standby.window_us = run->machine.window_us;
        break;
    case LW__EV_RELEASE:
        step->release.detaches = flags & 16;
        break;
    case LW__EV_LOST_LOCALLY:
        step->lost_locally.at_us = flags & 16 ? run->machine.deadline_us
                                              : before(run, in);
        break;
    default:
        fill_in_answer(in, flags, step);
    }
}

static struct lw__input next_input(struct run *run, struct input *in)
{
    struct lw__input step = {0};
    uint64_t flags;

    step.event = (enum lw__event)(input_number(in, 1) % (LW__EV_NOT_ADOPTED + 1));
    flags = input_number(in, 1);
    run->now_us += (int64_t)input_number(in, 2) * (flags & 1 ? MS : 1);
    step.now_us = run->now_us;
    step.sent_us = flags & 2 ? before(run, in) : run->sent_us;
    step.margin_us = run->margin_us;
    step.jitter = jitter(in);
    step.linked = flags & 64;
    fill_in(run, in, flags, &step);
    return step;
}

static bool single(unsigned bits)
{
    return (bits & (bits - 1)) == 0;
}

/* Returns the earliest moment, on our clock, at which the server can have handed over the
 * lock. */
static int64_t handed_at(int64_t sent_us, int64_t server_us, int64_t handed_us)
{
    return sent_us + (handed_us - server_us);
}

/* I1: checks that the deadline is no later than this step's input allows. */
static void check_belief(const struct lw__machine *was, const struct lw__machine *is,
                         const struct lw__input *step)
{
    int64_t lease_us = step->event == LW__EV_RENEWED ? step->renewed.lease_us
                                                     : is->lease_us;
    int64_t lease_end = step->sent_us + lease_us - lw__machine_drift_us(lease_us);

    if (!lw__machine_holds(is->phase)) {
        return;
    }
    switch (step->event) {
    case LW__EV_GRANTED:
        CHECK(lw__machine_holds(was->phase) || is->deadline_us <= lease_end);
        break;
    case LW__EV_RENEWED:
        CHECK(is->deadline_us <= lease_end || is->deadline_us == was->deadline_us);
        break;
    case LW__EV_HANDED_OVER:
        CHECK(lw__machine_holds(was->phase) ||
              is->deadline_us < handed_at(step->handed_over.pair_sent_us,
                                          step->handed_over.pair_server_us,
                                          step->handed_over.handed_us) +
                                    is->window_us);
        break;
    case LW__EV_QUEUED: /* a message was noted before */
        CHECK(lw__machine_holds(was->phase) ||
              is->deadline_us <
                  handed_at(step->sent_us, step->queued.server_us, was->handed_us) +
                      is->window_us);
        break;
    case LW__EV_SHORTEN:
        CHECK(is->deadline_us <= was->deadline_us);
        lease_us = step->shorten.lease_us;
        CHECK(is->deadline_us <=
              step->now_us + lease_us - lw__machine_drift_us(lease_us));
        return;
    default:
        CHECK(lw__machine_holds(was->phase) && is->deadline_us == was->deadline_us);
    }
    CHECK(lw__machine_holds(was->phase) ||
          is->deadline_us - step->now_us > step->margin_us);
}

static void check_releases(struct run *run, const struct lw__machine *was,
                           const struct lw__output *out)
{
    const struct lw__machine *is = &run->machine;

    run->releases += !lw__machine_releases(was->phase) && lw__machine_releases(is->phase);
    if (out->actions & LW__DO_RELEASED) {
        CHECK(run->releases > 0);
        run->releases--;
        CHECK(out->release_status == LW_OK || out->release_status == LW_STILLHELD ||
              out->release_status == LW_ENOTHELD || out->release_status == LW_EUNKNOWN ||
              out->release_status == LW_ECONN || out->release_status == LW_EREDIS);
    }
    if (is->phase == LW__ENDED) {
        CHECK(run->releases == 0);
    }
}

static void check(struct run *run, const struct lw__machine *was,
                  const struct lw__input *step, const struct lw__output *out)
{
    const struct lw__machine *is = &run->machine;

    CHECK(single(out->actions & SENDS));
    CHECK(
        single(out->actions & (LW__DO_GRANT | LW__DO_BUSY | LW__DO_FAIL | LW__DO_LOST)));
    CHECK(!(out->actions & LW__DO_END) ==
          !(is->phase == LW__ENDED && was->phase != LW__ENDED));
    CHECK(!(out->actions & LW__DO_GRANT) ==
          !(lw__machine_holds(is->phase) && !lw__machine_holds(was->phase)));
    CHECK(!(out->actions & LW__DO_LOST) || lw__machine_holds(was->phase));
    CHECK(!(out->actions & LW__DO_GRANT) || !was->unwanted);
    CHECK(!(out->actions & (LW__SEND_TRY | LW__SEND_ACQUIRE)) ||
          is->phase == LW__ACQUIRING);
    CHECK(!(out->actions & LW__SEND_RELEASE) || is->phase == LW__RELEASING);
    if (was->phase == LW__ENDED) {
        CHECK(out->actions == 0 && memcmp(was, is, sizeof(*is)) == 0);
    }
    if (lw__machine_holds(was->phase) && step->event == LW__EV_RELEASE) {
        CHECK(out->actions == LW__SEND_RELEASE);
    }
    if (is->phase == LW__RELEASE_DUE) {
        CHECK(is->due_us != LW__NEVER); /* it ends, with or without a link */
    }
    check_belief(was, is, step);
    check_releases(run, was, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct run run = {.now_us = 1000000000};
    int64_t lease_us = lease(&in), window_us;

    run.margin_us = (int64_t)input_number(&in, 1) * lease_us / 2 / 256;
    window_us = lease(&in);
    lw__machine_init(&run.machine, window_us < lease_us ? window_us : lease_us, lease_us);
    while (in.left > 0) {
        struct lw__machine was = run.machine;
        struct lw__input step = next_input(&run, &in);
        struct lw__output out = lw__machine_step(&run.machine, &step);

        check(&run, &was, &step, &out);
        if (out.actions & SENDS) {
            run.sent_us = run.now_us;
        }
    }
    return 0;
}
