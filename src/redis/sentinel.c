/* SPDX-License-Identifier: MIT */
/* The sentinels of a service, who wants the way, and what is believed: see sentinel.h.
 * Must not know how a sentinel is reached or read, nor what is done with a connection.
 *
 * Happy path: wanted(), all are asked; 200 ms after the first answer that can be used, or
 * when all have been heard, the one of the highest config-epoch is believed, and who
 * wants the way is led there. The same round is made at heartbeats, where switches begin
 * to be told, and when somebody turns out to know better.
 *
 * Failures: an answer that says down leads nowhere, but what is older than it is not
 * believed either; one that is older than the master that is followed counts only when
 * most of the listed ones say so, and nobody better in time. Nobody useful: who wants the
 * way is told what each sentinel said, and a connection that stands is left alone. */
#include "redis/sentinel.h"

#include "base/log.h"
#include "base/random.h"
#include "lockwire.h"
#include "loop/now.h"
#include "loop/timer.h"
#include "redis/sentinel_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define MOST LW__URL_HOSTS /* sentinels, learnt ones included */
#define DOUBTS 3           /* rounds */
#define LATER_US (200 * (int64_t)LW__MS)

struct lw__sentinels {
    struct lw__sentinel_options options;
    struct lw__access access; /* of sentinels, but for the host */
    uint64_t *failovers;
    struct lw__sentinel *all;
    size_t count;
    struct lw__way *ways;     /* that are guided */
    struct lw__master master; /* that is followed; no host: none yet */
    int64_t master_us;        /* when its for_ms was as it says */
    int doubts; /* rounds in a row in which most named another place, of no later epoch */
    bool unconvinced_told; /* of this one */
    struct lw__follow follow;
    struct lw__timer heartbeat; /* set since the first way was wanted */

    /* While all are asked: */
    bool asking, answered; /* one of them has something to believe */
    bool again;            /* what was said already may be of before something */
    int64_t limit_us;
    struct lw__timer round;   /* ends it */
    struct lw__deferred over; /* its time is, but has all been read that has arrived? */
    bool looked;              /* the loop has read since */
};

static struct lw__loop *loop_of(const struct lw__sentinels *set)
{
    return set->access.loop;
}

static bool follows_one(const struct lw__sentinels *set)
{
    return set->master.place.host[0] != '\0';
}

static bool is_followed(const struct lw__sentinels *set, const struct lw__master *master)
{
    return lw__sentinel_same_place(&set->master.place, &master->place);
}

/* ---- the ways ---- */

static struct lw__way *first_wanted(const struct lw__sentinels *set)
{
    struct lw__way *way = set->ways;

    while (way != NULL && !way->wanted) {
        way = way->next;
    }
    return way;
}

static void lead(struct lw__sentinels *set)
{
    struct lw__way *way;

    while ((way = first_wanted(set)) != NULL) {
        lw__session_go(way, set->master.place.host, set->master.place.port);
    }
}

static void leave_astray(struct lw__sentinels *set, const char *why)
{
    struct lw__way *way;

    while ((way = first_wanted(set)) != NULL) {
        lw__session_astray(way, why);
    }
}

static void forget(void *arg, struct lw__way *way)
{
    (void)arg;
    *way->prev = way->next;
    if (way->next != NULL) {
        way->next->prev = way->prev;
    }
    way->prev = NULL;
}

static void know(struct lw__sentinels *set, struct lw__way *way)
{
    way->next = set->ways;
    way->prev = &set->ways;
    if (way->next != NULL) {
        way->next->prev = &way->next;
    }
    set->ways = way;
}

/* ---- what is believed ---- */

/* What is said at `now_us` of whom to follow. Where it does not say for how long that has
 * been the master, what was known of the same one goes on. */
static void note(struct lw__sentinels *set, const struct lw__master *master,
                 int64_t now_us)
{
    int64_t for_ms = is_followed(set, master) ? set->master.for_ms : -1;

    set->master = *master;
    if (master->for_ms >= 0 || for_ms < 0) {
        set->master_us = now_us;
    } else {
        set->master.for_ms = for_ms;
    }
}

