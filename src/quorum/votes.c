/* SPDX-License-Identifier: MIT */
/* The votes of one claim of a quorum: a claim at each member. They replace the claim's
 * command: what a server would reply to one request is counted here from the replies of
 * all. A vote is believed by the machine of its own claim; this file decides
 * how many of them are a lock. Independent of how votes are requested and released
 * (ask.c), and of which number a grant has (fence.c).
 *
 * Usual course: SEND_ACQUIRE asks every server at once. When a majority of votes agree
 * the claim is GRANTED: if a majority is m servers, its deadline is the m-th latest one
 * of the votes that agree. Servers that have not answered stay asked. Whenever the
 * deadline of a vote moves the claim's is computed again (VOTED). SEND_RELEASE releases
 * all, and is answered when a majority has none of the claim's tokens.
 *
 * Failures: a minority is released. If no majority can answer the outcome is UNKNOWN. A
 * vote that is lost is requested again; if a majority is lost so is the claim. Without
 * memory for the votes there is no claim. */
#include "quorum/quorum_private.h"

#include <stdlib.h>
#include <string.h>

static void timer_due(void *arg)
{
    lw__votes_changed(arg);
}

/* ---- what is reported of them ---- */

static const char *reason_of(const struct lw__vote *vote)
{
    if (!lw__machine_releases(vote->votes->claim->machine.phase)) {
        if (vote->held) {
            return "held";
        }
    } else if (vote->released == LW_OK || vote->released == LW_ENOTHELD) {
        return "released";
    }
    if (!lw__member_is_up(vote->member)) {
        return vote->member->holds.route != NULL
                   ? lw__node_reason(lw__member_node(vote->member))
                   : lw_strerror(LW_ECLOSED);
    }
    if (vote->why != NULL) {
        return vote->why;
    }
    return vote->busy && !vote->held ? "held by another client" : "no reply";
}

static void explain(const struct lw__votes *votes, char why[LW_WHY_SIZE])
{
    const char *reasons[LW__QUORUM_MOST];

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        reasons[i] = reason_of(&votes->vote[i]);
    }
    lw__quorum_list(votes->quorum, reasons, why);
}

struct count {
    unsigned held;
    unsigned busy;   /* by servers that are up */
    unsigned open;   /* asked, at servers that are up, and not answered */
    unsigned failed; /* with LW_EREDIS, for good */
    unsigned errors; /* with LW_EREDIS, also for the moment */
};

static struct count count_votes(const struct lw__votes *votes)
{
    struct count count = {0};

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        const struct lw__vote *vote = &votes->vote[i];

        if (vote->held) {
            count.held += lw__vote_is_live(vote);
        } else if (!lw__member_is_up(vote->member)) {
            continue;
        } else if (vote->busy) {
            count.busy++;
        } else if (vote->error != LW_OK) {
            count.failed += vote->error == LW_EREDIS && vote->claim == NULL;
            count.errors += vote->error == LW_EREDIS;
        } else {
            count.open += vote->claim != NULL;
        }
    }
    return count;
}

/* ---- without a majority ---- */

/* Notes the place in the queue: the largest that a server has reported. Returns how long
 * the lock stays held, in ms. */
static int64_t note_place(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    int64_t longest_ms = 0;

    claim->asking.place = 0;
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        const struct lw__vote *vote = &votes->vote[i];
        int64_t remaining_ms = vote->busy ? vote->remaining_ms : 0;

        if (vote->claim != NULL && lw__machine_asks(vote->claim->machine.phase)) {
            remaining_ms = vote->claim->asking.remaining_ms;
            if (vote->claim->asking.place > claim->asking.place) {
                claim->asking.place = vote->claim->asking.place;
            }
        }
        longest_ms = remaining_ms > longest_ms ? remaining_ms : longest_ms;
    }
    return longest_ms;
}

static void report_busy(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct lw__input input = {.event = LW__EV_QUEUED, .sent_us = lw__now_us()};

    input.queued.remaining_ms = note_place(votes);
    input.queued.position = (int64_t)claim->asking.place - 1;
    lw__claim_step(claim, &input);
}

/* No majority can be held now. Says so as a server would: the lock is held by another
 * client, the outcome is unknown, or requests are refused. */
static void report_none(struct lw__votes *votes, const struct count *count)
{
    struct lw__claim *claim = votes->claim;
    const struct lw__claim_events *events = claim->holds->events;
    struct lw__input input = {.event = LW__EV_UNKNOWN, .sent_us = lw__now_us()};
    unsigned most = votes->quorum->count - votes->quorum->majority;
    char why[LW_WHY_SIZE];

    if (count->busy > 0) {
        report_busy(votes);
        return;
    }
    explain(votes, why);
    input.unknown.was_sent = true;
    if (count->failed > most) {
        input.event = LW__EV_REFUSED;
        events->on_error(claim, LW_EREDIS, why);
    } else {
        events->outcome_unknown(claim, count->errors > most ? LW_EREDIS : LW_ECONN, why);
    }
    lw__claim_step(claim, &input);
}

