/* SPDX-License-Identifier: MIT */
/* Requests votes, and releases them. A vote is a handle of a member's client; this
 * file acquires, renews and drops such handles, for the first handle of the claim.
 * Independent of how many votes are a lock (votes.c).
 *
 * Usual course: each server is asked once, all of them with one ticket: the time of the
 * first server whose clock is known. A vote has the lease, the margin and the flags of
 * the claim's holder, or of its first waiter. A vote that is granted, busy or lost has
 * the claim's votes counted again.
 *
 * Failures: a minority that is held while another client has the other servers is
 * released after a moment (yield), and requested again with fresh tokens and the old
 * ticket; if that changes nothing for some time, after a pause (retreat). A released
 * token is never used again, since a late copy of its release would release the new vote.
 * A minority that cannot become a majority, because servers do not answer, is released
 * after claim_ms, and requested at the end of the queues after a pause (step_back). After
 * an error, also if memory is short, a server is asked again later. */
#include "quorum/quorum_private.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

#define YIELD_LEAST_US 200 /* without news, before a minority is released */
#define YIELD_MOST_US 2000 /* doubles with each time, up to: */
#define YIELD_LIMIT_US 20000
/* After so many yields that changed nothing a server is left for a pause. */
#define YIELDS_IN_VAIN 8
#define PAUSE_LEAST_US (50 * LW__MS)
#define PAUSE_MOST_US (200 * LW__MS)
#define AGAIN_US (1000 * LW__MS)  /* before a server is asked again after an error */
#define CLOCK_US (10000 * LW__MS) /* a fast request tells the time for so long */

/* ---- tickets ---- */

/* Returns the ticket with which the vote waits, 0 if none is known. */
static int64_t ticket_of(const struct lw__vote *vote)
{
    const struct lw_lock *lock = vote->lock;

    return lock != NULL && lock->claim != NULL && lock->claim->machine.ticket > 0
               ? lock->claim->machine.ticket
               : 0;
}

/* Returns the ticket that a server gave; 0 if none did. */
static int64_t given_ticket(const struct lw__votes *votes)
{
    int64_t ticket = 0;

    for (unsigned i = 0; i < lw__votes_count(votes) && ticket == 0; i++) {
        ticket = ticket_of(&votes->vote[i]);
    }
    return ticket;
}

/* Returns the server's time, 0 if it is unknown. It is ahead by the delay of the request
 * that asked for it, so the fastest request counts: with the last one a client that was
 * delayed once would be overtaken. */