static void adopt(struct lw__sentinels *set, const struct lw__master *master,
                  int64_t now_us)
{
    const struct lw__place old = set->master.place;
    bool moves = follows_one(set) && !is_followed(set, master);
    char why[LW__WHY];

    note(set, master, now_us);
    set->doubts = 0;
    set->unconvinced_told = false;
    if (!moves) {
        return;
    }
    ++*set->failovers;
    (void)snprintf(why, sizeof(why), "the master is %.60s:%u now, it was %.60s:%u",
                   master->place.host, (unsigned)master->place.port, old.host,
                   (unsigned)old.port);
    lw__log(set->access.log, LOG_NOTICE, "%s", why);
    for (struct lw__way *way = set->ways; way != NULL; way = way->next) {
        lw__session_turn(way, why);
    }
}

static void lead_nowhere(struct lw__sentinels *set)
{
    char why[LW__TOLD];

    lw__sentinel_believe_none(set->all, why, sizeof(why));
    leave_astray(set, why);
}

/* ---- a round ---- */

static void ask_all(struct lw__sentinels *set)
{
    if (set->asking) {
        return;
    }
    set->asking = true;
    set->answered = set->again = false;
    set->limit_us = /* the half of it is for the connection */
        lw__now_us() + (int64_t)set->access.connect_timeout_ms * LW__MS / 2;
    lw__timer_set(loop_of(set), &set->round, set->limit_us);
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        lw__sentinel_ask(one);
    }
}

/* One that could tell, but that one; NULL: there is none. At random, so that clients
 * spread over the sentinels. */
static const struct lw__place *pick_to_follow(void *arg, const struct lw__place *but)
{
    struct lw__sentinels *set = arg;
    const struct lw__place *picked = NULL;
    int64_t seen = 0;

    for (const struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        if (one->useful && lw__sentinel_ask_stands(one) &&
            !lw__sentinel_same_place(&one->place, but) &&
            lw__random_between(set->access.random, 0, seen++) == 0) {
            picked = &one->place;
        }
    }
    return picked;
}

/* One that is not of use any more would tell of no switch. */
static void look_after_follow(struct lw__sentinels *set, const struct lw__sentinel *best)
{
    static const struct lw__place none;
    const struct lw__place *picked = pick_to_follow(set, &none);
    const struct lw__sentinel *one = set->all;

    lw__sentinel_follow_start(&set->follow, picked != NULL ? picked : &best->place);
    while (one != NULL && !lw__sentinel_same_place(&one->place, &set->follow.place)) {
        one = one->next;
    }
    if (one != NULL && !one->open && !one->useful) {
        lw__sentinel_follow_leave(&set->follow, one->why);
    }
}

/* What is not later than what is followed, and somewhere else, is of one that lags or
 * was cut off, is another name of the same server, or is of sentinels that were set up
 * anew and count anew. Most of those that were listed must agree; where nobody wants the
 * way, most of all that are known, again and again. */
static bool is_convincing(struct lw__sentinels *set, const struct lw__master *said)
{
    if (!follows_one(set) || lw__sentinel_is_later(said, &set->master)) {
        return true;
    }
    if (!lw__sentinel_believe_most(set->all, false)) {
        return false;
    }
    set->doubts = is_followed(set, said) ? 0 : set->doubts + 1;
    return set->doubts == 0 || first_wanted(set) != NULL ||
           (set->doubts >= DOUBTS && lw__sentinel_believe_most(set->all, true));
}

/* Who wants the way is led to where the master was known to be last. */
static void tell_unconvinced(struct lw__sentinels *set, const struct lw__place *named)
{
    if (first_wanted(set) == NULL || set->unconvinced_told) {
        return;
    }
    set->unconvinced_told = true;
    lw__log(
        set->access.log, LOG_WARNING,
        "too few of the listed sentinels answer to believe that the master is %.60s:%u "
        "by no later configuration than that of %.60s:%u",
        named->host, (unsigned)named->port, set->master.place.host,
        (unsigned)set->master.place.port);
}

static void believe(struct lw__sentinels *set, struct lw__sentinel *best)
{
    lw__sentinel_believe_some(set->all);
    if (is_convincing(set, &best->said)) {
        adopt(set, &best->said, best->said_us);
    } else if (!is_followed(set, &best->said)) {
        tell_unconvinced(set, &best->said.place);
    }
    look_after_follow(set, best);
    lw__sentinel_ask_others(best);
    lead(set);
}

