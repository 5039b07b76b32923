/* SPDX-License-Identifier: MIT */
/* The sentinels of a service, who wants the way, and what is believed: see sentinel.h.
 * Must not know how a sentinel is reached or read, nor what is done with a connection.
 *
 * Happy path: wanted(), all are asked; 200 ms after the first answer that can be used, or
 * when all have been heard, the one of the highest config-epoch is believed, and who
 * wants the way is led there. The same round is made at heartbeats, where switches begin
 * to be told, and when somebody turns out to know better. Each of them is followed, since
 * who makes a switch tells of it a second before the others, or long after them.
 *
 * Failures: an answer that says down leads nowhere, but what is older than it is not
 * believed either; one that is older than the master that is followed counts only when
 * most of the listed ones say so, and nobody better in time. Nobody useful: who wants the
 * way is told what each sentinel said, and a connection that stands is left alone.
 *
 * Learnt sentinels are known by their id, not by their address, which may become another
 * installation's. They are learnt from listed ones only, and dropped when none of these
 * names them any more. What a learnt one alone says has to be proved by a probe of the
 * master that it names; meanwhile nobody is led to the one before. */
#include "redis/sentinel.h"

#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/reply.h"
#include "redis/sentinel_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define MOST LW__URL_HOSTS /* sentinels, learnt ones included */
#define LATER_US (200 * (int64_t)LW__MS)
/* A switch is told at once by the sentinel that makes it, by the others when they hear of
 * it, which takes them a second or two. Who waits for one asks all of them so often. */
#define RESTLESS_US (250 * (int64_t)LW__MS)

struct lw__sentinels {
    struct lw__sentinel_options options;
    struct lw__session_config
        config; /* how sentinels are connected to, except for the host */
    struct lw__session_config servers; /* how masters are */
    uint64_t *failovers;
    struct lw__sentinel *all;
    size_t count;
    struct lw__way *ways; /* that are guided */
    struct lw__followed followed;
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
    return set->config.loop;
}

/* ---- what is believed ---- */

static void follow(struct lw__sentinels *set, const struct lw__sentinel_answer *master,
                   int64_t told_epoch, int64_t now_us)
{
    char why[LW__WHY_MAX];

    if (!lw__sentinel_master_take(&set->followed, master, told_epoch, now_us, why)) {
        return;
    }
    ++*set->failovers;
    lw__log(set->config.log, LOG_NOTICE, "%s", why);
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        *one->refuted.place.host = '\0';             /* it may be a replica of this one */
        lw__sentinel_master_probe_stop(&one->probe); /* it was about the one before */
    }
    lw__sentinel_ways_turn(set->ways, why);
}

static void lead_nowhere(struct lw__sentinels *set)
{
    char why[LW__TEXT_MAX];
    int status = lw__sentinel_believe_none(set->all, why, sizeof(why));

    lw__sentinel_ways_leave(&set->ways, status, why);
}

/* ---- claims of learnt sentinels ---- */

static bool is_being_probed(const struct lw__sentinels *set,
                            const struct lw__endpoint *place)
{
    const struct lw__sentinel *one = set->all;

    while (one != NULL &&
           !(one->probe.open && lw__endpoint_equal(&one->probe.place, place))) {
        one = one->next;
    }
    return one != NULL;
}

/* Stops the probes of what is not claimed any more, and starts those that are missing,
 * one for each place. */
static void probe_claims(struct lw__sentinels *set)
{
    struct lw__sentinel *one;

    for (one = set->all; one != NULL; one = one->next) {
        if (one->probe.open &&
            (!lw__sentinel_master_is_claim(&set->followed, one) ||
             !lw__endpoint_equal(&one->probe.place, &one->said.place))) {
            lw__sentinel_master_probe_stop(&one->probe);
        }
    }
    for (one = set->all; one != NULL; one = one->next) {
        if (lw__sentinel_master_is_claim(&set->followed, one) &&
            !is_being_probed(set, &one->said.place)) {
            lw__sentinel_master_probe_start(&one->probe, &one->said.place);
        }
    }
}

/* Returns true while a probe is in its first attempt: the decision waits for that. */
static bool may_be_led_better(const struct lw__sentinels *set)
{
    const struct lw__sentinel *one = set->all;

    while (one != NULL && !one->probe.first) {
        one = one->next;
    }
    return one != NULL;
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
        lw__now_us() + (int64_t)set->config.connect_timeout_ms * LW__MS / 2;
    lw__timer_set(loop_of(set), &set->round, set->limit_us);
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        lw__sentinel_ask(one);
    }
}

