/* SPDX-License-Identifier: MIT */
/* The votes of one claim of a quorum: a handle of each member's client. They stand in for
 * the claim's command: what a server would reply to one request is counted here from the
 * replies of all. A vote is believed by the machine of its own claim; this file decides
 * how many of them are a lock. Independent of how a server is asked.
 *
 * Usual course: SEND_ACQUIRE asks every server at once, with one ticket for all of them,
 * so that their queues agree. When a majority of votes agree the claim is GRANTED: its
 * deadline is that of the vote of them that ends first, once as many as a majority needs
 * are taken of those that end last. Servers that have not answered stay asked. Whenever
 * the deadline of a vote moves the claim's is computed again (VOTED). SEND_RELEASE
 * releases all, and is answered when a majority has none of the claim's tokens.
 *
 * Votes agree if each server's fence counter has passed the numbers of the grant, so that
 * every later majority draws larger ones: a server that drew smaller ones is asked to
 * raise its counter first, while the vote is held there (fence_raise.lua).
 *
 * Failures: a minority that is held while another client has the other servers is
 * released after a moment (yield), and requested again with fresh tokens and the old
 * ticket; if that changes nothing for some time, after a pause (retreat). A released
 * token is never used again, since a late copy of its release would release the new vote.
 * A minority that cannot become a majority, because servers do not answer, is released
 * after claim_ms, and requested at the end of the queues after a pause. If no majority
 * can answer the outcome is UNKNOWN. A vote that is lost is requested again; if a
 * majority is lost so is the claim. If memory is short a server is asked again later. */
#include "lock/lock_private.h"

#include "base/random.h"
#include "loop/loop.h"
#include "redis/encode.h"
#include "redis/node.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define FENCES 16          /* that a script draws */
#define YIELD_LEAST_US 200 /* without news, before a minority is released */
#define YIELD_MOST_US 2000 /* doubles with each time, up to: */
#define YIELD_LIMIT_US 20000
/* After so many yields that changed nothing a server is left for a pause. */
#define YIELDS_IN_VAIN 8
#define PAUSE_LEAST_US (50 * LW__MS)
#define PAUSE_MOST_US (200 * LW__MS)
#define AGAIN_US (1000 * LW__MS)  /* before a server is asked again after an error */
#define CLOCK_US (10000 * LW__MS) /* a fast request tells the time for so long */
#define PENDING 1000              /* no lw_error */

struct vote {
    struct lw__votes *votes;
    struct lw__quorum_member *member;
    struct lw_lock *lock;     /* NULL: not asked */
    struct lw__command raise; /* of the fence counter */
    uint64_t raising_to;
    struct lw__token token; /* of that */
    uint64_t first;         /* the first number that it drew */
    uint64_t last;          /* the counter is not below this while the vote is held */
    int64_t asked_us;       /* 0: answered since */
    int64_t again_us;       /* not to be asked before */
    char *why;              /* it failed; or NULL */
    int error;
    int64_t remaining_ms; /* of the holder's lease, if it was refused once */
    int released;         /* PENDING, or the status of its release */
    unsigned renewals;    /* pending calls of lw_renew */
    int renewed;          /* status of the last one */
    bool held; /* until its deadline, also if it was lost a margin before that */
    bool lost;
    bool refused; /* as last answered, another owner holds it */
    bool gone;    /* the server reports that it was lost */
    bool tried;   /* without waiting, since the claim requested last */
    bool lapsed;  /* it was lost since the claim requested, or renewed, last */
};

struct lw__votes {
    struct lw__claim *claim;
    struct lw__votes *next, *prev; /* of quorum->changed */
    struct lw__timer timer;
    int64_t ticket;
    int64_t news_us;     /* when the last vote was granted */
    int64_t minority_us; /* since when a minority is held; 0: none */
    int64_t yield_us;    /* without news, until the next yield */
    int64_t paused_until_us;
    uint64_t floor; /* numbers below it were used by this claim */
    unsigned yields;
    unsigned yields_in_vain; /* since when these votes alone were held: */
    unsigned minority;       /* a bit for each of them */
    bool is_changed;
    bool asks;     /* votes are wanted */
    bool renewing; /* the claim waits for `renewed` */
    struct vote vote[];
};

static struct lw__quorum *quorum_of(const struct lw__votes *votes)
{
    return votes->claim->client->quorum;
}

static unsigned count_of(const struct lw__votes *votes)
{
    return quorum_of(votes)->count;
}

static unsigned majority_of(const struct lw__votes *votes)
{
    return quorum_of(votes)->majority;
}

