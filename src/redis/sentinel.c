/* SPDX-License-Identifier: MIT */
/* The sentinels of a service and the master that they name: see sentinel.h.
 *
 * A session needs its endpoint: resolve() starts a round, in which all sentinels are
 * asked at once. 200 ms after the first usable answer, or as soon as all have answered,
 * choose_master() takes the answer with the highest config-epoch, and the sessions
 * connect there. Further rounds follow at heartbeats, when a subscription to a sentinel
 * begins, and when a late answer is newer than the master that is known. Each sentinel is
 * subscribed to, because the one that makes a switch reports it a second before the
 * others.
 *
 * An answer that says the master is down leads nowhere, but an older one is not believed
 * either. An answer that is older than the present master, and names another one, counts
 * only if most of the listed sentinels have answered. If no answer is usable the sessions
 * that wait fail, with the reason of each sentinel; connections that are up stay.
 *
 * A listed sentinel is one of the URL; the others are discovered by asking those. A
 * discovered sentinel is identified by its id, not by its address, which may pass to
 * another installation, and is dropped when no listed one names it any more. Only a
 * listed sentinel can name a new master. A discovered one that names another master than
 * the present one does not count: all are asked again, until a listed one names it as
 * well. One that names the present master counts, and so replaces listed ones that do not
 * answer. If its config-epoch is later than the known one it counts as that, so that it
 * outranks no answer of a listed one.
 *
 * A sentinel also reports the master's run id, as its last INFO had it, up to 10 s ago.
 * After a switch it has none until its next INFO, some 7 s later, and has forgotten those
 * of the replicas. So the replicas are asked for at each round, and the next master is
 * compared with the run id that it had as a replica, unless the process started later. */
#include "redis/sentinel.h"

#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/reasons.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/address_map.h"
#include "redis/classify.h"
#include "redis/listener.h"
#include "redis/master.h"
#include "redis/reply.h"
#include "redis/sentinel_parse.h"
#include "redis/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

#define SENTINELS_MAX LW__URL_HOSTS /* discovered ones included */
#define CHANNEL "+switch-master"
#define LATER_US (200 * (int64_t)LW__MS)
/* A switch is reported at once by the sentinel that makes it, by the others a second or
 * two later, when they hear of it. While a session waits for one all are asked this
 * often. */
#define RESTLESS_US (250 * (int64_t)LW__MS)
/* How long the listed sentinels may take to confirm a switch before that is a warning. */
#define CONFIRM_US (5000 * (int64_t)LW__MS)
#define STALE_ROUNDS 3
#define KNOWN_MAX 16
#define QUERY_SKIPS_MAX 60       /* rounds */
#define SUBSCRIBE_SKIPS_MAX 1000 /* rounds */

/* Something that is tried ever more rarely. */
struct skips {
    unsigned left;   /* opportunities still to pass */
    unsigned length; /* as many as passed after the last failure */
};

struct sentinel {
    struct sentinel *next;
    struct lw__sentinels *set;
    struct lw__endpoint endpoint;
    struct lw__session_config config;
    struct lw__session session; /* for questions */
    struct lw__listener listener;
    struct lw__request master_request, peers_request, replicas_request;
    bool pending; /* it was asked, and has not answered */
    bool stale;   /* the next reply answers an earlier question */
    bool useful; /* `answer` is its last one, which is usable; otherwise `why` says why */
    bool logged; /* that it is not, since it was useful last */
    enum { NOT_NOTED, NOTED_USEFUL, NOTED_USELESS } noted; /* in the log, last */
    bool claim_logged; /* that is_claim() is true, since it was false last */
    int64_t claim_us;  /* when that was found first; 0: it is false */
    bool discovered;
    unsigned number;   /* of a configured one: its place in the URL */
    unsigned named_by; /* of a discovered one: a bit for each configured one */
    char id[LW__SENTINEL_ID_SIZE]; /* of a discovered one: SENTINEL MYID must return it */
    /* Rounds in which a discovered one that did not prove its id is not connected to, and
     * in which one that forbids SUBSCRIBE is not subscribed to. */
    struct skips query_skips, subscribe_skips;
    struct lw__sentinel_answer answer; /* when it was useful last */
    int64_t answer_us;
    char why[LW_WHY_SIZE];
    int status; /* the class of that: struct lw__failure */
};

/* A server that listed sentinels reported, as master or as replica. */
struct known {
    struct lw__endpoint endpoint;
    char run_id[LW__SENTINEL_ID_SIZE];
    int64_t known_us; /* when a sentinel got the id; 0: an unused place */
};

struct lw__sentinels {
    struct lw__sentinel_options options;
    struct lw__session_config config;  /* for sentinels, except for the host */
    struct lw__session_config servers; /* for masters */
    uint64_t *failovers;
    struct sentinel *all;
    size_t count;
    struct lw__session *sessions; /* whose endpoint is resolved here */
    struct lw__master master;
    struct lw__master_id master_id;
    struct known known[KNOWN_MAX];
    struct lw__timer heartbeat; /* set since the first session asked */