static int64_t time_of(const struct lw__vote *vote)
{
    const struct lw__clock_pair *latest = &vote->member->client->holds.last_clock;
    struct lw__clock_pair *best = &vote->member->clock;
    unsigned connection = lw__node_connection(lw__vote_node(vote));

    if (best->server_us == 0 || best->connection != connection) {
        best->server_us = lw__node_clock(lw__vote_node(vote), &best->sent_us);
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

    for (unsigned i = 0; i < lw__votes_count(votes) && time == 0; i++) {
        time = lw__vote_is_up(&votes->vote[i]) ? time_of(&votes->vote[i]) : 0;
    }
    return time;
}

/* Claims of one client have different tickets, or the order of two would depend on the
 * server. Without any clock each server gives a ticket; the first one then counts. */
static void choose_ticket(struct lw__votes *votes)
{
    struct lw__quorum *quorum = lw__votes_quorum(votes);
    int64_t ticket = given_ticket(votes);

    if (ticket == 0 && (ticket = time_of_servers(votes)) != 0) {
        ticket = ticket > quorum->last_ticket ? ticket : quorum->last_ticket + 1;
        quorum->last_ticket = ticket;
    }
    votes->ticket = ticket;
}

/* ---- asking ---- */

void lw__quorum_ask_forget_error(struct lw__vote *vote)
{
    free(vote->why);
    vote->why = NULL;
    vote->error = 0;
}

void lw__quorum_ask_drop(struct lw__vote *vote)
{
    lw__node_forget(&vote->raise);
    lw_lock_free(vote->lock);
    vote->lock = NULL;
    vote->held = vote->lost = vote->busy = false;
    vote->renewals = 0;
    vote->asked_us = 0;
}

/* The vote has none any longer, because of an error of its server. */
static void note_error(struct lw__vote *vote, int status)
{
    const char *why = vote->lock != NULL ? lw_lock_errstr(vote->lock) : "";
    int error = vote->lock != NULL ? lw_lock_error(vote->lock) : LW_OK;

    lw__quorum_ask_forget_error(vote);
    vote->error = error != LW_OK ? error : status;
    vote->why = strdup(*why ? why : lw_strerror(status));
    vote->again_us = lw__now_us() + AGAIN_US;
}

/* The average moves by an eighth of the difference. The time for which a server was away
 * is no round trip: a single one counts as little more than twice the average. */
void lw__quorum_ask_answered(struct lw__vote *vote)
{
    struct lw__quorum *quorum = lw__votes_quorum(vote->votes);

    if (vote->asked_us != 0) {
        int64_t span_us = lw__now_us() - vote->asked_us;
        int64_t most_us = 2 * quorum->round_trip_us + YIELD_LIMIT_US;

        span_us = span_us < most_us ? span_us : most_us;
        quorum->round_trip_us +=
            quorum->round_trip_us == 0 ? span_us : (span_us - quorum->round_trip_us) / 8;
        vote->asked_us = 0;
    }
}

static unsigned drawn_by(const struct lw_lock *lock)
{
    return lock->claim != NULL ? lock->claim->fences_drawn : 0;
}

static void vote_done(struct lw_lock *lock, int status, void *arg)
{
    struct lw__vote *vote = arg;

    lw__quorum_ask_answered(vote);
    if (status == LW_OK) {
        lw__quorum_ask_forget_error(vote);
        vote->held = true;
        vote->busy = vote->gone = false;
        vote->first = lw_lock_fence(lock);
        vote->last = vote->first + drawn_by(lock) - 1;
        vote->votes->news_us = lw__now_us();
        lw__votes_changed(vote->votes);
        return;
    }
    if (status != LW_EBUSY) {
        note_error(vote, status);
    } else {
        lw__quorum_ask_forget_error(vote);
    }
    lw__quorum_ask_drop(vote);
    vote->busy = status == LW_EBUSY;
    lw__votes_changed(vote->votes);
}

/* The margin before its deadline is the holder's: the vote counts until then. */
static void vote_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct lw__vote *vote = arg;

    note_error(vote, reason);
    vote->again_us = 0;
    vote->lapsed = true;
    if (reason == LW_ENOTHELD) {
        lw__quorum_ask_drop(vote);
        vote->gone = true;
    } else {
        vote->lost = true;
        lw__votes_count_at(vote->votes, lw__handle_deadline_us(lock));
    }
    lw__votes_changed(vote->votes);
}

static void ask(struct lw__vote *vote, bool waits)
{
    struct lw__votes *votes = vote->votes;
    struct lw__claim *claim = votes->claim;
    const struct lw_lock *first = lw__claim_first_handle(claim);
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    int status;

    options.lease_ms = (uint32_t)(lw__claim_terms(claim).lease_us / LW__MS);
    options.flags = first->flags & LW_NO_RENEW;
    options.margin_ms = first->margin_ms;
    options.note = first->extras->note;
    options.wait_ms = waits ? -1 : 0;
    options.lost = vote_lost;
    vote->busy = false;
    vote->renewed = LW_OK; /* it will have the lease that is wanted now */
    status = lw__lock_acquire(vote->member->client, lw__name_given(claim->name), &options,
                              votes->ticket, vote_done, vote, &vote->lock);
    if (status != 0) {
        note_error(vote, status);
        lw__votes_changed(votes);
        return;
    }
    vote->asked_us = lw__vote_is_up(vote) ? lw__now_us() : 0;
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
    if (now < votes->paused_until_us) {
        lw__votes_count_at(votes, votes->paused_until_us);
        return;
    }
    if (votes->ticket == 0) {
        choose_ticket(votes);
    }
    claim->asked_to_join = waits;
    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (vote->lock != NULL || (vote->tried && !waits) ||
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

/* ---- the handle that they are for ---- */

static void vote_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct lw__vote *vote = arg;

    if (lock == vote->lock && vote->renewals > 0) {
        vote->renewals--;
        vote->renewed = status;
        lw__votes_changed(vote->votes);
    }
}

bool lw__quorum_ask_renew(struct lw__vote *vote, uint32_t lease_ms)
{
    if (!vote->held || vote->lost ||
        lw_renew(vote->lock, lease_ms, vote_renewed, vote) != 0) {
        return false;
    }
    vote->renewals++;
    return true;
}

/* The next handle of the client takes the votes over as they are, as it does a lease of a
 * single server. Before the claim holds, a shorter lease shortens them. */
static void match(struct lw__vote *vote, const struct lw_lock *first, bool holds)
{
    struct lw_lock *lock = vote->lock;
    int64_t hold_until_us = holds ? first->extras->hold_until_us : LW__NEVER;
    uint8_t flags = first->flags & LW_NO_RENEW;
    bool same = lock->margin_ms == first->margin_ms && lock->flags == flags &&
                lock->extras->hold_until_us == hold_until_us;

    lock->margin_ms = first->margin_ms;
    lock->flags = flags;
    lw__handle_limit_hold(lock, hold_until_us);
    if (!vote->held) { /* its next request has the lease */
        lock->lease_ms = first->lease_ms;
        return;
    }
    if (holds && lock->lease_ms != first->lease_ms) {
        lock->lease_ms = first->lease_ms;
        same = false;
    }
    if (!same) {
        lw__handle_arm_loss(lock);
        lw__renewal_plan(lock->claim);
        lw__votes_changed(vote->votes); /* its deadline may have moved */
    }
    if (lock->lease_ms != first->lease_ms) {
        (void)lw__quorum_ask_renew(vote, first->lease_ms);
    }
}

void lw__quorum_ask_match(struct lw__claim *claim)
{
    struct lw__votes *votes = claim->extras->votes;
    const struct lw_lock *first = lw__claim_first_handle(claim);

    for (unsigned i = 0; first != NULL && i < lw__votes_count(votes); i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (vote->lock != NULL && vote->lock->claim != NULL && !vote->lost) {
            match(vote, first, lw__handles(claim)->holder != NULL);
        }
    }
}

/* ---- a minority ---- */

void lw__quorum_ask_drop_lost(struct lw__votes *votes)
{
    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (vote->lost && lw__vote_deadline_us(vote) <= lw__now_us()) {
            lw__quorum_ask_drop(vote);
        }
    }
}

