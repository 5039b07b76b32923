/* SPDX-License-Identifier: MIT */
/* Requests votes, renews and releases them. A vote is a claim at one server, a ballot;
 * this file is what those claims report to, and says what they need: the lease, the
 * margin and the flags of the first handle of the claim that the votes are for.
 * Independent of how many votes are a lock (votes.c).
 *
 * Usual course: each server is asked once, all of them with one ticket: the time of the
 * first server whose clock is known. A vote that is granted, busy or lost has the claim's
 * votes counted again.
 *
 * Failures: a minority that is held while another client has the other servers is
 * released after a moment (yield), and requested again with fresh tokens and the old
 * ticket; after many such yields without a grant, after a pause (retreat). A released
 * token is never used again, since a late copy of its release would release the new vote.
 * A minority that cannot become a majority, because servers do not answer, is released
 * after claim_ms, and requested at the end of the queues after a pause (step_back). After
 * an error, also if memory is short, a server is asked again later. */
#include "quorum/quorum_private.h"

#include "base/escape.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define YIELD_LEAST_US 200 /* without news, before a minority is released */
#define YIELD_MOST_US 2000 /* doubles with each time, up to: */
#define YIELD_LIMIT_US 20000
#define YIELDS_MOST 20 /* since the last grant; then it retreats */
#define PAUSE_LEAST_US (50 * LW__MS)
#define PAUSE_MOST_US (200 * LW__MS)
#define AGAIN_US (1000 * LW__MS)  /* before a server is asked again after an error */
#define CLOCK_US (10000 * LW__MS) /* a fast request tells the time for so long */
/* Part of the lease for which a holder does not request a vote that its server has lost.
 */
#define BREAK_PART 3
/* Subtracted when a lease is shortened, so that the reply moves the deadline. */
#define SHORTENED_MORE_US (2 * LW__MS)

/* ---- tickets ---- */

/* Returns the ticket with which the vote waits, 0 if none is known. */
static int64_t ticket_of(const struct lw__vote *vote)
{
    return vote->claim != NULL && vote->claim->machine.ticket > 0
               ? vote->claim->machine.ticket
               : 0;
}

/* Returns the ticket that a server gave; 0 if none did. */
static int64_t given_ticket(const struct lw__votes *votes)
{
    int64_t ticket = 0;

    for (unsigned i = 0; i < votes->quorum->count && ticket == 0; i++) {
        ticket = ticket_of(&votes->vote[i]);
    }
    return ticket;
}

/* Returns the server's time, 0 if it is unknown. It is ahead by the delay of the request
 * that asked for it, so the fastest request counts: with the last one a client that was
 * delayed once would be overtaken. */
static int64_t time_of(const struct lw__vote *vote)
{
    const struct lw__clock_pair *latest = &vote->member->holds.last_clock;
    struct lw__clock_pair *best = &vote->member->clock;
    struct lw__node *node = lw__member_node(vote->member);
    unsigned connection = lw__node_connection(node);

    if (best->server_us == 0 || best->connection != connection) {
        best->server_us = lw__node_clock(node, &best->sent_us);
        best->connection = connection;
    }
    if (latest->server_us != 0 && latest->connection == connection &&
        (best->server_us == 0 || lw__now_us() - best->sent_us > CLOCK_US ||
         latest->server_us - latest->sent_us < best->server_us - best->sent_us)) {
        *best = *latest;
    }
    return best->server_us != 0 ? best->server_us + lw__now_us() - best->sent_us : 0;
}

/* Returns the time of the first server whose clock is known, by which all clients queue;
 * 0 if none is. */
static int64_t time_of_servers(const struct lw__votes *votes)
{
    int64_t time = 0;

    for (unsigned i = 0; i < votes->quorum->count && time == 0; i++) {
        time = lw__member_is_up(votes->vote[i].member) ? time_of(&votes->vote[i]) : 0;
    }
    return time;
}

/* Claims of one client have different tickets, or the order of two would depend on the
 * server. Without any clock each server gives a ticket; the first one then counts. */