    /* A round: */
    bool asking, answered; /* answered: there is a usable answer */
    bool again;            /* another round follows: answers may be out of date */
    int64_t limit_us;
    struct lw__timer round;
    struct lw__late_check round_end;
};

static struct lw__loop *loop_of(const struct lw__sentinels *set)
{
    return set->config.loop;
}

static bool skip(struct skips *skips)
{
    if (skips->left == 0) {
        return false;
    }
    skips->left--;
    return true;
}

static void skip_more(struct skips *skips, unsigned most)
{
    skips->left = skips->length;
    skips->length = skips->length < most ? skips->length * 2 + 1 : most;
}

/* ---- which answer is chosen ---- */

/* Returns true if this answer may be chosen. A discovered sentinel counts only if it
 * names the present master. */
static bool counts(const struct sentinel *sentinel)
{
    return !sentinel->pending && sentinel->useful &&
           (!sentinel->discovered ||
            lw__master_is_at(&sentinel->set->master, &sentinel->answer.endpoint));
}

/* Returns the answer of a sentinel that counts. That of a discovered one is made no later
 * than the present master's. */
static struct lw__sentinel_answer counted_answer(const struct sentinel *sentinel)
{
    const struct lw__sentinel_answer *present = &sentinel->set->master.answer;
    struct lw__sentinel_answer answer = sentinel->answer;

    if (sentinel->discovered && lw__master_is_later(&answer, present)) {
        answer.epoch = present->epoch;
        answer.moving = present->moving;
    }
    return answer;
}

/* Returns true if this discovered sentinel names a later master than the present one. It
 * is not followed: it may report a master of another installation. */
static bool is_claim(const struct sentinel *sentinel)
{
    const struct lw__master *master = &sentinel->set->master;
    const struct lw__sentinel_answer *answer = &sentinel->answer;

    return sentinel->discovered && sentinel->useful && !answer->down &&
           lw__master_is_later(answer, &master->answer) &&
           !lw__master_is_at(master, &answer->endpoint);
}

/* Returns the sentinel with the highest config-epoch among those that count. Ties prefer
 * a master that is not flagged down, then the present one. The result may still be
 * flagged down. Returns NULL if there is none. */
static struct sentinel *find_best(const struct lw__sentinels *set)
{
    struct sentinel *best = NULL, *one;
    struct lw__sentinel_answer answer, best_answer;

    for (one = set->all; one != NULL; one = one->next) {
        answer = counted_answer(one);
        if (counts(one) &&
            (best == NULL || lw__master_is_better(&answer, &best_answer, &set->master))) {
            best = one;
            best_answer = answer;
        }
    }
    return best;
}

/* Returns true if more than half of the sentinels gave a usable answer. */
static bool most_answered(const struct lw__sentinels *set, bool count_discovered)
{
    int count = 0, answered = 0;

    for (const struct sentinel *one = set->all; one != NULL; one = one->next) {
        if (count_discovered || !one->discovered) {
            count++;
            answered += !one->pending && one->useful;
        }
    }
    return answered * 2 > count;
}

static bool any_useful(const struct lw__sentinels *set)
{
    const struct sentinel *one = set->all;

    while (one != NULL && !one->useful) {
        one = one->next;
    }
    return one != NULL;
}

static bool any_pending(const struct lw__sentinels *set)
{
    const struct sentinel *one = set->all;

    while (one != NULL && !one->pending) {
        one = one->next;
    }
    return one != NULL;
}

/* ---- the sessions ---- */

static struct lw__session *first_resolving(const struct lw__sentinels *set)
{
    struct lw__session *session = set->sessions;

    while (session != NULL && session->state != LW__SESSION_RESOLVING) {
        session = session->next_resolved;
    }
    return session;
}

static bool all_ready(const struct lw__sentinels *set)
{
    const struct lw__session *session = set->sessions;

    while (session != NULL && session->state == LW__SESSION_READY) {
        session = session->next_resolved;
    }
    return session == NULL;
}

/* Those that wait connect to the present master. */
static void resolve_all(struct lw__sentinels *set)
{
    struct lw__session *session;

    while ((session = first_resolving(set)) != NULL) {
        lw__session_resolved(session, &set->master.answer.endpoint);
    }
}

static void useless_why(const struct sentinel *sentinel, char ret[LW_WHY_SIZE])
{
    const struct lw__endpoint *named = &sentinel->answer.endpoint;

    if (!sentinel->pending && sentinel->useful && !sentinel->answer.down &&
        sentinel->discovered && !lw__master_is_at(&sentinel->set->master, named)) {
        (void)snprintf(
            ret, LW_WHY_SIZE,
            "names %.253s:%u as master, which a listed sentinel has to confirm",
            named->host, (unsigned)named->port);
        return;
    }
    (void)snprintf(ret, LW_WHY_SIZE, "%s",
                   sentinel->pending   ? "no reply in time"
                   : !sentinel->useful ? sentinel->why
                   : sentinel->answer.down
                       ? "reports the master as down"
                       : "reports an older master than other sentinels");
}

