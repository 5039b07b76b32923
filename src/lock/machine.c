/* SPDX-License-Identifier: MIT */
/* The life of one token: see machine.h. Each phase has its function; what they share
 * stands above them. Read believe() and hand_over() for lock safety. */
#include "lock/machine.h"

#include "lockwire.h"

#include <stddef.h>

#define MS 1000
#define RETRY_US (50 * MS) /* after an answer that left the outcome open; doubles */
#define DOUBLINGS 4
#define LONGEST_POLL 3000 /* of the first in the queue, and of one that is not in it */

/* Of an input's parts the first is `queued` (else this is no initializer), and the
 * largest. */
#define AN_INPUT                                                                         \
    ((struct lw__input){LW__EV_START, false, 0, 0, 0, 0, {{.remaining_ms = 0}}})
_Static_assert(sizeof(AN_INPUT.queued) ==
                   sizeof(AN_INPUT) - offsetof(struct lw__input, queued),
               "an initializer that names no part sets all of them");

/* ---- polling ---- */

int64_t lw__machine_poll_us(int64_t remaining_ms, int64_t position, int64_t jitter)
{
    int64_t remaining = remaining_ms < 0 ? 9000 : remaining_ms;
    int64_t rank = position < 0 ? 3 : position; /* it is not in the queue: more rarely */
    int64_t delay = remaining / 3;
    int64_t most = position < 0 ? LONGEST_POLL : rank < 100 ? 10000 : 30000;

    if (delay < 50) {
        delay = 50;
    }
    if (delay > LONGEST_POLL) {
        delay = LONGEST_POLL;
    }
    delay = rank >= most / delay ? most : delay * (rank + 1);
    if (rank == 0 && remaining_ms >= 0 && remaining_ms < delay - 1) {
        return (remaining_ms + 1) * MS;
    }
    return delay * MS + delay * MS / 10 * jitter / 1000;
}

int64_t lw__machine_lease_poll_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter)
{
    int64_t most = most_ms * MS - most_ms * MS / 20 * (jitter + 1000) / 1000;

    return remaining_ms >= 0 && remaining_ms < most / MS ? (remaining_ms + 1) * MS : most;
}

/* ---- phases ---- */

int64_t lw__machine_drift_us(int64_t span_us)
{
    return span_us / 100 + 2 * MS;
}

void lw__machine_init(struct lw__machine *machine, int64_t window_us, int64_t lease_us)
{
    *machine = (struct lw__machine){
        .phase = LW__IDLE,
        .lease_us = lease_us,
        .window_us = window_us,
        .due_us = LW__NEVER,
        .ticket = -1,
    };
}

static struct lw__output act(unsigned actions)
{
    return (struct lw__output){.actions = actions};
}

static struct lw__output end(struct lw__machine *m, unsigned actions)
{
    m->phase = LW__ENDED;
    m->due_us = LW__NEVER;
    return act(actions | LW__DO_END);
}

static struct lw__output ask(struct lw__machine *m)
{
    m->phase = LW__ACQUIRING;
    m->due_us = LW__NEVER;
    m->handed_us = 0;
    m->ask_again = false;
    return act(LW__SEND_ACQUIRE);
}

/* What an earlier answer or a message gave us; asked for as whatever keeps a lock is. */
static struct lw__output ask_to_keep(struct lw__machine *m)
{
    m->keeps = true;
    return ask(m);
}

/* "Whatever this token has here, it has no more." */
static struct lw__output leave(struct lw__machine *m, int64_t now_us)
{
    if (m->phase != LW__RELEASING) {
        int64_t at_most = now_us + m->lease_us;

        m->release_until_us = m->held_until_us > at_most ? m->held_until_us : at_most;
        m->failures = 0;
    }
    m->phase = LW__RELEASING;
    m->due_us = LW__NEVER;
    m->in_flight = true;
    return act(LW__SEND_RELEASE);
}

static struct lw__output hold(struct lw__machine *m, int64_t deadline_us, uint64_t fence,
                              bool by_message)
{
    m->phase = LW__HELD;
    m->deadline_us = m->held_until_us = deadline_us;
    m->due_us = LW__NEVER;
    m->fence = fence;
    m->by_message = by_message;
    m->ticket = -1;
    m->in_redis = true;
    m->uncertain = false;
    m->failures = 0;
    return act(LW__DO_GRANT);
}

static void note_unknown(struct lw__machine *m, const struct lw__input *in)
{
    if (!in->unknown.was_sent) {
        return;
    }
    if (!m->uncertain) {
        m->first_sent_us = in->sent_us;
    }
    m->uncertain = true;
    m->in_redis = true;
}