static void choose_ticket(struct lw__votes *votes)
{
    struct lw__quorum *quorum = votes->quorum;
    int64_t ticket = given_ticket(votes);

    if (ticket == 0 && (ticket = time_of_servers(votes)) != 0) {
        ticket = ticket > quorum->last_ticket ? ticket : quorum->last_ticket + 1;
        quorum->last_ticket = ticket;
    }
    votes->ticket = ticket;
}

/* ---- what a vote needs ---- */

static struct lw__vote *vote_of(const struct lw__claim *claim)
{
    return LW__CONTAINER_OF(struct lw__ballot, claim, claim)->vote;
}

/* `first` is the holder of the claim, or its first waiter. */
static struct lw__terms terms_of(const struct lw__votes *votes,
                                 const struct lw_lock *first)
{
    struct lw__terms terms = lw__claim_terms(votes->claim);

    return (struct lw__terms){
        .lease_us = terms.lease_us,
        .margin_us = lw__handle_margin_us(first),
        .hold_until_us = terms.hold_until_us,
        .renews = !(first->flags & LW_NO_RENEW),
    };
}

/* A ballot without a vote is about to end. */
static void get_terms(const struct lw__claim *claim, struct lw__terms *ret)
{
    const struct lw__vote *vote = vote_of(claim);

    if (vote == NULL) {
        *ret = (struct lw__terms){.lease_us = claim->machine.lease_us,
                                  .hold_until_us = LW__NEVER};
        return;
    }
    *ret = (struct lw__terms){
        .lease_us = vote->votes->wanted.lease_us,
        .margin_us = vote->votes->wanted.margin_us,
        .hold_until_us = vote->votes->wanted.hold_until_us,
        .renews = vote->votes->wanted.renews,
        .lease_short = vote->renewing,
        .fence = true,
        .place = vote->waits,
    };
}

static int64_t grant_margin_us(const struct lw__claim *claim)
{
    return vote_of(claim) != NULL ? vote_of(claim)->votes->wanted.margin_us : 0;
}

/* ---- the end of a vote ---- */

static void forget_error(struct lw__vote *vote)
{
    free(vote->why);
    vote->why = NULL;
    vote->error = LW_OK;
}

/* Without memory for its text the error has none. */
static void set_error(struct lw__vote *vote, int error, const char *why)
{
    char escaped[LW__TEXT_MAX];

    forget_error(vote);
    lw__escape(why, escaped, sizeof(escaped));
    vote->error = error;
    vote->why = *escaped ? strdup(escaped) : NULL;
}

/* The claim goes on without its vote, if it has not ended: the outcome of a release
 * stays unknown. */
void lw__quorum_ask_forget(struct lw__vote *vote)
{
    if (vote->claim != NULL) {
        LW__CONTAINER_OF(struct lw__ballot, claim, vote->claim)->vote = NULL;
        lw__quorum_fence_forget(vote);
    }
    if (vote->released == LW__PENDING) {
        vote->released = LW_EUNKNOWN;
    }
    vote->claim = NULL;
    vote->held = vote->busy = vote->renewing = false;
    vote->asked_us = 0;
}

static void leave(struct lw__claim *claim)
{
    bool asks = lw__machine_asks(claim->machine.phase);

    lw__renewal_forget(claim);
    lw__claim_event(claim, asks ? LW__EV_CANCEL : LW__EV_RELEASE);
}

void lw__quorum_ask_drop(struct lw__vote *vote)
{
    struct lw__claim *claim = vote->claim;

    lw__quorum_ask_forget(vote);
    if (claim != NULL) {
        leave(claim);
    }
}

/* The vote has none any longer, because of an error of its server. The text of that is
 * known, or is the status's. */
static void fail(struct lw__vote *vote, int status)
{
    if (vote->error == LW_OK || vote->why == NULL) {
        set_error(vote, status, lw_strerror(status));
    }
    vote->again_us = lw__now_us() + AGAIN_US;
    lw__quorum_ask_forget(vote);
    lw__votes_changed(vote->votes);
}