/* `logged`: one of the sentinel's. */
static void log_useless(const struct sentinel *sentinel, bool *logged, const char *why)
{
    lw__log_once(sentinel->config.log, logged, LOG_WARNING, "sentinel %s:%u: %s",
                 sentinel->endpoint.host, (unsigned)sentinel->endpoint.port, why);
}

/* The client may wait for a listed sentinel, or stay at a master that was replaced. If
 * most listed ones answer, they are given time to hear of the switch. */
static void log_claims(struct lw__sentinels *set)
{
    int64_t now_us = lw__now_us();
    bool wait = most_answered(set, false);
    char why[LW_WHY_SIZE];

    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        if (!is_claim(one)) {
            one->claim_logged = false;
            one->claim_us = 0;
            continue;
        }
        one->claim_us = one->claim_us != 0 ? one->claim_us : now_us;
        if (!one->pending && (!wait || now_us - one->claim_us >= CONFIRM_US)) {
            useless_why(one, why);
            log_useless(one, &one->claim_logged, why);
        }
    }
}

/* Logs each change between a sentinel that answers and one that does not. It is no
 * warning, because the others have reported the master. */
static void note_answer(struct sentinel *sentinel)
{
    const struct lw__endpoint *master = &sentinel->answer.endpoint;
    bool useful = !sentinel->pending && sentinel->useful;
    char why[LW_WHY_SIZE];

    if (sentinel->noted == (useful ? NOTED_USEFUL : NOTED_USELESS)) {
        return;
    }
    sentinel->noted = useful ? NOTED_USEFUL : NOTED_USELESS;
    if (useful) {
        lw__log(sentinel->config.log, LOG_INFO,
                "sentinel %.100s:%u%s reports %.100s:%u as the master%s",
                sentinel->endpoint.host, (unsigned)sentinel->endpoint.port,
                sentinel->discovered ? ", not listed in the URL," : "", master->host,
                (unsigned)master->port, sentinel->answer.down ? ", and as down" : "");
    } else {
        useless_why(sentinel, why);
        lw__log(sentinel->config.log, LOG_INFO, "sentinel %s:%u: %s",
                sentinel->endpoint.host, (unsigned)sentinel->endpoint.port, why);
    }
}

/* Those that wait fail, with the reason of each sentinel. */
static void resolve_none(struct lw__sentinels *set)
{
    char why[LW_WHY_SIZE], one_why[LW_WHY_SIZE];
    char endpoint[LW__HOST_SIZE + sizeof(":65535")];
    struct lw__reasons reasons;
    struct lw__session *session;
    int status = 0;

    lw__reasons_begin(&reasons, why, sizeof(why), "no sentinel reported a usable master",
                      set->count);
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        useless_why(one, one_why);
        if (!is_claim(one)) {
            log_useless(one, &one->logged, one_why);
        }
        status = lw__session_combine_status(
            status, one->pending || one->useful ? LW_ECONN : one->status);
        (void)snprintf(endpoint, sizeof(endpoint), "%s:%u", one->endpoint.host,
                       (unsigned)one->endpoint.port);
        lw__reasons_add(&reasons, endpoint, one_why);
    }
    while ((session = first_resolving(set)) != NULL) {
        lw__session_unresolved(session, status, why);
    }
}

/* ---- which process it is ---- */

static int64_t info_us(const struct sentinel *sentinel)
{
    return sentinel->answer_us - sentinel->answer.info_ms * LW__MS;
}

/* Returns true if the sentinel knows the run id of the present master. One that has not
 * heard of the last switch may report the id of an earlier time. */
static bool has_master_id(const struct sentinel *sentinel)
{
    const struct lw__master *master = &sentinel->set->master;

    return sentinel->useful && *sentinel->answer.run_id != '\0' &&
           lw__master_is_at(master, &sentinel->answer.endpoint) &&
           !lw__master_is_later(&master->answer, &sentinel->answer);
}

/* Returns the sentinel whose INFO of the present master is the latest, a listed one if
 * any knows the run id; or NULL. */
static const struct sentinel *latest_with_id(const struct lw__sentinels *set)
{
    const struct sentinel *best = NULL;

    for (const struct sentinel *one = set->all; one != NULL; one = one->next) {
        if (has_master_id(one) &&
            (best == NULL || best->discovered > one->discovered ||
             (best->discovered == one->discovered && info_us(one) > info_us(best)))) {
            best = one;
        }
    }
    return best;
}

/* Returns the one at this endpoint, or else the place whose knowledge is the oldest. */
static struct known *find_known(struct lw__sentinels *set,
                                const struct lw__endpoint *endpoint)
{
    struct known *oldest = set->known;

    for (size_t i = 0; i < KNOWN_MAX; i++) {
        struct known *known = &set->known[i];

        if (lw__endpoint_equal(&known->endpoint, endpoint)) {
            return known;
        }
        if (known->known_us < oldest->known_us) {
            oldest = known;
        }
    }
    return oldest;
}

static void note_known(struct lw__sentinels *set, const struct lw__endpoint *endpoint,
                       const char *run_id, int64_t known_us)
{
    struct known *known = find_known(set, endpoint);

    if (*run_id != '\0' && known_us > known->known_us) {
        known->endpoint = *endpoint;
        known->known_us = known_us;
        memcpy(known->run_id, run_id, sizeof(known->run_id));
    }
}