/* ---- a majority ---- */

/* Returns true if the claim was granted. */
static bool grant(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    bool fenced = lw__claim_terms(claim).fence;
    uint64_t fence = fenced ? lw__quorum_fence_choose(votes) : 0, last = 0;
    int64_t deadline = lw__quorum_fence_agree(votes, fence, fence + LW__QUORUM_FENCES - 1,
                                              &last),
            lease;
    int64_t least = lw__handles(claim)->waiting != NULL
                        ? lw__handle_margin_us(lw__handles(claim)->waiting)
                        : 0;

    if (deadline == 0) {
        return false;
    }
    least = least > LW__LEAST_US ? least : LW__LEAST_US;
    if (deadline - lw__now_us() <= least) {
        return false; /* votes are being renewed */
    }
    if (claim->machine.phase == LW__QUEUED) {
        lw__claim_event(claim, LW__EV_RETRY_NOW);
    }
    last = last - fence < LW__QUORUM_FENCES ? last - fence + 1 : LW__QUORUM_FENCES;
    votes->floor = fence;
    lw__quorum_ask_granted(votes);
    lease = (int64_t)lw__claim_lease_ms(claim, lw__claim_terms(claim).lease_us) * LW__MS;
    lw__votes_changed(votes); /* for the votes that do not agree yet */
    lw__claim_granted(claim, fence, fenced ? (unsigned)last : 0,
                      deadline + lw__machine_drift_us(lease) - lease);
    return true;
}

static void count_asking(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct count count;

    if (claim->machine.unwanted) {
        struct lw__input input = {.event = LW__EV_UNKNOWN, .sent_us = lw__now_us()};

        input.unknown.was_sent = true;
        lw__claim_step(claim, &input);
        return;
    }
    if (!votes->asks) {
        return;
    }
    lw__quorum_ask_all(votes);
    count = count_votes(votes);
    if (count.held >= votes->quorum->majority) {
        (void)grant(votes);
        return;
    }
    if (count.held > 0) {
        lw__quorum_ask_minority(votes, count.busy > 0);
        count = count_votes(votes);
    } else {
        lw__quorum_ask_none(votes);
    }
    if (count.held + count.open < votes->quorum->majority &&
        (count.busy > 0 || count.open == 0) && /* else an answer may say more */
        lw__now_us() >= votes->paused_until_us && claim->machine.phase == LW__ACQUIRING) {
        report_none(votes, &count);
    }
}

/* ---- held ---- */

static bool renew_all(struct lw__claim *claim, uint32_t lease_ms)
{
    struct lw__votes *votes = claim->extras->votes;

    votes->renewing = lw__quorum_ask_renew(votes, lease_ms);
    return votes->renewing;
}

static void finish_calls(struct lw_lock *holder, int status)
{
    struct lw__renew_call *call;

    if (holder == NULL || !holder->delivered) {
        return;
    }
    DL_FOREACH(holder->held.renew_calls, call) {
        if (call->notice.kind == LW__NOTICE_NONE) {
            lw__notify_renewed(call, status);
        }
    }
}

/* The renewals of renew_all are answered by a majority, or cannot be. */
static void count_renewals(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    unsigned done = 0, open = 0, refused = 0;
    int status;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        const struct lw__vote *vote = &votes->vote[i];

        if (vote->held && vote->renewing) {
            open += lw__member_is_up(vote->member);
        } else if (vote->held) {
            done += vote->renewed == LW_OK;
            refused += vote->renewed == LW_EREDIS;
        }
    }
    if (done < votes->quorum->majority && done + open >= votes->quorum->majority) {
        return;
    }
    status = done >= votes->quorum->majority                            ? LW_OK
             : refused > votes->quorum->count - votes->quorum->majority ? LW_EREDIS
                                                                        : LW_ECONN;
    votes->renewing = false;
    if (status != LW_OK && lw__handles(claim)->holder != NULL) {
        char why[LW_WHY_SIZE];

        explain(votes, why);
        lw__handle_set_error(lw__handles(claim)->holder, status, why);
    }
    finish_calls(lw__handles(claim)->holder, status);
    if (lw__handles(claim)->holder == NULL) {
        claim->holds->events->renewed(claim, status == LW_OK);
    }
}

/* Too few votes are left. The claim is lost at once: the servers that have lost theirs
 * may grant them to another client. May free the votes. */
