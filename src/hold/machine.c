/* SPDX-License-Identifier: MIT */
/* The life of one token: see machine.h. Each phase has its function; what they share
 * comes first. For the safety of a lock, read believe(), hand_over() and on_renewed(). */
#include "hold/machine.h"

#include "lockwire.h"

#include <stddef.h>

#define MS 1000
#define RETRY_US (50 * MS) /* after a reply that left the outcome unknown; doubles */
#define DOUBLINGS 4
#define LONGEST_POLL 3000 /* of the first waiter, and of one that is not in the queue */

/* `queued` is the first member of an input's union (else this is no initializer), and the
 * largest. */
#define AN_INPUT                                                                         \
    ((struct lw__input){LW__EV_START, false, 0, 0, 0, 0, {{.remaining_ms = 0}}})
_Static_assert(sizeof(AN_INPUT.queued) ==
                   sizeof(AN_INPUT) - offsetof(struct lw__input, queued),
               "an initializer that names no member sets all of them");

/* ---- polling ---- */

/* Returns a third of the remaining lease, and more for each waiter ahead. */
int64_t lw__machine_poll_us(int64_t remaining_ms, int64_t position, int64_t jitter)
{
    int64_t remaining = remaining_ms < 0 ? 9000 : remaining_ms;
    int64_t rank = position < 0 ? 3 : position; /* polls less often if not in the queue */
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

/* ---- what the phases share ---- */

int64_t lw__machine_drift_us(int64_t span_us)
{
    return span_us / 100 + 2 * MS;
}

bool lw__machine_covers(int64_t deadline_us, int64_t lease_us, int64_t until_us)
{
    return until_us != LW__NEVER &&
           deadline_us + lw__machine_drift_us(lease_us) + MS >= until_us;
}

void lw__machine_init(struct lw__machine *machine, int64_t window_us, int64_t lease_us)
{
    *machine = (struct lw__machine){
        .phase = LW__IDLE,
        .lease_us = lease_us,
        .window_us = (uint32_t)window_us,
        .due_us = LW__NEVER,
        .ticket = -1,
    };
}

static struct lw__output only(unsigned actions)
{
    return (struct lw__output){.actions = actions};
}

static struct lw__output end(struct lw__machine *m, unsigned actions)
{
    m->phase = LW__ENDED;
    m->due_us = LW__NEVER;
    return only(actions | LW__DO_END);
}

static struct lw__output acquire(struct lw__machine *m)
{
    m->phase = LW__ACQUIRING;
    m->due_us = LW__NEVER;
    m->handed_us = 0;
    m->retry_at_once = false;
    return only(LW__SEND_ACQUIRE);
}

/* The token may have the lock already, by an earlier reply or by a message, and its lease
 * is running: the request is as urgent as a renewal. */
static struct lw__output acquire_to_keep(struct lw__machine *m)
{
    m->maybe_held = true;
    return acquire(m);
}

/* Releases whatever the token may have in Redis: the name, or a place in the queue. */
static struct lw__output release(struct lw__machine *m, int64_t now_us)
{
    if (!lw__machine_releases(m->phase)) {
        int64_t least = now_us + m->lease_us;

        m->release_until_us = m->held_until_us > least ? m->held_until_us : least;
        m->failures = 0;
    }
    m->phase = LW__RELEASING;
    m->due_us = LW__NEVER;
    return only(LW__SEND_RELEASE);
}

static struct lw__output hold(struct lw__machine *m, enum lw__phase phase,
                              int64_t deadline_us, uint64_t fence)
{
    m->phase = phase;
    m->deadline_us = m->held_until_us = deadline_us;
    m->due_us = LW__NEVER;
    m->fence = fence;
    m->ticket = -1;
    m->maybe_in_redis = true;
    m->unconfirmed = false;
    m->failures = 0;
    return only(LW__DO_GRANT);
}

static void note_unknown(struct lw__machine *m, const struct lw__input *in)
{
    if (!in->unknown.was_sent) {
        return;
    }
    if (!m->unconfirmed) {
        m->first_sent_us = in->sent_us;
    }
    m->unconfirmed = true;
    m->maybe_in_redis = true;
}

/* Returns the delay before the next attempt, on a link that is up. */
static int64_t retry_us(struct lw__machine *m, const struct lw__input *in)
{
    int64_t delay = (int64_t)RETRY_US << m->failures;

    if (m->failures < DOUBLINGS) {
        m->failures++;
    }
    return delay + delay / 10 * in->jitter / 1000;
}

/* "Not yours" in the reply to a release that was sent again most likely means that the
 * first one had released it, provided that one was sent while the lock was still ours. A
 * token that the first one had detached would still be there. */
static bool presumed_released(const struct lw__machine *m)
{
    return m->unconfirmed && m->first_sent_us < m->held_until_us && !m->detaches;
}

/* The lock is relied on until sent + lease - drift, whatever Redis does. */
static int64_t deadline_of(int64_t sent_us, int64_t lease_us)
{
    return sent_us + lease_us - lw__machine_drift_us(lease_us);
}

/* A reply says that the lock was granted. It is believed if enough of the lease is left;
 * otherwise the same token requests it again, which extends the lease. */
static struct lw__output believe(struct lw__machine *m, const struct lw__input *in)
{
    int64_t deadline = deadline_of(in->sent_us, m->lease_us);
    int64_t least = in->margin_us > LW__LEAST_US ? in->margin_us : LW__LEAST_US;

    m->held_until_us = deadline;
    m->maybe_in_redis = true;
    if (m->unwanted) {
        return release(m, in->now_us);
    }
    if (deadline - in->now_us <= least) {
        return acquire_to_keep(m);
    }
    return hold(m, LW__HELD, deadline, in->granted.fence);
}

/* A message says that the lock was handed to this token at `handed_us` of the server's
 * clock. An earlier request of ours was sent at pair_sent_us, and the server's clock
 * showed pair_server_us when it replied. So the hand-over came at least the difference of
 * the two server times later than pair_sent_us, by our clock, and the claim window is
 * counted from there. If less time than that has passed on our clock, the server's clock
 * was set, and the message is not believed. The renewal is due at a quarter of the
 * window. A margin must leave time for the renewal and its reply, or the hold would be
 * lost at once; otherwise the full lease is requested. */
static struct lw__output hand_over(struct lw__machine *m, const struct lw__input *in,
                                   int64_t handed_us, uint64_t fence,
                                   int64_t pair_sent_us, int64_t pair_server_us)
{
    int64_t passed = handed_us - pair_server_us;
    int64_t passed_here = in->now_us - pair_sent_us, deadline, spare;
    struct lw__output out;

    if (pair_server_us == 0 || passed < 0 ||
        passed > passed_here + lw__machine_drift_us(passed_here)) {
        return acquire_to_keep(m);
    }
    deadline = deadline_of(pair_sent_us, passed + m->window_us);
    spare = deadline - in->now_us;
    if (spare <= m->window_us / 4 ||
        (in->margin_us > 0 && spare - in->margin_us <= m->window_us / 2)) {
        return acquire_to_keep(m);
    }
    out = hold(m, LW__HELD_BY_MESSAGE, deadline, fence);
    m->due_us = pair_sent_us + passed + m->window_us / 4;
    return out;
}

static struct lw__output give_up(struct lw__machine *m, const struct lw__input *in)
{
    return m->maybe_in_redis ? release(m, in->now_us) : end(m, 0);
}

static struct lw__output fail(struct lw__machine *m, const struct lw__input *in,
                              int status)
{
    struct lw__output out = give_up(m, in);

    out.actions |= LW__DO_FAIL;
    out.fail_status = status;
    return out;
}

/* ---- acquiring ---- */

/* Returns when to poll after a message to stand by. Only one waiter of a name gets such a
 * message from Redis, so the polls need no jitter. */
static int64_t stand_by_until(const struct lw__input *in)
{
    return in->now_us + in->standby.window_us + 2 * MS;
}

static int64_t poll_us(const struct lw__input *in)
{
    if (in->queued.poll_ms > 0) {
        return lw__machine_lease_poll_us(in->queued.remaining_ms, in->queued.poll_ms,
                                         in->jitter);
    }
    return lw__machine_poll_us(in->queued.remaining_ms, in->queued.position, in->jitter);
}

static struct lw__output on_queued(struct lw__machine *m, const struct lw__input *in)
{
    int64_t handed = m->handed_us, standby_due = m->due_us;
    struct lw__output out;

    m->ticket = in->queued.ticket;
    m->maybe_in_redis = in->queued.position >= 0 || handed != 0;
    m->handed_us = 0;
    m->failures = 0;
    m->maybe_held = false;
    if (m->unwanted) {
        return give_up(m, in);
    }
    /* A message that was noted while the request was in flight counts if it is later than
     * this reply. */
    if (handed != 0 && handed >= in->queued.server_us) {
        return hand_over(m, in, handed, m->fence, in->sent_us, in->queued.server_us);
    }
    if (in->queued.again || m->retry_at_once) {
        out = acquire(m);
    } else {
        m->phase = LW__QUEUED;
        m->due_us = in->now_us + poll_us(in);
        if (standby_due < m->due_us) { /* the reply may be older than that message */
            m->due_us = standby_due;
        }
        out = only(0);
    }
    out.actions |= LW__DO_BUSY;
    return out;
}

/* The outcome is unknown: sends the request again later, or makes sure that nothing of it
 * remains. */
static struct lw__output on_unknown(struct lw__machine *m, const struct lw__input *in)
{
    note_unknown(m, in);
    if (m->unwanted) {
        return give_up(m, in);
    }
    m->phase = LW__QUEUED;
    m->due_us = in->linked ? in->now_us + retry_us(m, in) : LW__NEVER;
    return only(0);
}

static struct lw__output step_acquiring(struct lw__machine *m, const struct lw__input *in)
{
    switch (in->event) {
    case LW__EV_LEASE_SET: /* the deadline will be computed from it */
        m->lease_us = in->lease_set.lease_us;
        m->handed_us = 0; /* the reply covers messages before it was sent */
        return only(0);
    case LW__EV_NOT_GRANTED:
        m->maybe_in_redis = true;
        if (in->not_granted.ticket > 0) {
            m->ticket = in->not_granted.ticket;
        }
        if (m->unwanted) {
            return give_up(m, in);
        }
        return in->not_granted.set_done ? acquire_to_keep(m) : acquire(m);
    case LW__EV_GRANTED:
        return believe(m, in);
    case LW__EV_QUEUED:
        return on_queued(m, in);
    case LW__EV_DEADLOCK:
        return fail(m, in, LW_EDEADLOCK);
    case LW__EV_UNKNOWN:
        return on_unknown(m, in);
    case LW__EV_REFUSED:
        note_unknown(m, in);
        return fail(m, in, LW_EREDIS);
    case LW__EV_NOT_ADOPTED:
        return fail(m, in, in->not_adopted.status);
    case LW__EV_HANDED_OVER: /* judged with the reply */
        if (in->handed_over.handed_us > m->handed_us) {
            m->handed_us = in->handed_over.handed_us;
            m->fence = in->handed_over.fence;
        }
        return only(0);
    case LW__EV_STANDBY: /* on_queued takes it into account */
        if (stand_by_until(in) < m->due_us) {
            m->due_us = stand_by_until(in);
        }
        return only(0);
    case LW__EV_DUE:
        m->due_us = LW__NEVER;
        m->retry_at_once = true;
        return only(0);
    case LW__EV_RETRY_NOW:
        m->retry_at_once = true;
        return only(0);
    case LW__EV_CANCEL:
        m->unwanted = true;
        return only(0);
    default:
        return only(0);
    }
}

/* ---- waiting ---- */

static struct lw__output step_queued(struct lw__machine *m, const struct lw__input *in)
{
    switch (in->event) {
    case LW__EV_HANDED_OVER:
        return hand_over(m, in, in->handed_over.handed_us, in->handed_over.fence,
                         in->handed_over.pair_sent_us, in->handed_over.pair_server_us);
    case LW__EV_STANDBY: /* only earlier */
        if (stand_by_until(in) < m->due_us) {
            m->due_us = stand_by_until(in);
        }
        return only(0);
    case LW__EV_RETRY_NOW:
    case LW__EV_DUE:
        return acquire(m);
    case LW__EV_CANCEL:
        m->unwanted = true;
        return give_up(m, in);
    default:
        return only(0);
    }
}

/* ---- holding ---- */

/* A reply only moves the deadline forward, and not beyond the lease that is wanted now.
 */
static struct lw__output on_renewed(struct lw__machine *m, const struct lw__input *in)
{
    int64_t asked = in->renewed.lease_us, wanted = in->renewed.wanted_us;
    int64_t deadline = deadline_of(in->sent_us, asked < wanted ? asked : wanted);

    if (deadline > m->deadline_us) {
        m->deadline_us = m->held_until_us = deadline;
    }
    m->phase = LW__HELD;
    m->due_us = LW__NEVER;
    return only(0);
}

static struct lw__output step_held(struct lw__machine *m, const struct lw__input *in)
{
    int64_t deadline;

    switch (in->event) {
    case LW__EV_RENEWED:
        return on_renewed(m, in);
    case LW__EV_SHORTEN: /* valid at once, also if it never reaches the server */
        deadline = deadline_of(in->now_us, in->shorten.lease_us);
        if (deadline < m->deadline_us) {
            m->deadline_us = deadline;
        }
        return only(0);
    case LW__EV_LOST_ON_SERVER:
        return end(m, LW__DO_LOST);
    case LW__EV_RELEASE:
        m->detaches = in->release.detaches;
        return release(m, in->now_us);
    case LW__EV_UNDELIVERED:
        return acquire_to_keep(m);
    case LW__EV_LOST_LOCALLY: /* released at the deadline: the margin is the holder's */
        if (in->lost_locally.at_us < m->deadline_us) {
            m->deadline_us = in->lost_locally.at_us;
        }
        m->phase = LW__EXPIRED;
        m->due_us = m->deadline_us;
        return only(0);
    case LW__EV_VOTED: /* each vote was believed by a machine of its own */
        deadline = deadline_of(in->now_us, in->voted.wanted_us);
        if (deadline < m->deadline_us) { /* of an earlier handle with a longer lease */
            deadline = m->deadline_us;
        }
        m->deadline_us = in->voted.deadline_us < deadline ? in->voted.deadline_us
                                                          : deadline;
        m->held_until_us = m->deadline_us;
        return only(0);
    default:
        return only(0);
    }
}

static struct lw__output step_expired(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_DUE || in->event == LW__EV_RELEASE) {
        m->detaches = in->event == LW__EV_RELEASE && in->release.detaches;
        return release(m, in->now_us);
    }
    if (in->event == LW__EV_LOST_ON_SERVER) {
        return end(m, 0);
    }
    return only(0);
}