/* Finds the id of the process that is the master, and ends connections to another one. */
static void identify_master(struct lw__sentinels *set)
{
    const struct sentinel *by = latest_with_id(set);
    const struct lw__endpoint *endpoint = &set->master.answer.endpoint;
    const struct known *known = find_known(set, endpoint);
    struct lw__master_id *id = &set->master_id;

    *id = (struct lw__master_id){.known_us = INT64_MAX};
    if (by != NULL) {
        memcpy(id->run_id, by->answer.run_id, sizeof(id->run_id));
    } else if (lw__master_is_known(&set->master) &&
               lw__endpoint_equal(&known->endpoint, endpoint)) {
        memcpy(id->run_id, known->run_id, sizeof(id->run_id));
        id->known_us = known->known_us;
    }
    for (struct lw__session *session = set->sessions; session != NULL;
         session = session->next_resolved) {
        if (lw__master_is_at(&set->master, &session->endpoint)) { /* else retargeted */
            lw__session_check_master(session);
        }
    }
}

/* ---- the present master ---- */

/* An answer that is not later than the present master, but names another one, comes from
 * a sentinel that lags or was cut off, has another name of the same server, or comes from
 * sentinels that were set up again and count from 0. Most of the listed sentinels must
 * have answered; if all sessions are connected, most of all known ones, several times in
 * a row. */
static bool should_follow(struct lw__sentinels *set,
                          const struct lw__sentinel_answer *answer, bool connected)
{
    struct lw__master *master = &set->master;

    if (!lw__master_is_known(master) || lw__master_is_later(answer, &master->answer)) {
        return true;
    }
    if (!most_answered(set, false)) {
        return false;
    }
    master->stale_rounds =
        lw__master_is_at(master, &answer->endpoint) ? 0 : master->stale_rounds + 1;
    return master->stale_rounds == 0 || !connected ||
           (master->stale_rounds >= STALE_ROUNDS && most_answered(set, true));
}

static void follow(struct lw__sentinels *set, const struct lw__sentinel_answer *answer,
                   int64_t announced_epoch, int64_t now_us)
{
    char why[LW_WHY_SIZE];
    bool moved;

    moved = lw__master_take(&set->master, answer, announced_epoch, now_us,
                            set->servers.address_map, why);
    identify_master(set);
    if (!moved) {
        return;
    }
    ++*set->failovers;
    lw__log(set->config.log, LOG_NOTICE, "%s", why);
    for (struct lw__session *session = set->sessions; session != NULL;
         session = session->next_resolved) {
        lw__session_retarget(session, why);
    }
}

/* ---- loopback addresses ---- */

/* Returns true if the endpoint leads to this host, which is not the sentinel's. */
static bool is_of_other_host(const struct sentinel *sentinel,
                             const struct lw__endpoint *master)
{
    const struct lw__session *session = &sentinel->session;
    struct lw__endpoint target = *master;

    return lw__address_is_loopback(master->host) &&
           session->address < session->addresses.count &&
           !lw__address_map_apply(sentinel->set->servers.address_map, &target) &&
           !lw__address_is_here(session->addresses.list[session->address].text);
}

/* Makes an answer unusable that names a loopback address of another host. */
static bool refuse_loopback(struct sentinel *sentinel)
{
    const struct lw__endpoint *master = &sentinel->answer.endpoint;

    if (!is_of_other_host(sentinel, master)) {
        return false;
    }
    sentinel->status = LW_EREDIS;
    (void)snprintf(sentinel->why, sizeof(sentinel->why),
                   "names %.60s:%u as master, a loopback address of the sentinel's host, "
                   "which means another server here: have it monitor an address that "
                   "clients reach, or replace it by address_map or --map",
                   master->host, (unsigned)master->port);
    return true;
}

/* ---- questions to one sentinel ---- */

static void on_answer(struct sentinel *sentinel, bool useful);
static void on_peers(struct sentinel *by, const struct lw__reply *reply);
static void ask_now(struct sentinel *sentinel);

static void master_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct sentinel *sentinel =
        LW__CONTAINER_OF(struct sentinel, master_request, request);
    const char *error = lw__reply_text(reply, NULL);
    bool useful;

    if (sentinel->stale) {
        ask_now(sentinel);
        return;
    }
    sentinel->answer_us = lw__now_us();
    sentinel->status = lw__reply_type(reply) == LW__REPLY_ERROR &&
                               lw__classify_topology(error)
                           ? LW_EREDIS
                           : LW_ECONN;
    useful = lw__sentinel_parse_master(reply, &sentinel->answer, sentinel->why);
    sentinel->answer.by = sentinel->endpoint;
    on_answer(sentinel, useful && !refuse_loopback(sentinel));
}

