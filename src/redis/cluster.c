/* SPDX-License-Identifier: MIT */
/* A cluster: see cluster.h. Must not know how the map is asked for (survey.c).
 *
 * Happy path: the seeds are asked, take_map(), `link`, `led`; lw__cluster_at makes a node
 * for the master of a slot when somebody is led there first. A node that answers MOVED
 * knows better than the map, so that is corrected, asked for anew, and the command goes
 * where it belongs; after ASK it goes there this once. The map is asked for anew, too,
 * when a node is lost or has CLUSTERDOWN to say, at most once a second, of those who
 * answer.
 *
 * Failures: a slot that nobody has leads nowhere, and while somebody is led there, or
 * nobody tells the map, that is asked for again and again. A master that has no slot any
 * more is let go of: what was on its way there fails, and is sent elsewhere. */
#include "redis/cluster.h"

#include "base/log.h"
#include "base/random.h"
#include "base/told.h"
#include "lockwire.h"
#include "loop/defer.h"
#include "loop/now.h"
#include "loop/timer.h"
#include "redis/cluster_says.h"
#include "redis/command.h"
#include "redis/slot.h"
#include "redis/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define PAUSE_US (1000 * (int64_t)LW__MS) /* between two questions, at the least */
#define HOPS 5
#define NEEDED_US (10 * PAUSE_US)
#define NOBODY 0 /* among the masters, whose indices begin with 1 */

/* A node that has slots, or had some. */
struct master {
    struct lw__place place;
    struct lw__node *node; /* NULL: nobody was led there yet */
    bool listed;           /* by the map, or by a redirection since */
    int64_t needed_us;     /* until then, also without a slot: one is on its way there */
    int64_t doubted_us; /* until then what it knows is worth less than what others do */
};

struct lw__cluster {
    struct lw__route_options options;
    const struct lw__route_events *events;
    void *arg;
    struct lw__node *nowhere;
    struct master **masters; /* [0] is NOBODY's; NULL: free */
    size_t master_count;
    uint16_t owners[LW__SLOTS];
    bool corrected[LW__SLOTS]; /* since the map was last asked for, which may not know */

    struct lw__survey survey;
    struct lw__timer again;  /* when it is due */
    struct lw__deferred led; /* the map has changed */
    int64_t asked_us;
    uint32_t pause_ms;       /* after questions that were in vain */
    bool known, up;          /* the map; and that is told */
    bool hurried;            /* asked for while it is on its way: it may be older */
    bool nowhere_wanted;     /* somebody is led there */
    unsigned ordinals;       /* of nodes so far */
    struct lw__place better; /* who is to be asked first; no host: none is */
};

static struct lw__loop *loop_of(const struct lw__cluster *cluster)
{
    return cluster->options.node.access.loop;
}

/* ---- masters ---- */

/* NOBODY: not among them. */
static uint16_t find(const struct lw__cluster *cluster, const struct lw__place *place)
{
    for (size_t i = 1; i < cluster->master_count; i++) {
        const struct master *master = cluster->masters[i];

        if (master != NULL && lw__sentinel_same_place(&master->place, place)) {
            return (uint16_t)i;
        }
    }
    return NOBODY;
}

/* An index that is free; NOBODY: no memory. */
static uint16_t make_room(struct lw__cluster *cluster)
{
    struct master **grown;

    for (size_t i = 1; i < cluster->master_count; i++) {
        if (cluster->masters[i] == NULL) {
            return (uint16_t)i;
        }
    }
    if (cluster->master_count == LW__SLOTS) {
        return NOBODY; /* more than slots would be had by nobody */
    }
    grown = realloc(cluster->masters,
                    (cluster->master_count + 1) * sizeof(*cluster->masters));
    if (grown == NULL) {
        return NOBODY;
    }
    cluster->masters = grown;
    cluster->masters[cluster->master_count] = NULL;
    return (uint16_t)cluster->master_count++;
}