/* How long to wait before the next try, on a link that stands. */
static int64_t retry_us(struct lw__machine *m, const struct lw__input *in)
{
    int64_t delay = (int64_t)RETRY_US << m->failures;

    if (m->failures < DOUBLINGS) {
        m->failures++;
    }
    return delay + delay / 10 * in->jitter / 1000;
}

/* A release sent again and answered "not yours" has most likely been done by the first
 * one, if that was sent while the lock was still ours. */
static bool presumed_released(const struct lw__machine *m)
{
    return m->uncertain && m->first_sent_us < m->held_until_us;
}

/* The previous token's release came with the answer to a turn. */
static int turned(struct lw__machine *m, bool released)
{
    bool ours = released || presumed_released(m);

    m->turning = false;
    return ours ? LW_OK : LW_ENOTHELD;
}

/* Belief ends at D = sent + lease - drift, whatever Redis does. */
static int64_t end_of(int64_t sent_us, int64_t lease_us)
{
    return sent_us + lease_us - lw__machine_drift_us(lease_us);
}

/* An answer said granted. One that comes too late to be used is asked for again: the same
 * token is extended. */
static struct lw__output believe(struct lw__machine *m, const struct lw__input *in)
{
    int64_t deadline = end_of(in->sent_us, m->lease_us);
    int64_t least = in->margin_us > LW__LEAST_US ? in->margin_us : LW__LEAST_US;

    m->held_until_us = deadline;
    m->in_redis = true;
    if (m->abandoned) {
        return leave(m, in->now_us);
    }
    if (deadline - in->now_us <= least) {
        return ask_to_keep(m);
    }
    return hold(m, deadline, in->granted.fence, false);
}

/* A message says that the lock was handed to this token at handed_us of the server's
 * clock. An earlier request of ours was sent at pair_sent_us, and the server's clock
 * stood at pair_server_us when it was answered: so the hand-over came at least the
 * difference later, by our clock, and the claim window may be counted from there. Unless
 * less time than that has passed here since: then the server's clock was set. The renewal
 * comes at a quarter of the window: a margin must leave time for that and for its answer,
 * or the hold would be lost at once; the full lease is asked for then. */
static struct lw__output hand_over(struct lw__machine *m, const struct lw__input *in,
                                   int64_t handed_us, uint64_t fence,
                                   int64_t pair_sent_us, int64_t pair_server_us)
{
    int64_t passed = handed_us - pair_server_us;
    int64_t passed_here = in->now_us - pair_sent_us, deadline, spare;
    struct lw__output out;

    if (pair_server_us == 0 || passed < 0 ||
        passed > passed_here + lw__machine_drift_us(passed_here)) {
        return ask_to_keep(m);
    }
    deadline = end_of(pair_sent_us, passed + m->window_us);
    spare = deadline - in->now_us;
    if (spare <= m->window_us / 4 ||
        (in->margin_us > 0 && spare - in->margin_us <= m->window_us / 2)) {
        return ask_to_keep(m);
    }
    out = hold(m, deadline, fence, true);
    m->due_us = pair_sent_us + passed + m->window_us / 4;
    if (m->turning) { /* the turn queued this token, so it released the previous one */
        m->turning = false;
        out.actions |= LW__DO_RELEASED;
        out.release_status = LW_OK;
    }
    return out;
}

/* Nobody waits any more. But a turn's answer also tells of the previous token's release:
 * that is worth asking for until that token has expired. */
static bool is_over(const struct lw__machine *m, int64_t now_us)
{
    return m->abandoned && !(m->turning && now_us < m->held_until_us);
}

static struct lw__output give_up(struct lw__machine *m, const struct lw__input *in)
{
    bool first = !m->uncertain || m->first_sent_us == in->sent_us;
    struct lw__output out = m->in_redis ? leave(m, in->now_us) : end(m, 0);

    if (m->turning) { /* of one that is refused an earlier try may have been done */
        m->turning = false;
        out.actions |= LW__DO_RELEASED;
        out.release_status = in->event == LW__EV_REFUSED && first ? LW_EREDIS
                                                                  : LW_EUNKNOWN;
    }
    return out;
}

static int64_t poll_us(const struct lw__input *in)
{
    if (in->queued.poll_ms > 0) {
        return lw__machine_lease_poll_us(in->queued.remaining_ms, in->queued.poll_ms,
                                         in->jitter);
    }
    return lw__machine_poll_us(in->queued.remaining_ms, in->queued.position, in->jitter);
}