static void peers_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct sentinel *sentinel = LW__CONTAINER_OF(struct sentinel, peers_request, request);

    if (lw__classify_denied(lw__reply_text(reply, NULL))) {
        lw__session_note_missing(&sentinel->session, reply, LW_DEGRADED_SENTINEL,
                                 LOG_WARNING, "SENTINEL SENTINELS",
                                 "sentinels that the URL does not list are not used");
    }
    on_peers(sentinel, reply);
}

static void replicas_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct sentinel *sentinel =
        LW__CONTAINER_OF(struct sentinel, replicas_request, request);
    struct lw__sentinel_peer replica;

    lw__session_note_missing(&sentinel->session, reply, LW_DEGRADED_SENTINEL, LOG_WARNING,
                             "SENTINEL REPLICAS",
                             "a new master is used before sentinels have its run id");
    for (size_t at = 0; lw__sentinel_parse_peer(reply, &at, &replica);) {
        note_known(sentinel->set, &replica.endpoint, replica.id,
                   lw__now_us() - replica.info_ms * LW__MS);
    }
}

static void send_question(struct sentinel *sentinel, struct lw__request *request,
                          const struct lw__request_type *type, const char *what)
{
    if (request->prev == NULL) {
        lw__session_request(
            &sentinel->session, request, type, 3,
            (const char *[]){"SENTINEL", what, sentinel->set->options.service});
    }
}

static void ask_now(struct sentinel *sentinel)
{
    static const struct lw__request_type type = {master_replied, NULL};

    sentinel->stale = sentinel->stale && sentinel->master_request.prev != NULL;
    if (sentinel->pending) {
        send_question(sentinel, &sentinel->master_request, &type, "MASTER");
    }
}

static void ask_for_peers(struct sentinel *sentinel)
{
    static const struct lw__request_type type = {peers_replied, NULL};
    static const struct lw__request_type replicas = {replicas_replied, NULL};

    if (sentinel->session.state == LW__SESSION_READY) {
        send_question(sentinel, &sentinel->replicas_request, &replicas, "REPLICAS");
        send_question(sentinel, &sentinel->peers_request, &type, "SENTINELS");
    }
}

static void ready(void *arg)
{
    struct sentinel *sentinel = arg;

    sentinel->query_skips.length = 0;
    ask_now(sentinel);
}

static void lost(void *arg, const char *why)
{
    struct sentinel *sentinel = arg;

    if (sentinel->session.end == LW__END_OTHER_SENTINEL) {
        log_useless(sentinel, &sentinel->logged, why);
        skip_more(&sentinel->query_skips, QUERY_SKIPS_MAX);
        lw__session_stop(&sentinel->session);
    }
    if (sentinel->pending) {
        (void)snprintf(sentinel->why, sizeof(sentinel->why), "%s", why);
        sentinel->status = sentinel->session.failure.status;
        on_answer(sentinel, false);
    }
}

/* Connects if needed, without a further delay. on_answer() follows. */
static void ask(struct sentinel *sentinel)
{
    if (skip(&sentinel->query_skips)) {
        return;
    }
    sentinel->pending = true;
    if (sentinel->session.state == LW__SESSION_READY) {
        ask_now(sentinel);
    } else if (!lw__session_is_connecting(&sentinel->session)) {
        lw__session_stop(&sentinel->session);
        lw__session_start(&sentinel->session);
    }
}

/* A reply that is on its way does not answer the questions that follow. */
static void ignore_reply(struct sentinel *sentinel)
{
    sentinel->stale = sentinel->master_request.prev != NULL;
}

/* Returns true if the sentinel is there, by the name given or the address found. If a
 * name has several addresses it is the one that was tried last. */
static bool is_at(const struct sentinel *sentinel, const struct lw__endpoint *endpoint)
{
    const struct lw__session *session = &sentinel->session;

    return lw__endpoint_equal(&sentinel->endpoint, endpoint) ||
           (session->address < session->addresses.count &&
            sentinel->endpoint.port == endpoint->port &&
            strcasecmp(session->addresses.list[session->address].text, endpoint->host) ==
                0);
}

/* ---- a round ---- */

static void ask_all(struct lw__sentinels *set)
{
    if (set->asking) {
        return;
    }
    set->asking = true;
    set->answered = set->again = false;
    set->limit_us = /* the other half is for the connection */
        lw__now_us() + (int64_t)set->config.connect_timeout_ms * LW__MS / 2;
    lw__timer_set(loop_of(set), &set->round, set->limit_us);
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        ask(one);
    }
}

static void set_heartbeat(struct lw__sentinels *set, int64_t pause_us)
{
    int64_t due_us = lw__now_us() + pause_us;

    if (due_us < lw__timer_due_us(loop_of(set), &set->heartbeat)) {
        lw__timer_set(loop_of(set), &set->heartbeat, due_us);
    }
}

static void take_answer(struct lw__sentinels *set, struct sentinel *best)
{
    const struct lw__sentinel_answer answer = counted_answer(best);
    bool connected = first_resolving(set) == NULL;

    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        one->logged = one->logged && (!one->useful || one->answer.down);
    }
    if (should_follow(set, &answer, connected)) {
        /* an epoch that only a discovered sentinel reports is no sign of a failover */
        follow(set, &answer, best->discovered || answer.moving ? -1 : answer.epoch,
               best->answer_us);
    } else if (!connected && !lw__master_is_at(&set->master, &answer.endpoint)) {
        lw__master_log_rejected(&set->master, set->config.log, &answer.endpoint);
    }
    resolve_all(set);
}