static struct lw__node *node_of(const struct vote *vote)
{
    return lw__route_node(vote->member->client->route, 0);
}

/* After its close a member has no node. */
static bool is_up(const struct vote *vote)
{
    return vote->member->client->route != NULL && lw__node_is_up(node_of(vote));
}

/* Has the votes counted, later in this turn of the loop. */
static void changed(struct lw__votes *votes)
{
    struct lw__quorum *quorum = quorum_of(votes);

    if (!votes->is_changed) {
        votes->is_changed = true;
        DL_APPEND(quorum->changed, votes);
    }
    lw__defer(votes->claim->client->loop, &quorum->count_call, false);
}

/* At that time at the latest. */
static void count_at(struct lw__votes *votes, int64_t at_us)
{
    struct lw__loop *loop = votes->claim->client->loop;

    if (at_us < lw__timer_due_us(loop, &votes->timer)) {
        lw__timer_set(loop, &votes->timer, at_us);
    }
}

static void timer_due(void *arg)
{
    changed(arg);
}

/* ---- asking ---- */

/* Returns the ticket with which the vote waits, 0 if none is known. */
static int64_t ticket_of(const struct vote *vote)
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

    for (unsigned i = 0; i < count_of(votes) && ticket == 0; i++) {
        ticket = ticket_of(&votes->vote[i]);
    }
    return ticket;
}

/* Returns the server's time, 0 if it is unknown. It is ahead by the delay of the request
 * that asked for it, so the fastest request counts: with the last one a client that was
 * delayed once would be overtaken. */
static int64_t time_of(const struct vote *vote)
{
    const struct lw__clock_pair *latest = &vote->member->client->last_clock;
    struct lw__clock_pair *best = &vote->member->clock;
    unsigned connection = lw__node_connection(node_of(vote));

    if (best->server_us == 0 || best->connection != connection) {
        best->server_us = lw__node_clock(node_of(vote), &best->sent_us);
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

    for (unsigned i = 0; i < count_of(votes) && time == 0; i++) {
        time = is_up(&votes->vote[i]) ? time_of(&votes->vote[i]) : 0;
    }
    return time;
}

/* Claims of one client have different tickets, or the order of two would depend on the
 * server. Without any clock each server gives a ticket; the first one then counts. */
static void choose_ticket(struct lw__votes *votes)
{
    struct lw__quorum *quorum = quorum_of(votes);
    int64_t ticket = given_ticket(votes);

    if (ticket == 0 && (ticket = time_of_servers(votes)) != 0) {
        ticket = ticket > quorum->last_ticket ? ticket : quorum->last_ticket + 1;
        quorum->last_ticket = ticket;
    }
    votes->ticket = ticket;
}

static void forget_error(struct vote *vote)
{
    free(vote->why);
    vote->why = NULL;
    vote->error = 0;
}

static void drop(struct vote *vote)
{
    lw__node_forget(&vote->raise);
    lw_lock_free(vote->lock);
    vote->lock = NULL;
    vote->held = vote->lost = vote->refused = false;
    vote->renewals = 0;
    vote->asked_us = 0;
}

/* The vote has none any longer, because of an error of its server. */
static void note_error(struct vote *vote, int status)
{
    const char *why = vote->lock != NULL ? lw_lock_errstr(vote->lock) : "";
    int error = vote->lock != NULL ? lw_lock_error(vote->lock) : LW_OK;

    forget_error(vote);
    vote->why = strdup(*why ? why : lw_strerror(status));
    vote->error = error != LW_OK ? error : status;
    vote->again_us = lw__now_us() + AGAIN_US;
}

/* The average moves by an eighth of the difference. The time for which a server was away
 * is no round trip: a single one counts as little more than twice the average. */
static void note_answer(struct vote *vote)
{
    struct lw__quorum *quorum = quorum_of(vote->votes);

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
    struct vote *vote = arg;

    note_answer(vote);
    if (status == LW_OK) {
        forget_error(vote);
        vote->held = true;
        vote->refused = vote->gone = false;
        vote->first = lw_lock_fence(lock);
        vote->last = vote->first + drawn_by(lock) - 1;
        vote->votes->news_us = lw__now_us();
        changed(vote->votes);
        return;
    }
    if (status != LW_EBUSY) {
        note_error(vote, status);
    } else {
        forget_error(vote);
    }
    drop(vote);
    vote->refused = status == LW_EBUSY;
    changed(vote->votes);
}

/* The margin before its deadline is the holder's: the vote counts until then. */
static void vote_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct vote *vote = arg;

    note_error(vote, reason);
    vote->again_us = 0;
    vote->lapsed = true;
    if (reason == LW_ENOTHELD) {
        drop(vote);
        vote->gone = true;
    } else {
        vote->lost = true;
        count_at(vote->votes, lw__handle_deadline_us(lock));
    }
    changed(vote->votes);
}