/* A vote that was held is not. */
static void lapse(struct lw__vote *vote, int reason)
{
    set_error(vote, reason, lw_strerror(reason));
    vote->again_us = 0;
    vote->lapsed = true;
}

void lw__quorum_ask_drop_expired(struct lw__votes *votes)
{
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (!vote->held || !lw__machine_holds(vote->claim->machine.phase)) {
            continue;
        }
        if (lw__vote_deadline_us(vote) > lw__now_us()) {
            lw__votes_count_at(votes, lw__vote_deadline_us(vote));
            continue;
        }
        lapse(vote, LW_ELOST);
        lw__quorum_ask_drop(vote);
    }
}

void lw__quorum_ask_release(struct lw__vote *vote)
{
    if (vote->claim == NULL) {
        vote->released = vote->gone ? LW_ENOTHELD : LW_OK;
        return;
    }
    vote->released = LW__PENDING;
    lw__quorum_fence_forget(vote);
    leave(vote->claim);
}

void lw__quorum_ask_clear(struct lw__votes *votes)
{
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        lw__quorum_ask_drop(&votes->vote[i]);
        forget_error(&votes->vote[i]);
    }
}

/* ---- renewing ---- */

/* Has the vote renewed at once, and valid no longer than this lease. */
static bool renew(struct lw__vote *vote, int64_t lease_us)
{
    struct lw__input input = {.event = LW__EV_SHORTEN,
                              .shorten = {lease_us - SHORTENED_MORE_US}};

    if (!vote->held || !lw__member_is_up(vote->member) ||
        !lw__renewal_may_extend(vote->claim)) {
        return false;
    }
    vote->renewing = true;
    lw__claim_step(vote->claim, &input);
    lw__renewal_verify(vote->claim); /* also if one is in flight, with another lease */
    return true;
}

static bool are_same(const struct lw__terms *a, const struct lw__terms *b)
{
    return a->lease_us == b->lease_us && a->margin_us == b->margin_us &&
           a->hold_until_us == b->hold_until_us && a->renews == b->renews;
}

/* The next handle of the client takes the votes over as they are, as it does a lease of a
 * single server. Before the claim holds, a shorter lease shortens them. */
void lw__quorum_ask_match(struct lw__claim *claim)
{
    struct lw__votes *votes = claim->extras->votes;
    struct lw__terms before = votes->wanted;
    bool holds = lw__handles(claim)->holder != NULL;
    const struct lw_lock *first = lw__claim_first_handle(claim);

    if (first == NULL) {
        return;
    }
    votes->wanted = terms_of(votes, first);
    if (are_same(&before, &votes->wanted)) {
        return;
    }
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (!vote->held) {
            continue; /* its next request has the lease */
        }
        if (holds || before.lease_us == votes->wanted.lease_us) {
            lw__renewal_plan(vote->claim);
        } else {
            (void)renew(vote, votes->wanted.lease_us);
        }
    }
}

/* ---- asking ---- */

/* The average moves by an eighth of the difference. The time for which a server was away
 * is no round trip: a single one counts as little more than twice the average. */
static void note_round_trip(struct lw__vote *vote)
{
    struct lw__quorum *quorum = vote->votes->quorum;

    if (vote->asked_us != 0) {
        int64_t span_us = lw__now_us() - vote->asked_us;
        int64_t most_us = 2 * quorum->round_trip_us + YIELD_LIMIT_US;

        span_us = span_us < most_us ? span_us : most_us;
        quorum->round_trip_us +=
            quorum->round_trip_us == 0 ? span_us : (span_us - quorum->round_trip_us) / 8;
        vote->asked_us = 0;
    }
}

/* Returns NULL if memory is short. */
static struct lw__claim *new_ballot(struct lw__vote *vote)
{
    const struct lw__claim *claim = vote->votes->claim;
    struct lw__holds *holds = &vote->member->holds;
    struct lw__claim_args args = {
        .name = lw__name_get(holds, claim->name->text),
        .mode = claim->mode,
        .lease_ms = (uint32_t)(vote->votes->wanted.lease_us / LW__MS),
        .window_ms = claim->window_ms,
        .note = lw__claim_first_handle(claim)->extras->note,
    };
    struct lw__claim *ballot;