/* Chooses the master from the last answers of all sentinels, and resolves the sessions
 * that wait. */
static void choose_master(struct lw__sentinels *set)
{
    struct sentinel *best = find_best(set);

    if (best == NULL || best->answer.down) {
        resolve_none(set);
    } else {
        take_answer(set, best);
        for (struct sentinel *one = set->all; one != NULL; one = one->next) {
            note_answer(one); /* resolve_none logs them all */
        }
    }
    log_claims(set);
}

static void end_round(struct lw__sentinels *set)
{
    set->asking = false;
    lw__timer_cancel(loop_of(set), &set->round);
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        if (!one->discovered) {
            ask_for_peers(one);
        }
    }
    choose_master(set);
    if (any_useful(set) && !all_ready(set)) {
        set_heartbeat(set, RESTLESS_US);
    }
    if (set->again) {
        ask_all(set);
    }
}

static void on_round_timeout(void *arg)
{
    struct lw__sentinels *set = arg;

    if (set->asking && !lw__timer_is_set(&set->round)) { /* else another one has begun */
        end_round(set);
    }
}

static void round_due(void *arg)
{
    struct lw__sentinels *set = arg;

    lw__late_check_start(loop_of(set), &set->round_end);
}

/* An answer to a round that has ended. */
static void on_late_answer(struct lw__sentinels *set, struct sentinel *sentinel)
{
    const struct lw__sentinel_answer *answer = &sentinel->answer;

    if (lw__master_is_known(&set->master)) {
        note_answer(sentinel);
    }
    if (sentinel->useful && !sentinel->discovered && lw__master_is_known(&set->master) &&
        lw__master_is_later(answer, &set->master.answer) && !answer->down &&
        !lw__master_is_at(&set->master, &answer->endpoint)) {
        ask_all(set);
    }
}

/* Returns true if there is an answer to be chosen unless a better one comes. */
static bool has_answer(const struct lw__sentinels *set)
{
    const struct sentinel *best = find_best(set);

    return best != NULL && !best->answer.down &&
           !lw__master_is_later(&set->master.answer, &best->answer);
}

/* Subscribes to the sentinel if it is not subscribed to. */
static void listen_to(struct sentinel *sentinel)
{
    struct lw__listener *listener = &sentinel->listener;

    if (listener->session.state != LW__SESSION_STOPPED ||
        skip(&sentinel->subscribe_skips)) {
        return;
    }
    if (lw__listener_add(listener, 0, CHANNEL, "") != NULL) { /* else another time */
        lw__listener_start(listener);
    }
}

static void on_answer(struct sentinel *sentinel, bool useful)
{
    struct lw__sentinels *set = sentinel->set;
    int64_t end_us = lw__now_us() + LATER_US;

    sentinel->pending = false;
    sentinel->useful = useful;
    if (useful && !sentinel->discovered) {
        note_known(set, &sentinel->answer.endpoint, sentinel->answer.run_id,
                   info_us(sentinel));
    }
    if (useful) {
        listen_to(sentinel);
    } else if (sentinel->discovered) {
        lw__listener_stop(&sentinel->listener);
    }
    if (!set->asking) {
        on_late_answer(set, sentinel);
    } else if (!any_pending(set)) {
        end_round(set);
    } else if (!set->answered && has_answer(set)) {
        set->answered = true;
        lw__timer_set(loop_of(set), &set->round,
                      end_us < set->limit_us ? end_us : set->limit_us);
    }
    identify_master(set);
}

static void heartbeat(void *arg)
{
    struct lw__sentinels *set = arg;

    set_heartbeat(set, (int64_t)set->config.request_timeout_ms * LW__MS);
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        lw__listener_heartbeat(&one->listener);
    }
    ask_all(set);
}

static void join_resolved(struct lw__sentinels *set, struct lw__session *session)
{
    if (session->prev_resolved != NULL) {
        return;
    }
    session->next_resolved = set->sessions;
    session->prev_resolved = &set->sessions;
    if (session->next_resolved != NULL) {
        session->next_resolved->prev_resolved = &session->next_resolved;
    }
    set->sessions = session;
}

static void resolve(void *arg, struct lw__session *session)
{
    struct lw__sentinels *set = arg;

    join_resolved(set, session);
    set_heartbeat(set, (int64_t)set->config.request_timeout_ms * LW__MS);
    ask_all(set);
}

/* ---- reports of switches ---- */

/* Starts a round from scratch: replies on their way may be older than the report. */
static void restart(struct lw__sentinels *set)
{
    set->asking = false;
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        ignore_reply(one);
    }
    ask_all(set);
}

/* Earlier switches may have been missed. A sentinel whose subscription keeps breaking
 * must not keep a round from its end. */
static void ask_again(struct lw__sentinels *set)
{
    if (set->asking) {
        set->again = true;
    } else {
        restart(set);
    }
}