/* The one there, new or known. NOBODY: no memory. */
static uint16_t get(struct lw__cluster *cluster, const struct lw__place *place)
{
    uint16_t index = find(cluster, place);

    if (index == NOBODY && (index = make_room(cluster)) != NOBODY) {
        cluster->masters[index] = calloc(1, sizeof(struct master));
        if (cluster->masters[index] == NULL) {
            return NOBODY;
        }
        cluster->masters[index]->place = *place;
    }
    if (index != NOBODY) {
        cluster->masters[index]->listed = true;
    }
    return index;
}

static const struct lw__node_events node_events;

/* NULL: no memory. */
static struct lw__node *node_of(struct lw__cluster *cluster, uint16_t index,
                                unsigned slot)
{
    struct master *master = cluster->masters[index];
    struct lw__node_options options = cluster->options.node;

    if (master->node != NULL) {
        return master->node;
    }
    options.access.host = master->place.host;
    options.access.port = master->place.port;
    options.slot = slot;
    options.ordinal = ++cluster->ordinals;
    if (lw__node_new(&options, &node_events, cluster, &master->node) != 0) {
        return NULL;
    }
    lw__node_start(master->node);
    return master->node;
}

static void drop(struct lw__cluster *cluster, size_t index)
{
    struct master *master = cluster->masters[index];

    cluster->masters[index] = NULL;
    lw__node_free(master->node);
    free(master);
}

/* ---- asking for the map ---- */

static void ask_by(struct lw__cluster *cluster, int64_t due_us)
{
    if (cluster->survey.open) {
        cluster->hurried = true;
    } else if (due_us < lw__timer_due_us(loop_of(cluster), &cluster->again)) {
        lw__timer_set(loop_of(cluster), &cluster->again, due_us);
    }
}

/* At once, or as soon as it is due again. */
static void ask_soon(struct lw__cluster *cluster, int64_t pause_us)
{
    int64_t due_us = cluster->asked_us + pause_us, now_us = lw__now_us();

    ask_by(cluster, due_us < now_us ? now_us : due_us);
}

static void put_place(struct lw__place *places, size_t *count,
                      const struct lw__place *place)
{
    for (size_t i = 0; i < *count; i++) {
        if (lw__sentinel_same_place(&places[i], place)) {
            return;
        }
    }
    places[(*count)++] = *place;
}

static bool is_trusted(const struct master *master)
{
    return master->node != NULL && lw__node_is_up(master->node) &&
           lw__now_us() >= master->doubted_us;
}

static bool is_doubted(const struct lw__cluster *cluster, const struct lw__place *place)
{
    uint16_t index = find(cluster, place);

    return index != NOBODY && lw__now_us() < cluster->masters[index]->doubted_us;
}

static void put_masters(const struct lw__cluster *cluster, struct lw__place *places,
                        size_t *count, bool trusted)
{
    for (size_t i = 1; i < cluster->master_count; i++) {
        const struct master *master = cluster->masters[i];

        if (master != NULL && is_trusted(master) == trusted) {
            put_place(places, count, &master->place);
        }
    }
}

/* First who is known to know, then who is known to answer, then all others. A node that
 * lost the others says CLUSTERDOWN of its slots and tells the map of that time all the
 * same: so it is among those. */
static void ask(void *arg)
{
    struct lw__cluster *cluster = arg;
    const struct lw__route_options *options = &cluster->options;
    size_t most = 1 + cluster->master_count + options->seed_count, count = 0;
    struct lw__place *places = calloc(most, sizeof(*places));

    cluster->asked_us = lw__now_us();
    cluster->hurried = false;
    memset(cluster->corrected, 0, sizeof(cluster->corrected));
    if (places == NULL) {
        lw__timer_set(loop_of(cluster), &cluster->again, cluster->asked_us + PAUSE_US);
        return;
    }
    if (cluster->better.host[0] != '\0') {
        put_place(places, &count, &cluster->better);
        cluster->better.host[0] = '\0';
    }
    put_masters(cluster, places, &count, true);
    for (size_t i = 0; i < options->seed_count; i++) {
        struct lw__place seed = {.port = options->seeds[i].port};

        (void)snprintf(seed.host, sizeof(seed.host), "%s", options->seeds[i].name);
        if (!is_doubted(cluster, &seed)) {
            put_place(places, &count, &seed);
        }
    }
    put_masters(cluster, places, &count, false);
    options->node.stats->refreshes++;
    lw__survey_begin(&cluster->survey, places, count);
}