static const struct lw_lock *first_handle(const struct lw__claim *claim)
{
    return claim->holder != NULL ? claim->holder : claim->waiting;
}

static void ask(struct vote *vote, bool waits)
{
    struct lw__votes *votes = vote->votes;
    struct lw__claim *claim = votes->claim;
    const struct lw_lock *first = first_handle(claim);
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    int status;

    options.lease_ms = (uint32_t)(lw__handles_lease_us(claim) / LW__MS);
    options.flags = first->flags & LW_NO_RENEW;
    options.margin_ms = first->margin_ms;
    options.wait_ms = waits ? -1 : 0;
    options.lost = vote_lost;
    vote->refused = false;
    vote->renewed = LW_OK; /* it will have the lease that is wanted now */
    status = lw__lock_acquire(vote->member->client, claim->name->text, &options,
                              votes->ticket, vote_done, vote, &vote->lock);
    if (status != 0) {
        note_error(vote, status);
        changed(votes);
        return;
    }
    vote->asked_us = is_up(vote) ? lw__now_us() : 0;
}

/* Returns false if the hold ends with its lease, which a vote that was lost, and is
 * requested again, would extend. */
static bool renews(const struct lw__claim *claim)
{
    return claim->holder == NULL || !(claim->holder->flags & LW_NO_RENEW);
}

/* Asks each server that has not been asked. */
static void ask_all(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    bool waits = claim->holder != NULL || lw__handles_want_place(claim);
    int64_t now = lw__now_us();

    if (first_handle(claim) == NULL || claim->client->closing) {
        return;
    }
    if (now < votes->paused_until_us) {
        count_at(votes, votes->paused_until_us);
        return;
    }
    if (votes->ticket == 0) {
        choose_ticket(votes);
    }
    claim->asked_to_join = waits;
    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (vote->lock != NULL || (vote->tried && !waits) ||
            (vote->lapsed && !renews(claim))) {
            continue;
        }
        if (now >= vote->again_us) {
            vote->tried = !waits;
            ask(vote, waits);
        } else {
            count_at(votes, vote->again_us);
        }
    }
}

/* ---- the handle that they are for ---- */

static void vote_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct vote *vote = arg;

    if (lock == vote->lock && vote->renewals > 0) {
        vote->renewals--;
        vote->renewed = status;
        changed(vote->votes);
    }
}

/* Renews with this lease from now on. */
static bool renew(struct vote *vote, uint32_t lease_ms)
{
    if (!vote->held || vote->lost ||
        lw_renew(vote->lock, lease_ms, vote_renewed, vote) != 0) {
        return false;
    }
    vote->renewals++;
    return true;
}

static void match(struct vote *vote, const struct lw_lock *first, int64_t hold_until_us)
{
    struct lw_lock *lock = vote->lock;
    uint8_t flags = first->flags & LW_NO_RENEW;
    bool same = lock->margin_ms == first->margin_ms && lock->flags == flags &&
                lock->hold_until_us == hold_until_us;

    lock->margin_ms = first->margin_ms;
    lock->flags = flags;
    lock->hold_until_us = hold_until_us;
    if (!vote->held) { /* its next request has the lease */
        lock->lease_ms = first->lease_ms;
        return;
    }
    if (!same) {
        lw__handle_arm_loss(lock);
        lw__renewal_plan(lock->claim);
    }
    if (lock->lease_ms != first->lease_ms) {
        same = !renew(vote, first->lease_ms) && same;
    }
    if (!same) {
        changed(vote->votes); /* its deadline has moved */
    }
}

/* The votes have the lease, the margin and the flags of the holder, or of the first
 * waiter, which may have changed. */
static void match_all(struct lw__claim *claim)
{
    struct lw__votes *votes = claim->votes;
    const struct lw_lock *first = first_handle(claim);

    for (unsigned i = 0; first != NULL && i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (vote->lock != NULL && vote->lock->claim != NULL && !vote->lost) {
            match(vote, first,
                  claim->holder != NULL ? claim->holder->hold_until_us : LW__NEVER);
        }
    }
}

/* ---- do they agree? ---- */

static int64_t deadline_of(const struct vote *vote)
{
    return lw__handle_deadline_us(vote->lock);
}