static void conclude(struct lw__sentinels *set)
{
    struct lw__sentinel *best = lw__sentinel_believe(set->all, &set->master);

    set->asking = false;
    lw__timer_cancel(loop_of(set), &set->round);
    if (best == NULL || best->said.down) {
        lead_nowhere(set);
    } else {
        believe(set, best);
    }
    if (set->again) {
        ask_all(set);
    }
}

/* A loop that stalled is no reason to pass over what has arrived meanwhile: first all of
 * it may be read, for which a whole turn has to pass. */
static void round_over(void *arg)
{
    struct lw__sentinels *set = arg;

    if (!set->asking || lw__timer_is_set(&set->round)) {
        return; /* another one has begun, or there is time */
    }
    if (set->looked) {
        conclude(set);
    } else {
        set->looked = true;
        lw__defer(loop_of(set), &set->over, false);
    }
}

static void round_due(void *arg)
{
    struct lw__sentinels *set = arg;

    set->looked = false;
    lw__defer(loop_of(set), &set->over, false);
}

/* Too late for the round that asked. */
static void heard_late(struct lw__sentinels *set, const struct lw__sentinel *sentinel)
{
    const struct lw__master *said = &sentinel->said;

    if (sentinel->useful && follows_one(set) &&
        lw__sentinel_is_later(said, &set->master) && !said->down &&
        !is_followed(set, said)) {
        ask_all(set);
    }
}

/* One to be believed, if none comes that is better. */
static bool has_answer(const struct lw__sentinels *set)
{
    const struct lw__sentinel *best = lw__sentinel_believe(set->all, &set->master);

    return best != NULL && !best->said.down &&
           !lw__sentinel_is_later(&set->master, &best->said);
}

static void heard(void *arg, struct lw__sentinel *sentinel)
{
    struct lw__sentinels *set = arg;
    int64_t end_us = lw__now_us() + LATER_US;

    if (!set->asking) {
        heard_late(set, sentinel);
    } else if (!lw__sentinel_believe_waits(set->all)) {
        conclude(set);
    } else if (!set->answered && has_answer(set)) {
        set->answered = true;
        lw__timer_set(loop_of(set), &set->round,
                      end_us < set->limit_us ? end_us : set->limit_us);
    }
}

static void wanted(void *arg, struct lw__way *way)
{
    struct lw__sentinels *set = arg;

    if (way->prev == NULL) {
        know(set, way);
    }
    if (!lw__timer_is_set(&set->heartbeat)) {
        lw__timer_set(loop_of(set), &set->heartbeat,
                      lw__now_us() + (int64_t)set->access.request_timeout_ms * LW__MS);
    }
    ask_all(set);
}

static void heartbeat(void *arg)
{
    struct lw__sentinels *set = arg;

    lw__timer_set(loop_of(set), &set->heartbeat,
                  lw__now_us() + (int64_t)set->access.request_timeout_ms * LW__MS);
    lw__sentinel_follow_heartbeat(&set->follow);
    ask_all(set);
}

/* ---- what is told unasked ---- */

/* Answers that are on their way may be older than what was told. */
static void begin_anew(struct lw__sentinels *set)
{
    set->asking = false;
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        lw__sentinel_ask_forget(one);
    }
    ask_all(set);
}

/* One who keeps beginning to tell must not keep a round from its end. */
static void following(void *arg)
{
    struct lw__sentinels *set = arg;

    if (set->asking) {
        set->again = true;
    } else {
        begin_anew(set);
    }
}

/* The epoch is not told, but is higher than that of the master before. */
static void switched(void *arg, const struct lw__place *to)
{
    struct lw__sentinels *set = arg;
    const struct lw__master master = {.place = *to, .epoch = set->master.epoch + 1};

    if (is_followed(set, &master)) {
        return;
    }
    adopt(set, &master, lw__now_us());
    begin_anew(set);
}

/* ---- who there is ---- */

static int add(struct lw__sentinels *set, const struct lw__place *place, bool learnt);

/* Makes room: one that was learnt and does not stand is likely to be gone for good. */
static void drop_one(struct lw__sentinels *set)
{
    struct lw__sentinel **at = &set->all, *one;

    while ((one = *at) != NULL && (!one->learnt || lw__sentinel_ask_stands(one))) {
        at = &one->next;
    }
    if (one != NULL) {
        *at = one->next;
        set->count--;
        lw__sentinel_ask_free(one);
    }
}