/* ---- releasing ---- */

/* `otherwise` is the status if no reply has confirmed the release. */
static struct lw__output finish_release(struct lw__machine *m, int otherwise)
{
    struct lw__output out = end(m, LW__DO_RELEASED);

    out.release_status = m->release_confirmed ? LW_OK : otherwise;
    return out;
}

int lw__machine_release_status(const struct lw__machine *m, bool in_flight)
{
    return m->release_confirmed          ? LW_OK
           : m->unconfirmed || in_flight ? LW_EUNKNOWN
                                         : LW_ECONN;
}

static struct lw__output on_released(struct lw__machine *m, const struct lw__input *in)
{
    struct lw__output out;

    m->release_confirmed = m->release_confirmed || in->released.released;
    if (in->released.again) {
        return release(m, in->now_us);
    }
    out = finish_release(m, presumed_released(m) ? LW_OK : LW_ENOTHELD);
    /* a detach whose time has expired is sent as a release */
    if (out.release_status == LW_OK && in->released.holds_left > 0 && !m->detaches) {
        out.release_status = LW_STILLHELD;
    }
    return out;
}

static struct lw__output step_releasing(struct lw__machine *m, const struct lw__input *in)
{
    switch (in->event) {
    case LW__EV_RELEASED:
        return on_released(m, in);
    case LW__EV_UNKNOWN:
        note_unknown(m, in);
        m->phase = LW__RELEASE_DUE;
        m->due_us = in->linked ? in->now_us + retry_us(m, in) : m->release_until_us;
        if (m->due_us > m->release_until_us) {
            m->due_us = m->release_until_us;
        }
        return only(0);
    case LW__EV_REFUSED: /* an earlier attempt may have been executed */
        return finish_release(m, m->unconfirmed        ? LW_EUNKNOWN
                                 : in->unknown.for_now ? LW_ECONN
                                                       : LW_EREDIS);
    case LW__EV_RETRY_NOW:
        return m->phase == LW__RELEASING ? only(0) : release(m, in->now_us);
    case LW__EV_DUE:
        if (in->now_us < m->release_until_us) {
            return release(m, in->now_us);
        }
        return finish_release(m, lw__machine_release_status(m, false));
    default:
        return only(0);
    }
}