static bool is_any_up(const struct lw__cluster *cluster)
{
    for (size_t i = 1; i < cluster->master_count; i++) {
        const struct master *master = cluster->masters[i];

        if (master != NULL && master->node != NULL && lw__node_is_up(master->node)) {
            return true;
        }
    }
    return false;
}

static void in_vain(void *arg, const char *why)
{
    struct lw__cluster *cluster = arg;
    const struct lw__access *access = &cluster->options.node.access;
    uint32_t most = cluster->pause_ms;
    int64_t pause_us = lw__random_between(access->random, most / 2, most) * LW__MS;

    cluster->pause_ms = most * 2 < access->backoff_max_ms ? most * 2
                                                          : access->backoff_max_ms;
    ask_soon(cluster, cluster->known && pause_us < PAUSE_US ? PAUSE_US : pause_us);
    if (cluster->known) {
        lw__log(access->log, LOG_NOTICE, "%s", why);
        if (cluster->up && !is_any_up(cluster)) {
            cluster->up = false;
            cluster->events->link(cluster->arg, false, why);
        }
        return;
    }
    lw__node_say_why(cluster->nowhere, why);
    cluster->events->link(cluster->arg, false, why);
    cluster->events->node.down(cluster->arg, cluster->nowhere);
}

/* ---- the map ---- */

static void settle(struct lw__cluster *cluster)
{
    lw__defer(loop_of(cluster), &cluster->led, false);
}

static void let_go(struct lw__cluster *cluster)
{
    int64_t now_us = lw__now_us();

    for (size_t i = 1; i < cluster->master_count; i++) {
        struct master *master = cluster->masters[i];

        if (master == NULL || master->listed || now_us < master->needed_us) {
            continue;
        }
        if (master->node == NULL || lw__node_is_idle(master->node)) {
            drop(cluster, i);
        } else {
            lw__node_distrust(master->node, "it has no slot of the cluster any more");
        }
    }
}

/* One that is in use, and may be replaced soon; not one that comes up for the first time.
 */
static bool misses_one(const struct lw__cluster *cluster)
{
    for (size_t i = 1; i < cluster->master_count; i++) {
        const struct master *master = cluster->masters[i];

        if (master != NULL && master->node != NULL && !lw__node_is_up(master->node) &&
            *lw__node_why(master->node) != '\0') {
            return true;
        }
    }
    return false;
}

static void led(void *arg)
{
    struct lw__cluster *cluster = arg;

    cluster->nowhere_wanted = false;
    cluster->events->led(cluster->arg);
    let_go(cluster);
    if (cluster->nowhere_wanted) {
        cluster->events->node.down(cluster->arg, cluster->nowhere);
    }
    if (cluster->nowhere_wanted || cluster->hurried || misses_one(cluster)) {
        ask_soon(cluster, PAUSE_US);
    }
}

/* Whoever said it is a host where it names none. */
static void complete(struct lw__place *place, const char *host)
{
    if (place->host[0] == '\0') {
        (void)snprintf(place->host, sizeof(place->host), "%s", host);
    }
}

/* But for what was learnt since it was asked for. */
static void forget_map(struct lw__cluster *cluster)
{
    for (size_t i = 1; i < cluster->master_count; i++) {
        if (cluster->masters[i] != NULL) {
            cluster->masters[i]->listed = false;
        }
    }
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        if (!cluster->corrected[slot]) {
            cluster->owners[slot] = NOBODY;
        } else if (cluster->owners[slot] != NOBODY) {
            cluster->masters[cluster->owners[slot]]->listed = true;
        }
    }
}