static void learn(void *arg, const struct lw__place *place)
{
    struct lw__sentinels *set = arg;

    for (const struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        if (lw__sentinel_ask_is_at(one, place)) {
            return;
        }
    }
    if (set->count == MOST) {
        drop_one(set);
    }
    if (set->count < MOST) {
        (void)add(set, place, true); /* without memory it is learnt another time */
    }
}

static int add(struct lw__sentinels *set, const struct lw__place *place, bool learnt)
{
    static const struct lw__sentinel_events events = {heard, learn};
    struct lw__sentinel **at = &set->all;
    struct lw__sentinel *one =
        lw__sentinel_ask_new(&set->access, set->options.service, place, &events, set);

    if (one == NULL) {
        return -1;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = one;
    set->count++;
    one->learnt = learnt;
    if (learnt) {
        lw__sentinel_ask(one);
    }
    return 0;
}

/* ---- their life ---- */

static int add_listed(struct lw__sentinels *set)
{
    for (size_t i = 0; i < set->options.host_count; i++) {
        const struct lw__url_host *host = &set->options.hosts[i];
        struct lw__place place = {.port = host->port};

        (void)snprintf(place.host, sizeof(place.host), "%s", host->name);
        if (add(set, &place, false) != 0) {
            return -1;
        }
    }
    return 0;
}

int lw__sentinel_new(const struct lw__sentinel_options *options,
                     const struct lw__access *access, uint64_t *failovers,
                     struct lw__sentinels **ret)
{
    static const struct lw__follow_events follow_events = {following, switched,
                                                           pick_to_follow};
    struct lw__sentinels *set = calloc(1, sizeof(*set));

    if (set == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(access->loop, 3) != 0) {
        free(set);
        return LW_ENOMEM;
    }
    set->options = *options;
    set->failovers = failovers;
    set->access = *access;
    set->access.username = options->username;
    set->access.password = options->password;
    set->access.login = NULL; /* that is the servers', as these are: */
    set->access.guide = NULL;
    set->access.db = 0;
    lw__timer_init(&set->heartbeat, heartbeat, set);
    lw__timer_init(&set->round, round_due, set);
    lw__defer_init(&set->over, round_over, set);
    lw__sentinel_follow_init(&set->follow, &set->access, options->service, &follow_events,
                             set);
    if (add_listed(set) != 0) {
        lw__sentinel_free(set);
        return LW_ENOMEM;
    }
    *ret = set;
    return 0;
}

void lw__sentinel_guide(struct lw__sentinels *sentinels, struct lw__access *access)
{
    static const struct lw__guide_events events = {wanted, forget};

    access->guide = &events;
    access->guide_arg = sentinels;
}

int lw__sentinel_master(const struct lw__sentinels *sentinels, struct lw_master *ret)
{
    const struct lw__master *master = &sentinels->master;

    _Static_assert(sizeof(ret->host) == sizeof(master->place.host),
                   "public, and no less");
    if (!follows_one(sentinels)) {
        return LW_ECONN;
    }
    (void)snprintf(ret->service, sizeof(ret->service), "%s", sentinels->options.service);
    (void)snprintf(ret->host, sizeof(ret->host), "%s", master->place.host);
    ret->port = master->place.port;
    ret->for_ms = master->for_ms;
    if (ret->for_ms >= 0) {
        ret->for_ms += (lw__now_us() - sentinels->master_us) / LW__MS;
    }
    return 0;
}

void lw__sentinel_free(struct lw__sentinels *sentinels)
{
    struct lw__sentinel *one, *next;

    if (sentinels == NULL) {
        return;
    }
    for (one = sentinels->all; one != NULL; one = next) {
        next = one->next;
        lw__sentinel_ask_free(one);
    }
    lw__session_stop(&sentinels->follow.session);
    lw__timer_cancel(loop_of(sentinels), &sentinels->heartbeat);
    lw__timer_cancel(loop_of(sentinels), &sentinels->round);
    lw__defer_cancel(loop_of(sentinels), &sentinels->over);
    lw__timer_unreserve(loop_of(sentinels), 3);
    free(sentinels);
}

void lw__sentinel_abandon(struct lw__sentinels *sentinels)
{
    struct lw__sentinel *one, *next;

    if (sentinels == NULL) {
        return;
    }
    for (one = sentinels->all; one != NULL; one = next) {
        next = one->next;
        lw__sentinel_ask_abandon(one);
    }
    lw__session_abandon(&sentinels->follow.session);
    free(sentinels);
}