    if (args.name == NULL) {
        return NULL;
    }
    ballot = lw__claim_new(holds, &args);
    lw__name_unref(holds, args.name);
    if (ballot != NULL) {
        LW__CONTAINER_OF(struct lw__ballot, claim, ballot)->vote = vote;
    }
    return ballot;
}

/* The first request may fail at once, which ends the vote. */
static void ask(struct lw__vote *vote, bool waits)
{
    struct lw__votes *votes = vote->votes;
    int64_t now = lw__now_us();

    vote->busy = false;
    vote->renewed = LW_OK; /* it will have the lease that is wanted now */
    vote->waits = waits;
    vote->claim = new_ballot(vote);
    if (vote->claim == NULL) {
        fail(vote, LW_ENOMEM);
        return;
    }
    vote->error = LW_OK;
    vote->asked_us = lw__member_is_up(vote->member) ? now : 0;
    lw__identity_publish(&vote->member->identity, now);
    lw__claim_start(vote->claim, 0, votes->ticket);
}

/* Returns false if the hold ends with its lease, which a vote that was lost, and is
 * requested again, would extend. */
static bool renews(const struct lw__claim *claim)
{
    return lw__handles(claim)->holder == NULL ||
           !(lw__handles(claim)->holder->flags & LW_NO_RENEW);
}

void lw__quorum_ask_all(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    bool waits = lw__handles(claim)->holder != NULL || lw__claim_terms(claim).place;
    int64_t now = lw__now_us();

    if (lw__claim_first_handle(claim) == NULL || lw__client_of(claim)->closing) {
        return;
    }
    lw__quorum_ask_match(claim);
    if (now < votes->paused_until_us) {
        lw__votes_count_at(votes, votes->paused_until_us);
        return;
    }
    if (votes->ticket == 0) {
        choose_ticket(votes);
    }
    claim->asked_to_join = waits;
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (vote->claim != NULL || (vote->tried && !waits) ||
            (vote->lapsed && !renews(claim))) {
            continue;
        }
        if (now >= vote->again_us) {
            vote->tried = !waits;
            ask(vote, waits);
        } else {
            lw__votes_count_at(votes, vote->again_us);
        }
    }
}

void lw__quorum_ask_anew(struct lw__votes *votes)
{
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        votes->vote[i].tried = votes->vote[i].lapsed = false;
    }
    lw__quorum_ask_all(votes);
}

bool lw__quorum_ask_renew(struct lw__votes *votes, uint32_t lease_ms)
{
    bool any = false;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (renew(vote, (int64_t)lease_ms * LW__MS)) {
            any = true;
        } else {
            vote->renewed = LW_ECONN;
        }
        vote->lapsed = false;
    }
    lw__quorum_ask_all(votes);
    return any;
}

/* ---- events of a ballot ---- */

static void granted(struct lw__claim *claim)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote == NULL) {
        lw__claim_event(claim, LW__EV_RELEASE);
        return;
    }
    if (claim->machine.fence == 0) {
        lw__claim_event(claim, LW__EV_UNDELIVERED);
        return;
    }
    note_round_trip(vote);
    forget_error(vote);
    vote->held = true;
    vote->busy = vote->gone = false;
    vote->votes->news_us = lw__now_us();
    lw__description_granted(claim);
    if (claim->machine.lease_us == vote->votes->wanted.lease_us ||
        !renew(vote, vote->votes->wanted.lease_us)) {
        lw__renewal_plan(claim);
    }
    if (lw__claim_message_kept(claim)) {
        lw__claim_message_yield(vote->votes->claim);
    }
    lw__votes_changed(vote->votes);
}