static struct lw__output queued(struct lw__machine *m, const struct lw__input *in,
                                bool turning)
{
    int64_t handed = m->handed_us;
    struct lw__output out;

    m->ticket = in->queued.ticket;
    m->in_redis = in->queued.position >= 0 || handed != 0;
    m->handed_us = 0;
    m->failures = 0;
    m->keeps = false;
    if (m->abandoned) {
        return give_up(m, in);
    }
    /* A message noted while asking: later than this answer it is news. */
    if (handed != 0 && handed >= in->queued.server_us) {
        return hand_over(m, in, handed, m->fence, in->sent_us, in->queued.server_us);
    }
    /* A turn that was spent already takes no place in the queue. */
    if (in->queued.again || m->ask_again ||
        (turning && in->queued.position < 0 && in->queued.asked_to_join)) {
        out = ask(m);
    } else {
        m->phase = LW__QUEUED;
        m->due_us = in->now_us + poll_us(in);
        out = act(0);
    }
    out.actions |= LW__DO_BUSY;
    return out;
}

/* The outcome is open: ask again, or make sure that nothing of it remains. */
static struct lw__output unknown(struct lw__machine *m, const struct lw__input *in)
{
    note_unknown(m, in);
    if (is_over(m, in->now_us)) {
        return give_up(m, in);
    }
    m->phase = LW__QUEUED;
    if (in->linked) {
        m->due_us = in->now_us + retry_us(m, in);
    } else {
        m->due_us = m->abandoned ? m->held_until_us : LW__NEVER;
    }
    return act(0);
}

static struct lw__output fail(struct lw__machine *m, const struct lw__input *in,
                              int status)
{
    struct lw__output out = give_up(m, in);

    out.actions |= LW__DO_FAIL;
    out.fail_status = status;
    return out;
}

/* An ask was answered; where it was a turn, so was the previous token's release. */
static struct lw__output answered(struct lw__machine *m, const struct lw__input *in)
{
    bool turning = m->turning, released = false;
    struct lw__output out;
    int status = LW_OK;

    if (turning) {
        released = in->event == LW__EV_GRANTED  ? in->granted.released
                   : in->event == LW__EV_QUEUED ? in->queued.released
                                                : in->deadlock.released;
        status = turned(m, released);
    }
    if (in->event == LW__EV_GRANTED) {
        out = believe(m, in);
    } else if (in->event == LW__EV_QUEUED) {
        out = queued(m, in, turning);
    } else {
        out = fail(m, in, LW_EDEADLOCK);
    }
    if (turning) {
        out.actions |= LW__DO_RELEASED;
        out.release_status = status;
    }
    return out;
}

static struct lw__output asking(struct lw__machine *m, const struct lw__input *in)
{
    switch (in->event) {
    case LW__EV_LEASE_SET: /* what its answer is counted by */
        m->lease_us = in->asked.lease_us;
        m->handed_us = 0; /* what was heard before that its answer tells */
        return act(0);
    case LW__EV_NOT_GRANTED:
        m->in_redis = true;
        if (in->not_granted.ticket > 0) {
            m->ticket = in->not_granted.ticket;
        }
        if (m->abandoned) {
            return give_up(m, in);
        }
        return in->not_granted.set_done ? ask_to_keep(m) : ask(m);
    case LW__EV_GRANTED:
    case LW__EV_QUEUED:
    case LW__EV_DEADLOCK:
        return answered(m, in);
    case LW__EV_UNKNOWN:
        return unknown(m, in);
    case LW__EV_REFUSED:
        note_unknown(m, in);
        return fail(m, in, LW_EREDIS);
    case LW__EV_HANDED_OVER:
        if (in->handed.handed_us > m->handed_us) {
            m->handed_us = in->handed.handed_us;
            m->fence = in->handed.fence;
        }
        return act(0);
    case LW__EV_RETRY_NOW:
        m->ask_again = true;
        return act(0);
    case LW__EV_CANCEL:
        m->abandoned = true;
        return act(0);
    default:
        return act(0);
    }
}

static struct lw__output waiting(struct lw__machine *m, const struct lw__input *in)
{
    int64_t due;

    switch (in->event) {
    case LW__EV_HANDED_OVER:
        return hand_over(m, in, in->handed.handed_us, in->handed.fence,
                         in->handed.pair_sent_us, in->handed.pair_server_us);
    case LW__EV_STANDBY: /* no later than it was due: the other's hand-over may be lost */
        due = in->now_us + in->standby.window_us + 2 * MS +
              in->standby.window_us / 20 * (in->jitter + 1000) / 2000;
        if (due < m->due_us) {
            m->due_us = due;
        }
        return act(0);
    case LW__EV_RETRY_NOW:
    case LW__EV_DUE:
        return is_over(m, in->now_us) ? give_up(m, in) : ask(m);
    case LW__EV_CANCEL:
        m->abandoned = true;
        if (is_over(m, in->now_us)) {
            return give_up(m, in);
        }
        if (m->due_us > m->held_until_us) {
            m->due_us = m->held_until_us;
        }
        return act(0);
    default:
        return act(0);
    }
}