static void believe(struct lw__sentinels *set, struct lw__sentinel *best)
{
    const struct lw__sentinel_answer *said = &best->said;
    bool stands = !lw__sentinel_ways_wanted(set->ways);

    lw__sentinel_believe_some(set->all);
    if (lw__sentinel_master_convinces(&set->followed, said, set->all, stands)) {
        follow(set, said, said->moving ? -1 : said->epoch, best->said_us);
    } else if (!stands && !lw__sentinel_master_is(&set->followed, &said->place)) {
        lw__sentinel_master_tell_unconvinced(&set->followed, set->config.log,
                                             &said->place);
    }
    lw__sentinel_ways_lead(&set->ways, &set->followed.master.place);
}

static void set_heartbeat(struct lw__sentinels *set, int64_t pause_us)
{
    int64_t due_us = lw__now_us() + pause_us;

    if (due_us < lw__timer_due_us(loop_of(set), &set->heartbeat)) {
        lw__timer_set(loop_of(set), &set->heartbeat, due_us);
    }
}

static void ask_who_else(struct lw__sentinels *set)
{
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        if (!one->learnt) {
            lw__sentinel_ask_others(one);
        }
    }
}

/* Chooses the master from the last answers of all sentinels, and leads the ways there.
 * Returns the sentinel that is believed, or NULL. */
static struct lw__sentinel *decide(struct lw__sentinels *set)
{
    struct lw__sentinel *best = lw__sentinel_believe(set->all, &set->followed.master);

    probe_claims(set);
    if (may_be_led_better(set) &&
        (best == NULL || best->said.down ||
         !lw__sentinel_is_later(&best->said, &set->followed.master))) {
        return best; /* decide_at_last follows */
    }
    if (best == NULL || best->said.down) {
        lead_nowhere(set);
    } else {
        believe(set, best);
    }
    return best;
}