/* false: no memory for all of it. */
static bool note_map(struct lw__cluster *cluster, const struct lw__place *by,
                     const struct lw__reply *reply)
{
    struct lw__range range;
    bool good = true;

    for (size_t at = 0; lw__cluster_says_range(reply, &at, &range);) {
        uint16_t index = NOBODY;

        complete(&range.master, by->host);
        if (range.master.port != 0) {
            index = get(cluster, &range.master);
            good = good && index != NOBODY;
        }
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            if (!cluster->corrected[slot]) {
                cluster->owners[slot] = index;
            }
        }
    }
    return good;
}

static bool take_map(void *arg, const struct lw__place *by, const struct lw__reply *reply,
                     char *why)
{
    struct lw__cluster *cluster = arg;

    if (!lw__cluster_says_map(reply, why)) {
        return false;
    }
    forget_map(cluster);
    lw__node_say_why(cluster->nowhere, note_map(cluster, by, reply)
                                           ? "no node of the cluster has its slot"
                                           : lw_strerror(LW_ENOMEM));
    cluster->pause_ms = cluster->options.node.access.backoff_min_ms;
    cluster->known = true;
    if (!cluster->up) {
        cluster->up = true;
        cluster->events->link(cluster->arg, true, "");
    }
    settle(cluster);
    return true;
}

struct lw__node *lw__cluster_at(struct lw__cluster *cluster, unsigned slot)
{
    struct lw__node *node = NULL;

    if (cluster->owners[slot] != NOBODY) {
        node = node_of(cluster, cluster->owners[slot], slot);
    }
    if (node == NULL) {
        cluster->nowhere_wanted = true;
        if (cluster->known) {
            ask_soon(cluster, PAUSE_US);
        }
        return cluster->nowhere;
    }
    return node;
}

/* ---- what nodes tell ---- */

static struct master *master_of(const struct lw__cluster *cluster,
                                const struct lw__node *node)
{
    size_t i = 1;

    while (cluster->masters[i] == NULL || cluster->masters[i]->node != node) {
        i++;
    }
    return cluster->masters[i];
}

static void up(void *arg, struct lw__node *node)
{
    const struct lw__cluster *cluster = arg;

    cluster->events->node.up(cluster->arg, node);
}

static void down(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;
    const struct master *master = master_of(cluster, node);

    lw__log(cluster->options.node.access.log, master->listed ? LOG_WARNING : LOG_NOTICE,
            "no connection to the cluster's node %s:%u: %s", master->place.host,
            (unsigned)master->place.port, lw__node_why(node));
    cluster->events->node.down(cluster->arg, node);
    settle(cluster); /* it may be one to let go of */
    ask_soon(cluster, PAUSE_US);
}

static void bound(void *arg, struct lw__node *node)
{
    const struct lw__cluster *cluster = arg;

    cluster->events->node.bound(cluster->arg, node);
}

static void message(void *arg, const char *text, size_t length)
{
    const struct lw__cluster *cluster = arg;

    cluster->events->node.message(cluster->arg, text, length);
}

static void refuse(struct lw__command *command, const struct lw__redirect *redirect,
                   const char *what)
{
    const struct lw__place *place = &redirect->place;
    char why[LW__WHY];

    (void)snprintf(why, sizeof(why), "slot %u is at %.60s:%u: %.60s", redirect->slot,
                   place->host, (unsigned)place->port, what);
    lw__node_refuse(command, why);
}

/* Where it leads, by a node that knows better than the map. */
static void correct(struct lw__cluster *cluster, const struct lw__redirect *redirect,
                    uint16_t index)
{
    cluster->options.node.stats->redirects++;
    cluster->owners[redirect->slot] = index;
    cluster->corrected[redirect->slot] = true;
    cluster->better = redirect->place;
    settle(cluster);
    ask_soon(cluster, PAUSE_US);
}

static void redirected(void *arg, struct lw__node *node, struct lw__command *command,
                       struct lw__redirect *redirect)
{
    struct lw__cluster *cluster = arg;
    struct lw__node *there = NULL;
    uint16_t index;