/* Forgets votes that were lost, and whose deadline has come: Redis has none of them. */
static void drop_lost(struct lw__votes *votes)
{
    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (vote->lost && deadline_of(vote) <= lw__now_us()) {
            drop(vote);
        }
    }
}

static bool is_live(const struct vote *vote)
{
    return vote->held && deadline_of(vote) - lw__now_us() > LW__LEAST_US;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void encode_raise(struct lw__command *command, struct lw__buffer *out)
{
    struct vote *vote = LW__CONTAINER_OF(struct vote, raise, command);

    lw__encode_fence_raise(out, lw__command_evals(command),
                           lw__node_script_env(node_of(vote), 0).fence, vote->raising_to,
                           vote->votes->claim->name->text, &vote->token);
}

/* A token that is not held any longer is found by its renewal. */
static bool raised(struct lw__command *command, const struct lw__reply *reply)
{
    struct vote *vote = LW__CONTAINER_OF(struct vote, raise, command);

    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 1) {
        vote->last = vote->last < vote->raising_to ? vote->raising_to : vote->last;
    } else if (lw__reply_type(reply) == LW__REPLY_INTEGER) {
        if (vote->lock->claim != NULL) {
            lw__renewal_verify(vote->lock->claim);
        }
    } else if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    } else {
        count_at(vote->votes, lw__now_us() + PAUSE_MOST_US);
        return true;
    }
    changed(vote->votes);
    return true;
}

static void raise_failed(struct lw__command *command, const char *why, bool sent)
{
    struct vote *vote = LW__CONTAINER_OF(struct vote, raise, command);

    (void)why, (void)sent;
    count_at(vote->votes, lw__now_us() + PAUSE_LEAST_US);
}

static void raise_fence(struct vote *vote, uint64_t number)
{
    static const struct lw__command_type type = {encode_raise, raised, raise_failed,
                                                 .priority = LW__PRIORITY_RENEW};

    if (vote->raise.request.prev == NULL && is_up(vote) && number < LW__FENCE_END) {
        vote->raising_to = number;
        vote->token = lw__claim_token(vote->lock->claim);
        (void)lw__node_send(node_of(vote), &vote->raise, &type);
    }
}

/* Returns the first number of a grant: the votes of a majority drew no larger one. `held`
 * votes are live, as many as a majority or more. */
static uint64_t choose_fence(const struct lw__votes *votes)
{
    uint64_t numbers[LW__QUORUM_MOST], chosen;
    unsigned held = 0;

    for (unsigned i = 0; i < count_of(votes); i++) {
        if (is_live(&votes->vote[i])) {
            numbers[held++] = votes->vote[i].first;
        }
    }
    qsort(numbers, held, sizeof(numbers[0]), compare_numbers);
    chosen = numbers[majority_of(votes) - 1];
    return chosen > votes->floor ? chosen : votes->floor;
}

/* Counts the live votes whose counters are not below `number`, and has the others raise
 * theirs to `raise_to`. Returns the deadline until which a majority of the counted ones
 * is held; 0 if fewer are counted. Stores in `last` the number below which no counter of
 * such a majority is. */
static int64_t count_agreeing(struct lw__votes *votes, uint64_t number, uint64_t raise_to,
                              uint64_t *last)
{
    uint64_t deadlines[LW__QUORUM_MOST], lasts[LW__QUORUM_MOST];
    unsigned agree = 0, majority = majority_of(votes);

    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (!is_live(vote)) {
            continue;
        }
        if (vote->last < number) {
            raise_fence(vote, raise_to);
            continue;
        }
        deadlines[agree] = (uint64_t)deadline_of(vote);
        lasts[agree++] = vote->last;
    }
    if (agree < majority) {
        return 0;
    }
    qsort(deadlines, agree, sizeof(deadlines[0]), compare_numbers);
    qsort(lasts, agree, sizeof(lasts[0]), compare_numbers);
    *last = lasts[agree - majority];
    return (int64_t)deadlines[agree - majority];
}

/* ---- what is reported of them ---- */

static const char *reason_of(const struct vote *vote)
{
    if (vote->held) {
        return "held";
    }
    if (!is_up(vote)) {
        return vote->member->client->route != NULL ? lw__node_reason(node_of(vote))
                                                   : lw_strerror(LW_ECLOSED);
    }
    if (vote->lock != NULL && *lw_lock_errstr(vote->lock)) {
        return lw_lock_errstr(vote->lock);
    }
    if (vote->why != NULL) {
        return vote->why;
    }
    return vote->refused ? "held by another client" : "no reply";
}