static void busy(struct lw__claim *claim)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote == NULL) {
        return;
    }
    note_round_trip(vote);
    forget_error(vote);
    vote->remaining_ms = claim->asking.remaining_ms;
    if (!vote->waits) {
        lw__quorum_ask_drop(vote);
    }
    vote->busy = true;
    lw__votes_changed(vote->votes);
}

static void failed(struct lw__claim *claim, int status)
{
    if (vote_of(claim) != NULL) {
        fail(vote_of(claim), status);
    }
}

static void on_error(struct lw__claim *claim, int status, const char *text)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote == NULL) {
        return;
    }
    if (status == LW_OK) {
        forget_error(vote);
        return;
    }
    set_error(vote, status, text);
    lw__votes_changed(vote->votes);
}

static void not_extended(struct lw__claim *claim, const char *why)
{
    on_error(claim, LW_ECONN, why);
}

/* The claim requests it again by itself, if it may wait. */
static void outcome_unknown(struct lw__claim *claim, int status, const char *why)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote == NULL) {
        return;
    }
    if (*why) {
        on_error(claim, status, why);
    }
    if (!vote->waits && lw__machine_asks(claim->machine.phase)) {
        fail(vote, status);
        leave(claim);
    }
    lw__votes_changed(vote->votes);
}

/* The release stays pending until it ends or the whole is given up: a later attempt may
 * succeed until then. */
static void not_released(struct lw__claim *claim)
{
    (void)claim;
}

static void released(struct lw__claim *claim, int status)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote != NULL) {
        lw__quorum_ask_forget(vote);
        vote->released = status;
        lw__votes_changed(vote->votes);
    }
}

/* A lock is broken at one server after the other. The holder would keep it if it had the
 * vote of the first one again before the second one is broken. */
static void lost(struct lw__claim *claim)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote != NULL) {
        lapse(vote, LW_ENOTHELD);
        if (lw__machine_holds(vote->votes->claim->machine.phase)) {
            vote->again_us = lw__now_us() + vote->votes->wanted.lease_us / BREAK_PART;
        }
        lw__quorum_ask_forget(vote);
        vote->gone = true;
        lw__votes_changed(vote->votes);
    }
}

/* The request for a vote is one for the lock: a client that asks cannot know all votes.
 */
static void asked(struct lw__claim *claim)
{
    const struct lw__vote *vote = vote_of(claim);

    if (vote != NULL) {
        lw__claim_message_yield(vote->votes->claim);
    }
}

/* The reply to a renewal that was sent before another one was wanted is not that one's.
 */
static void renewed(struct lw__claim *claim, bool sure)
{
    struct lw__vote *vote = vote_of(claim);

    if (vote == NULL || !lw__machine_holds(claim->machine.phase)) {
        return;
    }
    if (vote->renewing && !claim->verify) {
        vote->renewing = false;
        vote->renewed = sure ? LW_OK : vote->error == LW_EREDIS ? LW_EREDIS : LW_ECONN;
    }
    if (sure) {
        forget_error(vote);
        lw__renewal_plan(claim);
    }
    lw__votes_changed(vote->votes);
}

/* A token that ends without a release, and cannot be in Redis, was not held. */
static void ended(struct lw__claim *claim)
{
    struct lw_client *client =
        LW__CONTAINER_OF(struct lw__quorum_member, holds, claim->holds)->client;

    released(claim, claim->machine.maybe_in_redis ? LW_EUNKNOWN : LW_ENOTHELD);
    lw__renewal_forget(claim);
    lw__claim_free(claim);
    lw__ending_drained(client);
}

/* A quorum has no modes that poll, and adopts nothing. */
const struct lw__claim_events lw__quorum_ask_events = {
    .terms = get_terms,
    .grant_margin_us = grant_margin_us,
    .not_extended = not_extended,
    .granted = granted,
    .busy = busy,
    .failed = failed,
    .on_error = on_error,
    .not_released = not_released,
    .outcome_unknown = outcome_unknown,
    .released = released,
    .lost = lost,
    .renewed = renewed,
    .broken = lw__renewal_verify,
    .asked = asked,
    .ended = ended,
};

/* ---- a minority ---- */