/* Replaces a vote by a fresh token, which is queued before the old one is released. So
 * the vote goes to the client whose ticket is the oldest, which may be this one. */
static void replace(struct lw__vote *vote)
{
    struct lw_lock *old = vote->lock;

    vote->lock = NULL;
    lw__quorum_ask_drop(vote);
    ask(vote, true);
    lw_lock_free(old);
}

/* Releases the minority, and queues everywhere with the one ticket: if the servers gave
 * different ones, three clients could wait for each other. */
static void yield(struct lw__votes *votes)
{
    if (votes->ticket == 0) {
        choose_ticket(votes);
    }
    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
        struct lw__vote *vote = &votes->vote[i];
        int64_t ticket = ticket_of(vote);

        if (vote->held || (vote->busy && ticket != 0 && ticket != votes->ticket)) {
            replace(vote);
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
    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
        lw__quorum_ask_drop(&votes->vote[i]);
    }
    votes->ticket = 0;
    votes->minority_us = 0;
    votes->paused_until_us = lw__now_us() + pause_us(votes);
    lw__votes_count_at(votes, votes->paused_until_us);
}

static unsigned held_ones(const struct lw__votes *votes)
{
    unsigned ones = 0;

    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
        ones |= (unsigned)votes->vote[i].held << i;
    }
    return ones;
}

/* Releases the minority, and requests those votes again after a pause, with the old
 * ticket. As long as this client is queued there with the oldest one, others cannot have
 * them: clients that do not wait at every server could wait for each other forever. */
static void retreat(struct lw__votes *votes)
{
    int64_t again_us = lw__now_us() + pause_us(votes);

    for (unsigned i = 0; i < lw__votes_count(votes); i++) {
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
    unsigned held = held_ones(votes);

    votes->yields_in_vain = held == votes->minority ? votes->yields_in_vain + 1 : 0;
    votes->minority = held;
    if (votes->yields_in_vain > YIELDS_IN_VAIN) {
        retreat(votes);
    } else {
        yield(votes);
    }
}

static int64_t yield_span_us(const struct lw__votes *votes)
{
    int64_t most = (int64_t)YIELD_MOST_US << (votes->yields < 4 ? votes->yields : 4);
    int64_t trip = lw__votes_quorum(votes)->round_trip_us;

    most = most < YIELD_LIMIT_US ? most : YIELD_LIMIT_US;
    return trip + lw__random_between(&votes->claim->holds->random, YIELD_LEAST_US, most);
}

void lw__quorum_ask_minority(struct lw__votes *votes, bool others)
{
    int64_t now = lw__now_us(), limit;

    if (votes->minority_us == 0) {
        votes->minority_us = now;
    }
    if (held_ones(votes) & ~votes->minority) { /* one more */
        votes->minority = held_ones(votes);
        votes->yields_in_vain = 0;
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