static void explain(const struct lw__votes *votes, char why[LW__TEXT_MAX])
{
    const char *reasons[LW__QUORUM_MOST];

    for (unsigned i = 0; i < count_of(votes); i++) {
        reasons[i] = reason_of(&votes->vote[i]);
    }
    lw__quorum_list(quorum_of(votes), reasons, why, LW__TEXT_MAX);
}

struct count {
    unsigned held;
    unsigned refused; /* by servers that are up */
    unsigned open;    /* asked, at servers that are up, and not answered */
    unsigned failed;  /* with LW_EREDIS, for good */
    unsigned errors;  /* with LW_EREDIS, also for the moment */
};

static struct count count_votes(const struct lw__votes *votes)
{
    struct count count = {0};

    for (unsigned i = 0; i < count_of(votes); i++) {
        const struct vote *vote = &votes->vote[i];

        if (vote->held) {
            count.held += is_live(vote);
        } else if (!is_up(vote)) {
            continue;
        } else if (vote->refused) {
            count.refused++;
        } else if (vote->lock == NULL) {
            count.failed += vote->error == LW_EREDIS;
            count.errors += vote->error == LW_EREDIS;
        } else if (vote->lock->claim == NULL || vote->lock->error == LW_OK) {
            count.open++; /* without a claim its result is about to be delivered */
        } else {
            count.errors += vote->lock->error == LW_EREDIS;
        }
    }
    return count;
}

/* ---- without a majority ---- */

/* Replaces a vote by a fresh token, which is queued before the old one is released. So
 * the vote goes to the client whose ticket is the oldest, which may be this one. */
static void replace(struct vote *vote)
{
    struct lw_lock *old = vote->lock;

    vote->lock = NULL;
    drop(vote);
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
    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];
        int64_t ticket = ticket_of(vote);

        if (vote->held || (vote->refused && ticket != 0 && ticket != votes->ticket)) {
            replace(vote);
        }
    }
    votes->yields++;
    votes->news_us = lw__now_us();
    votes->yield_us = votes->minority_us = 0;
}

static int64_t pause_us(struct lw__votes *votes)
{
    return lw__random_between(&votes->claim->client->random, PAUSE_LEAST_US,
                              PAUSE_MOST_US);
}

/* Leaves all servers, and requests at the end of the queues after a pause. */
static void step_back(struct lw__votes *votes)
{
    for (unsigned i = 0; i < count_of(votes); i++) {
        drop(&votes->vote[i]);
    }
    votes->ticket = 0;
    votes->minority_us = 0;
    votes->paused_until_us = lw__now_us() + pause_us(votes);
    count_at(votes, votes->paused_until_us);
}

static unsigned held_ones(const struct lw__votes *votes)
{
    unsigned ones = 0;

    for (unsigned i = 0; i < count_of(votes); i++) {
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

    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (vote->held) {
            drop(vote);
            vote->again_us = again_us;
        }
    }
    votes->yield_us = votes->minority_us = 0;
    count_at(votes, again_us);
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
    int64_t trip = quorum_of(votes)->round_trip_us;

    most = most < YIELD_LIMIT_US ? most : YIELD_LIMIT_US;
    return trip + lw__random_between(&votes->claim->client->random, YIELD_LEAST_US, most);
}

/* A minority is held. */
static void keep_or_give_back(struct lw__votes *votes, const struct count *count)
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
    if (count->refused > 0 && lw__handles_want_place(votes->claim)) {
        limit = votes->news_us + votes->yield_us;
        if (now >= limit) {
            yield_or_retreat(votes);
            return;
        }
    } else {
        limit = votes->minority_us +
                (int64_t)votes->claim->client->options.claim_ms * LW__MS;
        if (now >= limit) {
            step_back(votes);
            return;
        }
    }
    count_at(votes, limit);
}

/* Notes how long the lock stays held, and the place in the queue: the largest that a
 * server has reported. */
static void note_place(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;

    claim->asking.place = 0;
    claim->asking.remaining_ms = 0;
    for (unsigned i = 0; i < count_of(votes); i++) {
        const struct vote *vote = &votes->vote[i];
        int64_t remaining_ms = vote->refused ? vote->remaining_ms : 0;

        if (vote->lock != NULL && vote->lock->claim != NULL &&
            lw__machine_asks(vote->lock->claim->machine.phase)) {
            remaining_ms = vote->lock->claim->asking.remaining_ms;
            if (vote->lock->claim->asking.place > claim->asking.place) {
                claim->asking.place = vote->lock->claim->asking.place;
            }
        }
        if (remaining_ms > claim->asking.remaining_ms) {
            claim->asking.remaining_ms = remaining_ms;
        }
    }
}