static void conclude(struct lw__sentinels *set)
{
    const struct lw__sentinel *best;

    set->asking = false;
    lw__timer_cancel(loop_of(set), &set->round);
    ask_who_else(set);
    best = decide(set);
    if (best != NULL && !lw__sentinel_ways_stand(set->ways)) {
        set_heartbeat(set, RESTLESS_US);
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

/* A probe, or a learnt sentinel that was asked alone, may have been what the last round
 * waited for. */
static void decide_at_last(struct lw__sentinels *set)
{
    probe_claims(set);
    if (!set->asking && !lw__sentinel_believe_waits(set->all) &&
        lw__sentinel_ways_wanted(set->ways)) {
        (void)decide(set);
    }
}

static void probe_delayed(void *arg)
{
    struct lw__sentinel *sentinel = arg;

    decide_at_last(sentinel->arg);
}

static void probe_answered(void *arg, const char *replication_id,
                           const char *former_replication_id)
{
    struct lw__sentinel *sentinel = arg;
    struct lw__sentinels *set = sentinel->arg;

    if (lw__sentinel_master_is_kin(&set->followed, replication_id,
                                   former_replication_id)) {
        follow(set, &sentinel->said, sentinel->said.epoch, sentinel->said_us);
    } else {
        lw__sentinel_master_refute(&set->followed, sentinel);
    }
    lw__sentinel_master_probe_stop(&sentinel->probe);
    decide_at_last(set);
}

/* Too late for the round that asked. */
static void heard_late(struct lw__sentinels *set, const struct lw__sentinel *sentinel)
{
    const struct lw__sentinel_answer *said = &sentinel->said;

    if (sentinel->useful && !sentinel->learnt &&
        lw__sentinel_master_known(&set->followed) &&
        lw__sentinel_is_later(said, &set->followed.master) && !said->down &&
        !lw__sentinel_master_is(&set->followed, &said->place)) {
        ask_all(set);
    }
    decide_at_last(set);
}

/* One to be believed, if none comes that is better. */
static bool has_answer(const struct lw__sentinels *set)
{
    const struct lw__sentinel *best =
        lw__sentinel_believe(set->all, &set->followed.master);

    return best != NULL && !best->said.down &&
           !lw__sentinel_is_later(&set->followed.master, &best->said);
}

static void heard(void *arg, struct lw__sentinel *sentinel)
{
    struct lw__sentinels *set = arg;
    int64_t end_us = lw__now_us() + LATER_US;

    if (sentinel->useful) {
        lw__sentinel_follow_start(&sentinel->follow);
    } else if (sentinel->learnt) {
        lw__sentinel_follow_stop(&sentinel->follow);
    }
    probe_claims(set);
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

    lw__sentinel_ways_know(&set->ways, way);
    set_heartbeat(set, (int64_t)set->config.request_timeout_ms * LW__MS);
    ask_all(set);
}

static void arrived(void *arg, const struct lw__way *way, const char *replication_id)
{
    struct lw__sentinels *set = arg;

    lw__sentinel_master_note(&set->followed, way->host, way->port, replication_id);
}

static void heartbeat(void *arg)
{
    struct lw__sentinels *set = arg;

    set_heartbeat(set, (int64_t)set->config.request_timeout_ms * LW__MS);
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        lw__sentinel_follow_heartbeat(&one->follow);
    }
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

/* A learnt sentinel that speaks unasked is asked alone at first: that is as quick, and
 * does not begin the round of all the others from scratch. */
static void ask_again(struct lw__sentinel *sentinel)
{
    lw__sentinel_ask_forget(sentinel);
    lw__sentinel_ask(sentinel);
    set_heartbeat(sentinel->arg, RESTLESS_US);
}

/* One who keeps beginning to tell must not keep a round from its end. */
static void following(void *arg)
{
    struct lw__sentinel *sentinel = arg;
    struct lw__sentinels *set = sentinel->arg;

    if (sentinel->learnt) {
        ask_again(sentinel);
    } else if (set->asking) {
        set->again = true;
    } else {
        begin_anew(set);
    }
}

/* From whom is followed it leads to whoever is next, whose epoch is not told, but is
 * higher. Any other switch is old news, or one behind a switch that was missed. */
static void switched(void *arg, const struct lw__endpoint *from,
                     const struct lw__endpoint *to)
{
    struct lw__sentinel *sentinel = arg;
    struct lw__sentinels *set = sentinel->arg;
    const struct lw__sentinel_answer master = {.place = *to,
                                               .epoch = set->followed.master.epoch + 1};

    if (!sentinel->learnt && lw__sentinel_master_is(&set->followed, from) &&
        !lw__sentinel_master_is(&set->followed, to)) {
        follow(set, &master, -1, lw__now_us());
        begin_anew(set);
    } else {
        following(sentinel);
    }
}

/* ---- who there is ---- */

static int add(struct lw__sentinels *set, const struct lw__endpoint *place,
               const char *id);

static void forget(struct lw__sentinel *one)
{
    lw__sentinel_master_probe_close(&one->probe);
    lw__sentinel_follow_close(&one->follow);
    lw__sentinel_ask_free(one);
}

static void drop(struct lw__sentinels *set, struct lw__sentinel **at)
{
    struct lw__sentinel *one = *at;

    *at = one->next;
    set->count--;
    forget(one);
}

/* Makes room: one that was learnt and does not stand is likely to be gone for good. */
static void drop_one(struct lw__sentinels *set)
{
    struct lw__sentinel **at = &set->all;

    while (*at != NULL && (!(*at)->learnt || lw__sentinel_ask_stands(*at))) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        drop(set, at);
    }
}

static bool is_listed(const struct lw__sentinels *set, const struct lw__endpoint *place)
{
    const struct lw__sentinel *one = set->all;

    while (one != NULL && (one->learnt || !lw__sentinel_ask_is_at(one, place))) {
        one = one->next;
    }
    return one != NULL;
}

/* Returns the link to the learnt sentinel with this id, or to the NULL at the end. */
static struct lw__sentinel **find_learnt(struct lw__sentinels *set, const char *id)
{
    struct lw__sentinel **at = &set->all;

    while (*at != NULL && (!(*at)->learnt || strcmp((*at)->id, id) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void learn(struct lw__sentinels *set, const struct lw__sentinel *by,
                  const struct lw__sentinel_peer *other)
{
    struct lw__sentinel **at = find_learnt(set, other->id);

    if (*at != NULL && !other->down &&
        !lw__endpoint_equal(&(*at)->place, &other->place)) {
        drop(set, at); /* it has moved */
        at = find_learnt(set, other->id);
    }
    if (*at == NULL && !other->down && !is_listed(set, &other->place)) {
        if (set->count == MOST) {
            drop_one(set);
        }
        if (set->count < MOST) {
            (void)add(set, &other->place, other->id); /* or another time, with memory */
        }
        at = find_learnt(set, other->id);
    }
    if (*at != NULL) {
        (*at)->named |= 1U << by->number;
    }
}

/* Returns the bits of the listed sentinels that answer. What the others named before is
 * out of date. */
static unsigned all_that_answer(const struct lw__sentinels *set)
{
    unsigned answer = 0;

    for (const struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        if (!one->learnt && one->useful) {
            answer |= 1U << one->number;
        }
    }
    return answer;
}

static void others(void *arg, struct lw__sentinel *by, const struct lw__reply *reply)
{
    struct lw__sentinels *set = arg;
    struct lw__sentinel_peer other;

    if (lw__reply_type(reply) != LW__REPLY_ARRAY) {
        return; /* the command is forbidden, or the service unknown */
    }
    for (struct lw__sentinel *one = set->all; one != NULL; one = one->next) {
        one->named &= all_that_answer(set) & ~(1U << by->number);
    }
    for (size_t at = 0; lw__sentinel_parse_other(reply, &at, &other);) {
        learn(set, by, &other);
    }
    for (struct lw__sentinel **at = &set->all; *at != NULL;) {
        if ((*at)->learnt && (*at)->named == 0) {
            drop(set, at);
        } else {
            at = &(*at)->next;
        }
    }
    if (set->asking && !lw__sentinel_believe_waits(set->all)) {
        conclude(set);
    }
    decide_at_last(set);
}

/* Adds a sentinel: a learnt one with this id, or a listed one if `id` is NULL. Returns 0,
 * or -1 if there is no memory. */
static int add(struct lw__sentinels *set, const struct lw__endpoint *place,
               const char *id)
{
    static const struct lw__sentinel_events events = {heard, others};
    static const struct lw__follow_events follow_events = {following, switched};
    struct lw__sentinel **at = &set->all;
    struct lw__sentinel *one =
        lw__sentinel_ask_new(&set->config, set->options.service, place, id, &events, set);

    if (one == NULL) {
        return -1;
    }
    if (lw__sentinel_follow_open(&one->follow, &one->config, set->options.service,
                                 &follow_events, one) != 0) {
        lw__sentinel_ask_free(one);
        return -1;
    }
    if (lw__sentinel_master_probe_open(&one->probe, &set->servers, one) != 0) {
        lw__sentinel_follow_close(&one->follow);
        lw__sentinel_ask_free(one);
        return -1;
    }
    one->probe.answered = probe_answered;
    one->probe.delayed = probe_delayed;
    one->number = (unsigned)set->count; /* the listed ones come first */
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = one;
    set->count++;
    if (one->learnt) {
        lw__sentinel_ask(one);
    }
    return 0;
}

/* ---- their life ---- */

static int add_listed(struct lw__sentinels *set)
{
    for (size_t i = 0; i < set->options.host_count; i++) {
        const struct lw__url_host *host = &set->options.hosts[i];
        struct lw__endpoint place = {.port = host->port};

        (void)snprintf(place.host, sizeof(place.host), "%s", host->name);
        if (add(set, &place, NULL) != 0) {
            return -1;
        }
    }
    return 0;
}

int lw__sentinel_new(const struct lw__sentinel_options *options,
                     const struct lw__session_config *config, uint64_t *failovers,
                     struct lw__sentinels **ret)
{
    struct lw__sentinels *set = calloc(1, sizeof(*set));

    if (set == NULL) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(config->loop, 2) != 0) {
        free(set);
        return LW_ENOMEM;
    }
    set->options = *options;
    set->failovers = failovers;
    set->config = set->servers = *config;
    set->config.username = options->username;
    set->config.password = options->password;
    set->config.login = NULL; /* that is the servers', as these are: */
    set->config.guide = NULL;
    set->config.db = 0;
    lw__timer_init(&set->heartbeat, heartbeat, set);
    lw__timer_init(&set->round, round_due, set);
    lw__defer_init(&set->over, round_over, set);
    if (add_listed(set) != 0) {
        lw__sentinel_free(set);
        return LW_ENOMEM;
    }
    *ret = set;
    return 0;
}

void lw__sentinel_guide(struct lw__sentinels *sentinels,
                        struct lw__session_config *config)
{
    static const struct lw__guide_events events = {wanted, lw__sentinel_ways_forget,
                                                   arrived};

    config->replication = true;
    config->guide = &events;
    config->guide_arg = sentinels;
}

int lw__sentinel_master(const struct lw__sentinels *sentinels, struct lw_master *ret)
{
    const struct lw__endpoint *place = &sentinels->followed.master.place;

    _Static_assert(sizeof(ret->host) == sizeof(place->host), "public, and no less");
    if (!lw__sentinel_master_known(&sentinels->followed)) {
        return LW_ECONN;
    }
    (void)snprintf(ret->service, sizeof(ret->service), "%s", sentinels->options.service);
    (void)snprintf(ret->host, sizeof(ret->host), "%s", place->host);
    ret->port = place->port;
    ret->for_ms = lw__sentinel_master_for_ms(&sentinels->followed, lw__now_us());
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
        forget(one);
    }
    lw__timer_cancel(loop_of(sentinels), &sentinels->heartbeat);
    lw__timer_cancel(loop_of(sentinels), &sentinels->round);
    lw__defer_cancel(loop_of(sentinels), &sentinels->over);
    lw__timer_unreserve(loop_of(sentinels), 2);
    free(sentinels);
}