static void subscribed(void *arg, struct lw__channel *channel)
{
    struct sentinel *sentinel = arg;

    (void)channel;
    sentinel->subscribe_skips.length = 0;
    if (!sentinel->discovered) { /* one that is could not name another master */
        ask_again(sentinel->set);
    }
}

/* A switch away from the present master leads to the next one, whose epoch is not
 * reported, but is higher. Any other switch is old news, or one behind a switch that was
 * missed. The listed sentinels may hear of the switch a second after a discovered one. */
static void switched(void *arg, const struct lw__channel *channel, const char *text,
                     size_t length)
{
    struct sentinel *sentinel = arg;
    struct lw__sentinels *set = sentinel->set;
    struct lw__endpoint from;
    struct lw__sentinel_answer next = {.epoch = set->master.answer.epoch + 1,
                                       .by = sentinel->endpoint};

    (void)channel;
    if (!lw__sentinel_parse_switch(text, length, set->options.service, &from,
                                   &next.endpoint)) {
        return;
    }
    if (!sentinel->discovered && lw__master_is_at(&set->master, &from) &&
        !lw__master_is_at(&set->master, &next.endpoint) &&
        !is_of_other_host(sentinel, &next.endpoint)) {
        follow(set, &next, -1, lw__now_us());
        restart(set);
        return;
    }
    ask_again(set);
    if (sentinel->discovered) {
        set_heartbeat(set, RESTLESS_US);
    }
}

static void unsubscribed(void *arg, bool was_confirmed, const char *why)
{
    struct sentinel *sentinel = arg;

    (void)was_confirmed;
    (void)why;
    if (sentinel->listener.forbidden) {
        skip_more(&sentinel->subscribe_skips, SUBSCRIBE_SKIPS_MAX);
    }
}

/* ---- which sentinels there are ---- */

/* Returns NULL without memory. `id` is NULL for a configured sentinel. */
static struct sentinel *new_sentinel(struct lw__sentinels *set,
                                     const struct lw__endpoint *endpoint, const char *id)
{
    static const struct lw__session_events events = {ready, lost, NULL, NULL, NULL};
    static const struct lw__listener_events listener_events = {
        .confirmed = subscribed, .message = switched, .lost = unsubscribed};
    struct sentinel *one = calloc(1, sizeof(*one));

    if (one == NULL || lw__timer_reserve(loop_of(set), 2) != 0) {
        free(one);
        return NULL;
    }
    one->set = set;
    one->endpoint = *endpoint;
    one->config = set->config;
    one->config.host = one->endpoint.host;
    one->config.port = one->endpoint.port;
    one->config.of_sentinel = true;
    one->config.address_map = id != NULL ? set->servers.address_map : NULL;
    one->discovered = id != NULL;
    if (id != NULL) {
        (void)snprintf(one->id, sizeof(one->id), "%s", id);
        one->config.sentinel_id = one->id;
    }
    lw__session_init(&one->session, &one->config, &events, one);
    lw__listener_init(&one->listener,
                      &(struct lw__listener_options){
                          .config = &one->config,
                          .consequence = "polling this sentinel for failovers instead"},
                      &listener_events, one);
    return one;
}

static void free_sentinel(struct sentinel *one)
{
    lw__session_stop(&one->session);
    lw__listener_clear(&one->listener);
    lw__timer_unreserve(loop_of(one->set), 2);
    free(one);
}

/* Returns 0, or -1 without memory. */
static int add(struct lw__sentinels *set, const struct lw__endpoint *endpoint,
               const char *id)
{
    struct sentinel **at = &set->all, *one = new_sentinel(set, endpoint, id);

    if (one == NULL) {
        return -1;
    }
    one->number = (unsigned)set->count; /* the configured ones come first */
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = one;
    set->count++;
    if (one->discovered) {
        ask(one);
    }
    return 0;
}

static void drop(struct lw__sentinels *set, struct sentinel **at)
{
    struct sentinel *one = *at;

    *at = one->next;
    set->count--;
    free_sentinel(one);
}

/* Makes room: a discovered one that is not connected is likely to be gone for good. */
static void drop_one(struct lw__sentinels *set)
{
    struct sentinel **at = &set->all;

    while (*at != NULL &&
           (!(*at)->discovered || (*at)->session.state == LW__SESSION_READY)) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        drop(set, at);
    }
}

/* Returns true if a connection to the endpoint would lead to a configured sentinel. */
static bool is_configured(const struct lw__sentinels *set,
                          const struct lw__endpoint *endpoint)
{
    const struct sentinel *one = set->all;
    struct lw__endpoint target = *endpoint;

    (void)lw__address_map_apply(set->servers.address_map, &target);
    while (one != NULL && (one->discovered || !is_at(one, &target))) {
        one = one->next;
    }
    return one != NULL;
}

/* Returns the link to the discovered sentinel with this id, or to the NULL at the end. */
static struct sentinel **find_discovered(struct lw__sentinels *set, const char *id)
{
    struct sentinel **at = &set->all;