static void report_refused(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct lw__input input = {.event = LW__EV_QUEUED, .sent_us = lw__now_us()};

    note_place(votes);
    input.queued.asked_to_join = claim->asked_to_join;
    input.queued.remaining_ms = claim->asking.remaining_ms;
    input.queued.position = (int64_t)claim->asking.place - 1;
    lw__claim_step(claim, &input);
}

/* No majority can be held now. Says so as a server would: the lock is held by another
 * client, the outcome is unknown, or requests are refused. */
static void report_none(struct lw__votes *votes, const struct count *count)
{
    struct lw__claim *claim = votes->claim;
    const struct lw__claim_events *events = claim->client->events;
    struct lw__input input = {.event = LW__EV_UNKNOWN, .sent_us = lw__now_us()};
    unsigned most = count_of(votes) - majority_of(votes);
    char why[LW__TEXT_MAX];

    if (count->refused > 0) {
        report_refused(votes);
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
    bool fenced = lw__handles_want_fence(claim);
    uint64_t fence = fenced ? choose_fence(votes) : 0, last = 0;
    int64_t deadline = count_agreeing(votes, fence, fence + FENCES - 1, &last), lease;
    int64_t least = claim->waiting != NULL ? lw__handle_margin_us(claim->waiting) : 0;

    if (deadline == 0) {
        return false;
    }
    least = least > LW__LEAST_US ? least : LW__LEAST_US;
    if (deadline - lw__now_us() <= least) {
        return false; /* votes are being renewed */
    }
    if (lw__machine_is_queued(claim->machine.phase)) {
        lw__claim_event(claim, LW__EV_RETRY_NOW);
    }
    last = last - fence < FENCES ? last - fence + 1 : FENCES;
    claim->fences_drawn = fenced ? (uint8_t)last : 0;
    votes->floor = fence;
    votes->minority_us = votes->yield_us = 0;
    votes->yields = votes->minority = 0;
    lease = (int64_t)lw__claim_lease_ms(claim) * LW__MS;
    changed(votes); /* for the votes that do not agree yet */
    lw__claim_granted(claim, fence, deadline + lw__machine_drift_us(lease) - lease);
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
    match_all(claim);
    ask_all(votes);
    count = count_votes(votes);
    if (count.held >= majority_of(votes)) {
        (void)grant(votes);
        return;
    }
    if (count.held > 0) {
        keep_or_give_back(votes, &count);
        count = count_votes(votes);
    } else {
        votes->minority_us = votes->yield_us = 0;
    }
    if (count.held + count.open < majority_of(votes) &&
        (count.refused > 0 || count.open == 0) && /* else an answer may say more */
        lw__now_us() >= votes->paused_until_us &&
        lw__machine_is_acquiring(claim->machine.phase)) {
        report_none(votes, &count);
    }
}

/* ---- held ---- */

static bool renew_all(struct lw__claim *claim, uint32_t lease_ms)
{
    struct lw__votes *votes = claim->votes;
    unsigned sent = 0;

    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];

        if (renew(vote, lease_ms)) {
            sent++;
        } else {
            vote->renewed = LW_ECONN;
        }
        vote->lapsed = false;
    }
    ask_all(votes);
    votes->renewing = sent > 0;
    return sent > 0;
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

    for (unsigned i = 0; i < count_of(votes); i++) {
        const struct vote *vote = &votes->vote[i];

        open += vote->held && vote->renewals > 0;
        done += vote->held && vote->renewals == 0 && vote->renewed == LW_OK;
        refused += vote->held && vote->renewals == 0 && vote->renewed == LW_EREDIS;
    }
    if (done < majority_of(votes) && done + open >= majority_of(votes)) {
        return;
    }
    status = done >= majority_of(votes)                       ? LW_OK
             : refused > count_of(votes) - majority_of(votes) ? LW_EREDIS
                                                              : LW_ECONN;
    votes->renewing = false;
    if (status != LW_OK && claim->holder != NULL) {
        char why[LW__TEXT_MAX];

        explain(votes, why);
        lw__handle_set_error(claim->holder, status, why);
    }
    finish_calls(claim->holder, status);
    if (claim->holder == NULL) {
        claim->client->events->renewed(claim, status == LW_OK);
    }
}