    complete(&redirect->place, lw__node_access(node)->host);
    if (redirect->place.port == 0) {
        refuse(command, redirect, "a place that is not told");
        return;
    }
    index = get(cluster, &redirect->place);
    if (index != NOBODY) {
        there = node_of(cluster, index, redirect->slot);
    }
    if (there == NULL) {
        refuse(command, redirect, lw_strerror(LW_ENOMEM));
        return;
    }
    cluster->masters[index]->needed_us = lw__now_us() + NEEDED_US;
    if (redirect->ask) {
        ask_by(cluster, lw__now_us() + NEEDED_US); /* is it needed still? */
    } else {
        correct(cluster, redirect, index);
    }
    if (command->request.hops == HOPS) {
        refuse(command, redirect, "sent from one node to the other without an end");
    } else if (lw__node_is_backing_off(there)) {
        refuse(command, redirect, lw__node_why(there)); /* there it would wait */
    } else {
        lw__node_take_over(there, command, redirect->ask);
    }
}

static void unsettled(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    master_of(cluster, node)->doubted_us = lw__now_us() + NEEDED_US;
    ask_soon(cluster, PAUSE_US);
}

static void dropped(void *arg, struct lw__node *node, unsigned slot)
{
    struct lw__cluster *cluster = arg;

    ask_soon(cluster, PAUSE_US);
    cluster->events->node.dropped(cluster->arg, node, slot);
}

static const struct lw__node_events node_events = {up,         down,      bound,  message,
                                                   redirected, unsettled, dropped};

/* ---- its life ---- */

static int make(const struct lw__route_options *options,
                const struct lw__route_events *events, void *arg,
                struct lw__cluster **ret)
{
    struct lw__cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL) {
        return LW_ENOMEM;
    }
    cluster->masters = calloc(1, sizeof(*cluster->masters)); /* NOBODY's */
    if (cluster->masters == NULL) {
        free(cluster);
        return LW_ENOMEM;
    }
    cluster->master_count = 1;
    cluster->options = *options;
    cluster->options.node.clustered = true;
    cluster->events = events;
    cluster->arg = arg;
    cluster->pause_ms = options->node.access.backoff_min_ms;
    *ret = cluster;
    return 0;
}

int lw__cluster_new(const struct lw__route_options *options,
                    const struct lw__route_events *events, void *arg,
                    struct lw__cluster **ret)
{
    static const struct lw__survey_events survey_events = {take_map, in_vain};
    struct lw__loop *loop = options->node.access.loop;
    struct lw__cluster *cluster;

    if (make(options, events, arg, &cluster) != 0) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(loop, 1) != 0) {
        goto fail;
    }
    if (lw__node_new(&cluster->options.node, &node_events, cluster, &cluster->nowhere) !=
        0) {
        goto fail_reserved;
    }
    if (lw__survey_init(&cluster->survey, &cluster->options.node.access, &survey_events,
                        cluster) != 0) {
        goto fail_node;
    }
    lw__timer_init(&cluster->again, ask, cluster);
    lw__defer_init(&cluster->led, led, cluster);
    lw__timer_set(loop, &cluster->again, lw__now_us());
    *ret = cluster;
    return 0;

fail_node:
    lw__node_free(cluster->nowhere);
fail_reserved:
    lw__timer_unreserve(loop, 1);
fail:
    free(cluster->masters);
    free(cluster);
    return LW_ENOMEM;
}

void lw__cluster_free(struct lw__cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    lw__survey_clear(&cluster->survey);
    for (size_t i = 1; i < cluster->master_count; i++) {
        if (cluster->masters[i] != NULL) {
            drop(cluster, i);
        }
    }
    lw__node_free(cluster->nowhere);
    lw__timer_cancel(loop_of(cluster), &cluster->again);
    lw__defer_cancel(loop_of(cluster), &cluster->led);
    lw__timer_unreserve(loop_of(cluster), 1);
    free(cluster->masters);
    free(cluster);
}

void lw__cluster_abandon(struct lw__cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    lw__survey_abandon(&cluster->survey);
    for (size_t i = 1; i < cluster->master_count; i++) {
        if (cluster->masters[i] != NULL) {
            lw__node_abandon(cluster->masters[i]->node);
            free(cluster->masters[i]);
        }
    }
    lw__node_abandon(cluster->nowhere);
    free(cluster->masters);
    free(cluster);
}