/* ---- all phases ---- */

static struct lw__output step_idle(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_RELEASE) {
        return release(m, in->now_us);
    }
    if (in->event != LW__EV_START) {
        return only(0);
    }
    if (in->start.ticket > 0) {
        m->ticket = in->start.ticket;
    }
    if (!in->linked || in->start.behind) {
        m->phase = LW__QUEUED;
        return only(0);
    }
    m->phase = LW__ACQUIRING;
    return only(in->start.first_script ? LW__SEND_ACQUIRE : LW__SEND_TRY);
}

struct lw__output lw__machine_step(struct lw__machine *m, const struct lw__input *in)
{
    if (in->event == LW__EV_DUE && in->now_us < m->due_us) {
        return only(0);
    }
    switch (m->phase) {
    case LW__IDLE:
        return step_idle(m, in);
    case LW__ACQUIRING:
        return step_acquiring(m, in);
    case LW__QUEUED:
        return step_queued(m, in);
    case LW__HELD:
    case LW__HELD_BY_MESSAGE:
        return step_held(m, in);
    case LW__EXPIRED:
        return step_expired(m, in);
    case LW__RELEASING:
    case LW__RELEASE_DUE:
        return step_releasing(m, in);
    case LW__ENDED:
        break;
    }
    return only(0);
}