/* Too few votes are left. The claim is lost at once: the servers that have lost theirs
 * may grant them to another client. May free the votes. */
static void lose(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    struct lw__input input = {.event = LW__EV_VOTED};
    char why[LW__TEXT_MAX];
    bool gone = false;

    for (unsigned i = 0; i < count_of(votes); i++) {
        gone = gone || votes->vote[i].gone;
    }
    explain(votes, why);
    claim->client->events->on_error(claim, LW_ECONN, why);
    if (gone) {
        input.event = LW__EV_LOST_ON_SERVER;
        lw__claim_step(claim, &input);
        return;
    }
    input.voted.deadline_us = lw__now_us();
    input.voted.wanted_us = lw__handles_lease_us(claim);
    lw__claim_step(claim, &input);
    /* A holder finds the new deadline. Without one the votes were renewed for the next.
     */
    claim->client->events->renewed(claim, claim->holder != NULL);
}

/* Returns the deadline of a majority of the live votes, 0 if fewer are live. */
static int64_t deadline_of_all(const struct lw__votes *votes)
{
    uint64_t deadlines[LW__QUORUM_MOST];
    unsigned live = 0, majority = majority_of(votes);

    for (unsigned i = 0; i < count_of(votes); i++) {
        if (is_live(&votes->vote[i])) {
            deadlines[live++] = (uint64_t)deadline_of(&votes->vote[i]);
        }
    }
    qsort(deadlines, live, sizeof(deadlines[0]), compare_numbers);
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
    (void)count_agreeing(votes, fence, fence, &last);
    input.voted.deadline_us = deadline_of_all(votes);
    input.voted.wanted_us = lw__handles_lease_us(claim);
    if (input.voted.deadline_us == 0) {
        lose(votes);
        return;
    }
    match_all(claim);
    if (input.voted.deadline_us != before) {
        lw__claim_step(claim, &input);
        if (claim->holder != NULL) {
            claim->client->events->renewed(claim, true);
        }
    }
    if (votes->renewing) {
        count_renewals(votes);
    }
    if (lw__machine_holds(claim->machine.phase)) {
        ask_all(votes);
    }
}

/* ---- releasing ---- */

static void vote_released(struct lw_lock *lock, int status, void *arg)
{
    struct vote *vote = arg;

    (void)lock;
    vote->released = status;
    changed(vote->votes);
}

static void release_all(struct lw__votes *votes)
{
    votes->asks = votes->renewing = false;
    for (unsigned i = 0; i < count_of(votes); i++) {
        struct vote *vote = &votes->vote[i];
        bool answered = is_up(vote) && (vote->refused || vote->lost);

        lw__node_forget(&vote->raise);
        if (vote->lock == NULL) {
            vote->released = vote->gone ? LW_ENOTHELD : LW_OK;
        } else if (vote->held && !vote->lost) {
            int status = lw_release(vote->lock, vote_released, vote);

            vote->released = status == 0 ? PENDING : LW_ENOTHELD;
        } else {
            drop(vote); /* releases it, behind all that was sent before */
            vote->released = answered ? LW_OK : LW_EUNKNOWN;
        }
    }
}

static void count_released(struct lw__votes *votes)
{
    struct lw__claim *claim = votes->claim;
    unsigned without = 0, not_held = 0, pending = 0, refused = 0;
    struct lw__input input = {.event = LW__EV_RELEASED, .sent_us = lw__now_us()};
    char why[LW__TEXT_MAX];

    for (unsigned i = 0; i < count_of(votes); i++) {
        int status = votes->vote[i].released;

        without += status == LW_OK || status == LW_ENOTHELD;
        not_held += status == LW_ENOTHELD;
        pending += status == PENDING;
        refused += status == LW_EREDIS;
    }
    if (without >= majority_of(votes)) {
        input.released.released = not_held <= count_of(votes) - majority_of(votes);
        lw__claim_step(claim, &input);
        return;
    }
    if (pending > 0) {
        return;
    }
    explain(votes, why);
    claim->client->events->on_error(claim, refused > 0 ? LW_EREDIS : LW_ECONN, why);
    if (refused <= count_of(votes) - majority_of(votes)) {
        /* The members go on releasing. */
        input.event = LW__EV_UNKNOWN;
        input.unknown.was_sent = true;
        lw__claim_step(claim, &input);
    }
    input.event = LW__EV_REFUSED;
    lw__claim_step(claim, &input);
}

/* ---- counting ---- */