static void lose(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct lw__input input = {.event = LW__EV_VOTED};
    char why[LW_WHY_SIZE];
    bool gone = false;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        gone = gone || votes->vote[i].gone;
    }
    explain(votes, why);
    claim->holds->events->on_error(claim, LW_ECONN, why);
    if (gone) {
        input.event = LW__EV_LOST_ON_SERVER;
        lw__claim_step(claim, &input);
        return;
    }
    input.voted.deadline_us = lw__now_us();
    input.voted.wanted_us = lw__claim_terms(claim).lease_us;
    lw__claim_step(claim, &input);
    /* A holder finds the new deadline. Without one the votes were renewed for the next.
     */
    claim->holds->events->renewed(claim, lw__handles(claim)->holder != NULL);
}

/* Returns the deadline of a majority of the live votes, 0 if fewer are live. */
static int64_t deadline_of_all(const struct lw__votes *votes)
{
    uint64_t deadlines[LW__QUORUM_MOST];
    unsigned live = 0, majority = votes->quorum->majority;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        if (lw__vote_is_live(&votes->vote[i])) {
            deadlines[live++] = (uint64_t)lw__vote_deadline_us(&votes->vote[i]);
        }
    }
    qsort(deadlines, live, sizeof(deadlines[0]), lw__quorum_compare);
    return live < majority ? 0 : (int64_t)deadlines[live - majority];
}

/* All live votes count: they exclude other clients. A majority agreed at the grant; the
 * others have their counters raised, so that each majority to come draws larger numbers.
 */
static void count_held(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    uint64_t fence = claim->machine.fence, last;
    struct lw__input input = {.event = LW__EV_VOTED};
    int64_t before = claim->machine.deadline_us;

    if (fence > 0) {
        fence += claim->fences_drawn - 1U;
    }
    (void)lw__quorum_fence_agree(votes, fence, fence, &last);
    input.voted.deadline_us = deadline_of_all(votes);
    input.voted.wanted_us = lw__claim_terms(claim).lease_us;
    if (input.voted.deadline_us == 0) {
        lose(votes);
        return;
    }
    lw__quorum_ask_match(claim);
    if (input.voted.deadline_us != before) {
        lw__claim_step(claim, &input);
        if (lw__handles(claim)->holder != NULL) {
            claim->holds->events->renewed(claim, true);
        }
    }
    if (votes->renewing) {
        count_renewals(votes);
    }
    if (lw__machine_holds(claim->machine.phase)) {
        lw__quorum_ask_all(votes);
    }
}

/* ---- releasing ---- */

static void release_all(struct lw__votes *votes)
{
    votes->asks = votes->renewing = false;
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        lw__quorum_ask_release(&votes->vote[i]);
    }
}

struct releases {
    unsigned without; /* votes that are not held any longer */
    unsigned not_held, pending, refused, unknown;
};

/* With `now` a pending release counts as it would be completed now. */
static struct releases count_releases(const struct lw__votes *votes, bool now)
{
    struct releases count = {0};

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        const struct lw__vote *vote = &votes->vote[i];
        int status = vote->released == LW__PENDING && now
                         ? lw__claim_release_status(vote->claim)
                         : vote->released;

        count.without += status == LW_OK || status == LW_ENOTHELD;
        count.not_held += status == LW_ENOTHELD;
        count.pending += status == LW__PENDING;
        count.refused += status == LW_EREDIS;
        count.unknown += status == LW_EUNKNOWN;
    }
    return count;
}

/* A majority has confirmed its release. Returns true if the lock was held until
 * then: no more than a minority was lost before, or never granted. */
static bool was_held(const struct lw__votes *votes, const struct releases *count)
{
    return count->not_held <= votes->quorum->count - votes->quorum->majority;
}

/* Returns the outcome if no majority has confirmed its release. It is known if the
 * servers whose reply is missing would not complete a majority. */
static int unconfirmed_status(const struct lw__votes *votes, const struct releases *count)
{
    unsigned majority = votes->quorum->majority;

    if (count->without + count->unknown >= majority) {
        return LW_EUNKNOWN;
    }
    return count->refused > votes->quorum->count - majority ? LW_EREDIS : LW_ECONN;
}

static int release_status(const struct lw__claim *claim, char *why)
{
    const struct lw__votes *votes = claim->extras->votes;
    struct releases count = count_releases(votes, true);

    explain(votes, why);
    if (count.without >= votes->quorum->majority) {
        return was_held(votes, &count) ? LW_OK : LW_ENOTHELD;
    }
    return unconfirmed_status(votes, &count);
}