/* By an answer D only grows, and not beyond what is wanted by now. */
static struct lw__output renewed(struct lw__machine *m, const struct lw__input *in)
{
    int64_t asked = in->renewed.lease_us, wanted = in->renewed.wanted_us;
    int64_t deadline = end_of(in->sent_us, asked < wanted ? asked : wanted);

    if (deadline > m->deadline_us) {
        m->deadline_us = m->held_until_us = deadline;
    }
    m->by_message = false;
    m->due_us = LW__NEVER;
    return act(0);
}

static struct lw__output held(struct lw__machine *m, const struct lw__input *in)
{
    int64_t deadline;

    switch (in->event) {
    case LW__EV_RENEWED:
        return renewed(m, in);
    case LW__EV_SHORTEN: /* believed at once, also if the server never hears of it */
        deadline = end_of(in->now_us, in->shorten.lease_us);
        if (deadline < m->deadline_us) {
            m->deadline_us = deadline;
        }
        return act(0);
    case LW__EV_LOST_ON_SERVER:
        return end(m, LW__DO_LOST);
    case LW__EV_RELEASE:
        return leave(m, in->now_us);
    case LW__EV_REACQUIRE:
        m->window_us = in->turn.window_us;
        m->in_redis = false;
        m->turning = true;
        m->held_until_us = m->deadline_us;
        return ask_to_keep(m);
    case LW__EV_UNDELIVERED:
        return ask_to_keep(m);
    case LW__EV_LOST_LOCALLY: /* given back then, not before: a margin is the holder's to
                                 use */
        if (in->lapse.at_us < m->deadline_us) {
            m->deadline_us = in->lapse.at_us;
        }
        m->phase = LW__EXPIRED;
        m->due_us = m->deadline_us;
        return act(0);
    default:
        return act(0);
    }
}

static struct lw__output lapsed(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_DUE || in->event == LW__EV_RELEASE) {
        return leave(m, in->now_us);
    }
    if (in->event == LW__EV_LOST_ON_SERVER) {
        return end(m, 0);
    }
    return act(0);
}

/* `otherwise`: the outcome where no answer has said that it was released. */
static struct lw__output left(struct lw__machine *m, int otherwise)
{
    struct lw__output out = end(m, LW__DO_RELEASED);

    out.release_status = m->released ? LW_OK : otherwise;
    return out;
}

static struct lw__output leaving(struct lw__machine *m, const struct lw__input *in)
{
    struct lw__output out;

    switch (in->event) {
    case LW__EV_RELEASED:
        m->released = m->released || in->released.released;
        if (in->released.again) {
            return leave(m, in->now_us);
        }
        out = left(m, presumed_released(m) ? LW_OK : LW_ENOTHELD);
        if (out.release_status == LW_OK && in->released.holds_left > 0) {
            out.release_status = LW_STILLHELD;
        }
        return out;
    case LW__EV_UNKNOWN:
        note_unknown(m, in);
        m->in_flight = false;
        m->due_us = in->linked ? in->now_us + retry_us(m, in) : m->release_until_us;
        if (m->due_us > m->release_until_us) {
            m->due_us = m->release_until_us;
        }
        return act(0);
    case LW__EV_REFUSED: /* an earlier one may have been done */
        return left(m, m->uncertain ? LW_EUNKNOWN : LW_EREDIS);
    case LW__EV_RETRY_NOW:
        return m->in_flight ? act(0) : leave(m, in->now_us);
    case LW__EV_DUE:
        if (in->now_us < m->release_until_us) {
            return leave(m, in->now_us);
        }
        return left(m, LW_EUNKNOWN);
    default:
        return act(0);
    }
}

static struct lw__output idle(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_RELEASE) {
        return leave(m, in->now_us);
    }
    if (in->event != LW__EV_START) {
        return act(0);
    }
    if (!in->linked || in->start.behind) {
        m->phase = LW__QUEUED;
        return act(0);
    }
    m->phase = LW__ACQUIRING;
    return act(in->start.first_script ? LW__SEND_ACQUIRE : LW__SEND_TRY);
}

struct lw__output lw__machine_step(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_DUE && in->now_us < m->due_us) {
        return act(0);
    }
    switch (m->phase) {
    case LW__IDLE:
        return idle(m, in);
    case LW__ACQUIRING:
        return asking(m, in);
    case LW__QUEUED:
        return waiting(m, in);
    case LW__HELD:
        return held(m, in);
    case LW__EXPIRED:
        return lapsed(m, in);
    case LW__RELEASING:
        return leaving(m, in);
    case LW__ENDED:
        break;
    }
    return act(0);
}