static void count(struct lw__votes *votes)
{
    enum lw__phase phase = votes->claim->machine.phase;

    drop_lost(votes);
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

    while (quorum->changed != NULL) {
        struct lw__votes *votes = quorum->changed;

        DL_DELETE(quorum->changed, votes);
        votes->is_changed = false;
        count(votes);
    }
}

/* ---- what the claim wants ---- */

static void stepped(struct lw__claim *claim, unsigned actions)
{
    struct lw__votes *votes = claim->votes;

    if (actions & LW__SEND_RELEASE) {
        release_all(votes);
        changed(votes);
    } else if (actions & (LW__SEND_TRY | LW__SEND_ACQUIRE)) {
        if (votes->floor != 0) { /* numbers of an earlier grant were used */
            votes->floor += claim->passed_count;
            claim->passed_count = 0;
        }
        votes->asks = true;
        for (unsigned i = 0; i < count_of(votes); i++) {
            votes->vote[i].tried = votes->vote[i].lapsed = false;
        }
        ask_all(votes);
        changed(votes);
    } else if (claim->machine.unwanted) {
        changed(votes);
    }
}

/* ---- events of a member's claims ---- */

static struct vote *vote_of(const struct lw__claim *claim)
{
    const struct lw_lock *lock = first_handle(claim);

    return lock != NULL && lock->state != LW_RELEASING && !lock->freed ? lock->arg : NULL;
}

static void refused(struct lw__claim *claim)
{
    const struct lw__claim_events *events = &lw__turns_events;
    struct vote *vote = vote_of(claim);

    if (vote != NULL) {
        note_answer(vote);
        vote->refused = true;
        vote->remaining_ms = claim->asking.remaining_ms;
        changed(vote->votes);
    }
    events->refused(claim);
}

static void on_error(struct lw__claim *claim, int status, const char *text)
{
    const struct lw__claim_events *events = &lw__turns_events;
    struct vote *vote = vote_of(claim);

    if (vote != NULL) {
        changed(vote->votes);
    }
    events->on_error(claim, status, text);
}

static void outcome_unknown(struct lw__claim *claim, int status, const char *why)
{
    const struct lw__claim_events *events = &lw__turns_events;
    struct vote *vote = vote_of(claim);

    if (vote != NULL) {
        changed(vote->votes);
    }
    events->outcome_unknown(claim, status, why);
}

static void renewed(struct lw__claim *claim, bool sure)
{
    const struct lw__claim_events *events = &lw__turns_events;
    struct vote *vote = vote_of(claim);

    if (vote != NULL && sure) {
        changed(vote->votes);
    }
    events->renewed(claim, sure);
}

void lw__quorum_votes_init(struct lw_client *client)
{
    struct lw__quorum *quorum = client->quorum;

    quorum->ops = &lw__quorum_votes_ops;
    quorum->member_events = lw__turns_events;
    quorum->member_events.refused = refused;
    quorum->member_events.on_error = on_error;
    quorum->member_events.outcome_unknown = outcome_unknown;
    quorum->member_events.renewed = renewed;
    lw__defer_init(&quorum->count_call, count_changed, quorum);
}

/* ---- their life ---- */

void lw__quorum_votes_forget(struct lw_client *client)
{
    const struct lw__claim *claim;

    for (struct lw__name *name = lw__name_after(client, NULL); name != NULL;
         name = lw__name_after(client, name)) {
        DL_FOREACH(name->claims, claim) {
            for (unsigned i = 0; i < client->quorum->count; i++) {
                lw__node_forget(&claim->votes->vote[i].raise);
            }
        }
    }
}

static bool make(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;
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
    lw__timer_init(&votes->timer, timer_due, votes);
    for (unsigned i = 0; i < quorum->count; i++) {
        votes->vote[i].votes = votes;
        votes->vote[i].member = &quorum->members[i];
        votes->vote[i].released = PENDING;
    }
    claim->votes = votes;
    return true;
}

/* Releases the remaining votes in the background. */
static void free_votes(struct lw__claim *claim)
{
    struct lw__votes *votes = claim->votes;

    for (unsigned i = 0; i < count_of(votes); i++) {
        drop(&votes->vote[i]);
        forget_error(&votes->vote[i]);
    }
    if (votes->is_changed) {
        DL_DELETE(quorum_of(votes)->changed, votes);
    }
    lw__timer_cancel(claim->client->loop, &votes->timer);
    lw__timer_unreserve(claim->client->loop, 1);
    free(votes);
    claim->votes = NULL;
}

const struct lw__vote_ops lw__quorum_votes_ops = {make, free_votes, stepped, match_all,
                                                  renew_all};