static void count_released(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct releases count = count_releases(votes, false);
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = lw__now_us()};
    char why[LW_WHY_SIZE];
    int status;

    if (count.without >= votes->quorum->majority) {
        input.released.released = was_held(votes, &count);
        lw__claim_step(claim, &input);
        return;
    }
    if (count.pending > 0) {
        return;
    }
    status = unconfirmed_status(votes, &count);
    explain(votes, why);
    claim->holds->events->on_error(claim, count.refused > 0 ? LW_EREDIS : LW_ECONN, why);
    if (status == LW_EUNKNOWN) { /* the members go on releasing */
        input.event = LW__EV_UNKNOWN;
        input.unknown.was_sent = true;
        lw__claim_step(claim, &input);
    }
    input.event = LW__EV_REFUSED;
    input.unknown.for_now = status == LW_ECONN;
    lw__claim_step(claim, &input);
}

/* ---- counting ---- */

static void count(struct lw__votes *votes)
{
    enum lw__phase phase = votes->claim->machine.phase;

    lw__quorum_ask_drop_expired(votes);
    if (lw__machine_holds(phase)) {
        count_held(votes);
    } else if (lw__machine_releases(phase)) {
        count_released(votes);
    } else if (lw__machine_asks(phase) && phase != LW__IDLE) {
        count_asking(votes);
    }
}

/* A step may free any of the votes. */
static void count_changed(void *arg)
{
    struct lw__quorum *quorum = arg;

    while (quorum->changed_votes != NULL) {
        struct lw__votes *votes = quorum->changed_votes;

        lw__votes_unchanged(votes);
        count(votes);
    }
}

/* ---- what the claim wants ---- */

static void stepped(struct lw__claim *claim, unsigned actions)
{
    struct lw__votes *votes = claim->extras->votes;

    if (actions & LW__SEND_RELEASE) {
        release_all(votes);
        lw__votes_changed(votes);
    } else if (actions & (LW__SEND_TRY | LW__SEND_ACQUIRE)) {
        votes->asks = true;
        lw__quorum_ask_anew(votes);
        lw__votes_changed(votes);
    } else if (claim->machine.unwanted) {
        lw__votes_changed(votes);
    }
}

/* ---- their life ---- */

static bool make(struct lw__claim *claim)
{
    struct lw_client *client = lw__client_of(claim);
    struct lw__quorum *quorum = client->quorum;
    struct lw__votes *votes =
        calloc(1, sizeof(*votes) + quorum->count * sizeof(votes->vote[0]));

    if (votes == NULL) {
        return false;
    }
    if (lw__timer_reserve(client->loop, 1) != 0) {
        free(votes);
        return false;
    }
    votes->claim = claim;
    votes->quorum = quorum;
    lw__timer_init(&votes->timer, timer_due, votes);
    for (unsigned i = 0; i < quorum->count; i++) {
        votes->vote[i].votes = votes;
        votes->vote[i].member = &quorum->members[i];
    }
    lw__claim_own_extras(claim)->votes = votes;
    return true;
}

/* Releases the remaining votes in the background. */
static void free_votes(struct lw__claim *claim)
{
    struct lw__votes *votes = claim->extras->votes;

    lw__quorum_ask_clear(votes);
    lw__votes_unchanged(votes);
    lw__timer_cancel(claim->holds->loop, &votes->timer);
    lw__timer_unreserve(claim->holds->loop, 1);
    free(votes);
    lw__claim_own_extras(claim)->votes = NULL;
}

static struct lw__quorum *quorum_of(const struct lw__holds *holds)
{
    return LW__CONTAINER_OF(struct lw_client, holds, holds)->quorum;
}

static const char *reason(const struct lw__holds *holds)
{
    return lw__quorum_reason(quorum_of(holds));
}

static bool is_drained(const struct lw__holds *holds)
{
    return lw__quorum_is_drained(quorum_of(holds));
}

static void end(struct lw__holds *holds)
{
    const struct lw__claim *claim;

    for (struct lw__name *name = lw__name_after(holds, NULL); name != NULL;
         name = lw__name_after(holds, name)) {
        DL_FOREACH(name->claims, claim) {
            for (unsigned i = 0; i < claim->extras->votes->quorum->count; i++) {
                lw__quorum_ask_forget(&claim->extras->votes->vote[i]);
            }
        }
    }
    lw__quorum_end(quorum_of(holds));
}

int lw__quorum_votes_start(struct lw_client *client)
{
    static const struct lw__vote_ops ops = {
        make,           free_votes, stepped, lw__quorum_ask_match, renew_all, reason,
        release_status, is_drained, end};

    client->holds.votes = &ops;
    lw__defer_init(&client->quorum->count_call, count_changed, client->quorum);
    return lw__quorum_start(client, &lw__quorum_ask_events);
}