    while (*at != NULL && (!(*at)->discovered || strcmp((*at)->id, id) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void discover(struct lw__sentinels *set, const struct sentinel *by,
                     const struct lw__sentinel_peer *peer)
{
    struct sentinel **at = find_discovered(set, peer->id);

    if (*at != NULL && !peer->down &&
        !lw__endpoint_equal(&(*at)->endpoint, &peer->endpoint)) {
        drop(set, at); /* it has moved */
        at = find_discovered(set, peer->id);
    }
    if (*at == NULL && !peer->down && !is_configured(set, &peer->endpoint)) {
        if (set->count == SENTINELS_MAX) {
            drop_one(set);
        }
        if (set->count < SENTINELS_MAX) {
            (void)add(set, &peer->endpoint, peer->id); /* or another time, with memory */
        }
        at = find_discovered(set, peer->id);
    }
    if (*at != NULL) {
        (*at)->named_by |= 1U << by->number;
    }
}

/* Returns the bits of the configured sentinels that answer. What the others named before
 * is out of date. */
static unsigned all_that_answer(const struct lw__sentinels *set)
{
    unsigned answer = 0;

    for (const struct sentinel *one = set->all; one != NULL; one = one->next) {
        if (!one->discovered && one->useful) {
            answer |= 1U << one->number;
        }
    }
    return answer;
}

static void on_peers(struct sentinel *by, const struct lw__reply *reply)
{
    struct lw__sentinels *set = by->set;
    struct lw__sentinel_peer peer;

    if (lw__reply_type(reply) != LW__REPLY_ARRAY) {
        return; /* the command is forbidden, or the service unknown */
    }
    for (struct sentinel *one = set->all; one != NULL; one = one->next) {
        one->named_by &= all_that_answer(set) & ~(1U << by->number);
    }
    for (size_t at = 0; lw__sentinel_parse_peer(reply, &at, &peer);) {
        discover(set, by, &peer);
    }
    for (struct sentinel **at = &set->all; *at != NULL;) {
        if ((*at)->discovered && (*at)->named_by == 0) {
            drop(set, at);
        } else {
            at = &(*at)->next;
        }
    }
    if (set->asking && !any_pending(set)) {
        end_round(set);
    }
}

/* ---- their life ---- */

static int add_configured(struct lw__sentinels *set)
{
    for (size_t i = 0; i < set->options.host_count; i++) {
        const struct lw__url_host *host = &set->options.hosts[i];
        struct lw__endpoint endpoint = {.port = host->port};

        (void)snprintf(endpoint.host, sizeof(endpoint.host), "%s", host->name);
        if (add(set, &endpoint, NULL) != 0) {
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

    if (set == NULL || lw__timer_reserve(config->loop, 2) != 0) {
        free(set);
        return LW_ENOMEM;
    }
    set->options = *options;
    set->failovers = failovers;
    set->config = set->servers = *config;
    set->config.username = options->username;
    set->config.password = options->password;
    set->config.password_file = options->password_file;
    set->config.login = NULL; /* it is for the servers */
    set->config.db = set->servers.db = 0;
    set->config.resolve = set->servers.resolve = NULL;
    set->config.master_id = set->servers.master_id = NULL;
    set->config.announced_by = set->servers.announced_by = NULL;
    lw__timer_init(&set->heartbeat, heartbeat, set);
    lw__timer_init(&set->round, round_due, set);
    lw__late_check_init(&set->round_end, on_round_timeout, set);
    if (add_configured(set) != 0) {
        lw__sentinel_free(set);
        return LW_ENOMEM;
    }
    *ret = set;
    return 0;
}

void lw__sentinel_configure(struct lw__sentinels *sentinels,
                            struct lw__session_config *config)
{
    config->resolve = resolve;
    config->resolve_arg = sentinels;
    config->announced_by = &sentinels->master.answer.by;
    config->master_id = &sentinels->master_id;
}

unsigned lw__sentinel_degraded(const struct lw__sentinels *sentinels)
{
    unsigned degraded = 0;

    for (const struct sentinel *one = sentinels->all; one != NULL; one = one->next) {
        degraded |= one->session.degraded | one->listener.session.degraded;
    }
    return degraded;
}

int lw__sentinel_master(const struct lw__sentinels *sentinels, struct lw_master *ret)
{
    if (!lw__master_is_known(&sentinels->master)) {
        return LW_ECONN;
    }
    (void)snprintf(ret->service, sizeof(ret->service), "%s", sentinels->options.service);
    lw__master_tell(&sentinels->master, ret);
    return 0;
}

void lw__sentinel_free(struct lw__sentinels *sentinels)
{
    if (sentinels == NULL) {
        return;
    }
    while (sentinels->all != NULL) {
        drop(sentinels, &sentinels->all);
    }
    lw__timer_cancel(loop_of(sentinels), &sentinels->heartbeat);
    lw__timer_cancel(loop_of(sentinels), &sentinels->round);
    lw__late_check_cancel(loop_of(sentinels), &sentinels->round_end);
    lw__timer_unreserve(loop_of(sentinels), 2);
    free(sentinels);
}