/* Replaces a vote by a fresh token, which is queued before the old one is released. So
 * the vote goes to the client whose ticket is the oldest, which may be this one. */
static void replace(struct lw__vote *vote)
{
    struct lw__claim *old = vote->claim;

    lw__quorum_ask_forget(vote);
    ask(vote, true);
    if (old != NULL) {
        leave(old);
    }
}

/* Releases the minority, and queues everywhere with the one ticket: if the servers gave
 * different ones, three clients could wait for each other. If one yield was not enough,
 * the others may be foreign clients, which publish no message: polls them. */
static void yield(struct lw__votes *votes)
{
    if (votes->ticket == 0) {
        choose_ticket(votes);
    }
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];
        int64_t ticket = ticket_of(vote);

        if (vote->held || (vote->busy && ticket != 0 && ticket != votes->ticket)) {
            replace(vote);
        } else if (vote->busy && votes->yields > 0) {
            lw__claim_event(vote->claim, LW__EV_RETRY_NOW);
        }
    }
    votes->yields++;
    votes->news_us = lw__now_us();
    votes->yield_us = votes->minority_us = 0;
}

static int64_t pause_us(struct lw__votes *votes)
{
    return lw__random_between(&votes->claim->holds->random, PAUSE_LEAST_US,
                              PAUSE_MOST_US);
}

/* Leaves all servers, and requests at the end of the queues after a pause. */
static void step_back(struct lw__votes *votes)
{
    for (unsigned i = 0; i < votes->quorum->count; i++) {
        lw__quorum_ask_drop(&votes->vote[i]);
    }
    votes->ticket = 0;
    votes->minority_us = 0;
    votes->paused_until_us = lw__now_us() + pause_us(votes);
    lw__votes_count_at(votes, votes->paused_until_us);
}

/* Releases the minority, and requests those votes again after a pause, with the old
 * ticket. As long as this client is queued there with the oldest one, others cannot have
 * them: clients that do not wait at every server could wait for each other forever. */
static void retreat(struct lw__votes *votes)
{
    int64_t again_us = lw__now_us() + pause_us(votes);

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (vote->held) {
            lw__quorum_ask_drop(vote);
            vote->again_us = again_us;
        }
    }
    votes->yield_us = votes->minority_us = 0;
    lw__votes_count_at(votes, again_us);
}

/* The moment has passed in which the others could have come. */
static void yield_or_retreat(struct lw__votes *votes)
{
    if (votes->yields < YIELDS_MOST) {
        yield(votes);
    } else {
        retreat(votes);
    }
}

static int64_t yield_span_us(const struct lw__votes *votes)
{
    int64_t most = (int64_t)YIELD_MOST_US << (votes->yields < 4 ? votes->yields : 4);
    int64_t trip = votes->quorum->round_trip_us;

    most = most < YIELD_LIMIT_US ? most : YIELD_LIMIT_US;
    return trip + lw__random_between(&votes->claim->holds->random, YIELD_LEAST_US, most);
}

void lw__quorum_ask_minority(struct lw__votes *votes, bool others)
{
    int64_t now = lw__now_us(), limit;

    if (votes->minority_us == 0) {
        votes->minority_us = now;
    }
    if (votes->yield_us == 0) {
        votes->yield_us = yield_span_us(votes);
    }
    if (others && lw__claim_terms(votes->claim).place) {
        limit = votes->news_us + votes->yield_us;
        if (now >= limit) {
            yield_or_retreat(votes);
            return;
        }
    } else {
        limit = votes->minority_us +
                (int64_t)lw__client_of(votes->claim)->options.claim_ms * LW__MS;
        if (now >= limit) {
            step_back(votes);
            return;
        }
    }
    lw__votes_count_at(votes, limit);
}

void lw__quorum_ask_none(struct lw__votes *votes)
{
    votes->minority_us = votes->yield_us = 0;
}

void lw__quorum_ask_granted(struct lw__votes *votes)
{
    lw__quorum_ask_none(votes);
    votes->yields = 0;
}
