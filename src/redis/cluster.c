/* SPDX-License-Identifier: MIT */
/* A cluster: see cluster.h. Must not know how the map is asked for (survey.c), nor how
 * long a node is kept (masters.c).
 *
 * Happy path: the seeds are asked, take_map(), `link`, `led`; lw__cluster_node makes a
 * node for the master of a slot when somebody is led there first. A node that answers
 * MOVED knows better than the map, so that is corrected, asked for anew, and the command
 * goes where it belongs; after ASK it goes there this once. The map is asked for anew,
 * too, when a node is lost or has CLUSTERDOWN to say, at most once a second, of those who
 * answer, and every few minutes anyway: a map that is compared with one of long ago may
 * share no node with it.
 *
 * Failures: a slot that nobody has leads nowhere, and while somebody is led there, or
 * nobody tells the map, that is asked for again and again, more rarely the longer nothing
 * changes. A master that has no slot any more is let go of: what was on its way there
 * fails, and is sent elsewhere. What is wrong with the cluster is logged when it begins.
 */
#include "redis/cluster.h"

#include "base/log.h"
#include "base/random.h"
#include "base/escape.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/command.h"
#include "redis/node_table.h"
#include "redis/slot.h"
#include "redis/survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define PAUSE_US (1000 * (int64_t)LW__MS) /* between two questions, at the least */
/* While the answers bring no change, a question comes when the trouble lasts longer by
 * this part, up to the longest pause. A replica takes over after a cluster-node-timeout
 * and a bit: it is found soon after, however long that is. */
#define PAUSE_PART 8
#define PAUSE_MOST_US (10 * PAUSE_US)
/* Longer than a pause and a survey: without a question for so long the trouble is over.
 */
#define QUIET_US (30 * PAUSE_US)
#define REFRESH_US (300 * PAUSE_US)
#define HOPS 5
#define CORRECTIONS 3
#define NEEDED_US (10 * PAUSE_US)

struct lw__cluster {
    struct lw__route_options options;
    const struct lw__route_events *events;
    void *arg;
    struct lw__node *nowhere;
    struct lw__node_table masters;
    uint16_t owners[LW__SLOTS];
    /* So often since the map was last asked for, which may not know of it. */
    uint8_t corrected[LW__SLOTS];

    struct lw__survey survey;
    struct lw__survey_held held;
    struct lw__timer again;  /* when it is due */
    struct lw__deferred led; /* the map has changed */
    int64_t asked_us;
    int64_t trouble_us;         /* since then questions brought no change; 0: they did */
    unsigned asked, told;       /* how often for it; the question that it answers */
    uint32_t pause_ms;          /* after questions that were in vain */
    bool known, up;             /* the map; and that is told */
    bool hurried;               /* asked for while it is on its way: it may be older */
    bool nowhere_wanted;        /* somebody is led there */
    struct lw__endpoint better; /* who is to be asked first; no host: none is */

    /* What was logged, and is still so. */
    const char *gap; /* why some slots lead nowhere, or NULL */
    bool down_logged;
};

static struct lw__loop *loop_of(const struct lw__cluster *cluster)
{
    return cluster->options.node.config.loop;
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

static int64_t pause_us(const struct lw__cluster *cluster)
{
    int64_t pause_us = (lw__now_us() - cluster->trouble_us) / PAUSE_PART;

    if (cluster->trouble_us == 0 || pause_us < PAUSE_US) {
        return PAUSE_US;
    }
    return pause_us < PAUSE_MOST_US ? pause_us : PAUSE_MOST_US;
}

/* At once, or as soon as it is due again: so long after the last question. */
static void ask_after(struct lw__cluster *cluster, int64_t pause_us)
{
    int64_t due_us = cluster->asked_us + pause_us, now_us = lw__now_us();

    ask_by(cluster, due_us < now_us ? now_us : due_us);
}

static void ask_soon(struct lw__cluster *cluster)
{
    ask_after(cluster, pause_us(cluster));
}

/* Something has changed or failed, so the pauses start again with the shortest: they may
 * have grown during an earlier failure that has nothing to do with it. */
static void ask_about_new_trouble(struct lw__cluster *cluster)
{
    cluster->trouble_us = 0;
    ask_soon(cluster);
}

static void ask(void *arg)
{
    struct lw__cluster *cluster = arg;
    const struct lw__route_options *options = &cluster->options;
    struct lw__endpoint *places;
    int64_t now_us = lw__now_us();
    size_t count;

    if (cluster->trouble_us == 0 || now_us - cluster->asked_us > QUIET_US) {
        cluster->trouble_us = now_us;
    }
    cluster->asked_us = now_us;
    cluster->hurried = false;
    cluster->asked++;
    memset(cluster->corrected, 0, sizeof(cluster->corrected));
    places = lw__node_table_query_order(&cluster->masters, &cluster->better,
                                        options->seeds, options->seed_count, &count);
    if (places == NULL) {
        lw__timer_set(loop_of(cluster), &cluster->again, cluster->asked_us + PAUSE_US);
        cluster->events->unmapped(cluster->arg, cluster->asked, lw_strerror(LW_ENOMEM));
        return;
    }
    cluster->better.host[0] = '\0';
    options->node.stats->refreshes++;
    lw__survey_begin(&cluster->survey, places, count);
}

static void in_vain(void *arg, const char *why)
{
    struct lw__cluster *cluster = arg;
    const struct lw__session_config *config = &cluster->options.node.config;
    uint32_t most = cluster->pause_ms;
    int64_t wait_us = lw__random_between(config->random, most / 2, most) * LW__MS;

    cluster->pause_ms = most > config->backoff_max_ms / 2 ? config->backoff_max_ms
                                                          : most * 2;
    if (cluster->known && wait_us < pause_us(cluster)) {
        wait_us = pause_us(cluster);
    }
    ask_after(cluster, wait_us);
    if (cluster->known) {
        lw__log_cause(config->log, lw__now_us(), LOG_NOTICE, "%s", why);
        cluster->events->unmapped(cluster->arg, cluster->asked, why);
        if (cluster->up && !lw__node_table_any_up(&cluster->masters)) {
            cluster->up = false;
            cluster->events->link(cluster->arg, cluster->survey.status, why);
        }
        return;
    }
    lw__node_set_reason(cluster->nowhere, cluster->survey.status, why);
    cluster->events->link(cluster->arg, cluster->survey.status, why);
    cluster->events->node.down(cluster->arg, cluster->nowhere);
}

static void have_link(struct lw__cluster *cluster)
{
    if (!cluster->up) {
        cluster->up = true;
        cluster->events->link(cluster->arg, LW_OK, "");
    }
}

/* ---- the map ---- */

static void settle(struct lw__cluster *cluster)
{
    lw__defer(loop_of(cluster), &cluster->led, false);
}

static void led(void *arg)
{
    struct lw__cluster *cluster = arg;
    int64_t needed_us;

    cluster->nowhere_wanted = false;
    cluster->events->led(cluster->arg);
    needed_us = lw__node_table_reap(&cluster->masters);
    if (needed_us > 0) {
        ask_by(cluster, needed_us);
    }
    if (cluster->nowhere_wanted) {
        cluster->events->node.down(cluster->arg, cluster->nowhere);
    }
    if (cluster->nowhere_wanted || cluster->hurried ||
        lw__node_table_has_outage(&cluster->masters)) {
        ask_soon(cluster);
    }
    ask_by(cluster, lw__now_us() + REFRESH_US);
}

/* But for what was learnt since it was asked for. */
static void forget_map(struct lw__cluster *cluster)
{
    lw__node_table_unlist_all(&cluster->masters);
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        if (!cluster->corrected[slot]) {
            cluster->owners[slot] = LW__NOBODY;
        } else if (cluster->owners[slot] != LW__NOBODY) {
            lw__node_table_list(&cluster->masters, cluster->owners[slot]);
        }
    }
}

/* Why a slot of this master leads nowhere, or NULL: it leads to *ret. */
static const char *find_master(struct lw__cluster *cluster,
                               const struct lw__map_master *master, uint16_t *ret)
{
    *ret = LW__NOBODY;
    if (master->place.port == 0) {
        return "no node of the cluster that tells its place has its slot";
    }
    *ret = lw__node_table_get(&cluster->masters, &master->place, master->id);
    return *ret != LW__NOBODY ? NULL : lw__node_table_alloc_error(&cluster->masters);
}

/* The slots of the map's master number `which` are those of this one. */
static void take_slots(struct lw__cluster *cluster, const struct lw__slot_map *map,
                       size_t which, uint16_t index)
{
    bool before = false;

    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        bool has = map->owners[slot] == which + 1;

        if (has && !before && index != LW__NOBODY) {
            lw__node_table_set_slot(&cluster->masters, index, slot);
        }
        if (has && !cluster->corrected[slot]) {
            cluster->owners[slot] = index;
        }
        before = has;
    }
}

/* Returns why some slots lead nowhere now, or NULL. */
static const char *note_map(struct lw__cluster *cluster, const struct lw__slot_map *map)
{
    const char *why = map->whole ? NULL : "no node of the cluster has its slot", *none;
    uint16_t index;

    for (size_t i = 0; i < map->count; i++) {
        none = find_master(cluster, &map->masters[i], &index);
        take_slots(cluster, map, i, index);
        why = none != NULL ? none : why;
    }
    return why;
}

static unsigned count_gaps(const struct lw__cluster *cluster)
{
    unsigned count = 0;

    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        count += cluster->owners[slot] == LW__NOBODY;
    }
    return count;
}

static void log_state(struct lw__cluster *cluster, const struct lw__slot_map *map,
                      unsigned gaps, const char *why)
{
    const struct lw__log *log = cluster->options.node.config.log;

    if (why != NULL && why != cluster->gap) {
        lw__log(log, LOG_WARNING, "%u of %d slots lead nowhere: %s", gaps, LW__SLOTS,
                why);
    }
    cluster->gap = why;
    if (map->info.down && !cluster->down_logged) {
        lw__log(log, LOG_WARNING,
                "no node says that the cluster serves: the map is that of %s:%u, which "
                "says that it is down",
                map->by.host, (unsigned)map->by.port);
    }
    cluster->down_logged = map->info.down;
}

/* The next map is compared with this one's nodes and epoch, unless the node that told it
 * does not serve: it may know other nodes than the cluster has, and an epoch that nobody
 * agreed on. */
static void hold(struct lw__cluster *cluster, struct lw__slot_map *map)
{
    struct lw__survey_held *held = &cluster->held;
    struct lw__node_ids *into = held->nodes.count == 0 && !map->good ? &held->gaps
                                                                     : &held->nodes;
    struct lw__node_ids before = *into;

    if (!map->info.down) {
        *into = map->nodes;
        map->nodes = before; /* to be freed with it */
    }
    if (!map->info.down && map->info.epoch != 0) {
        cluster->held.epoch = map->info.epoch;
    }
}

/* Slots that lead nowhere are no reason to be down; that all do is. */
static void note_link(struct lw__cluster *cluster, unsigned gaps, const char *why)
{
    if (gaps < LW__SLOTS) {
        have_link(cluster);
    } else if (cluster->up || !cluster->known) {
        cluster->up = false;
        cluster->events->link(cluster->arg, LW_ECONN, why);
    }
}

static void believed(void *arg, struct lw__slot_map *map)
{
    struct lw__cluster *cluster = arg;
    uint16_t before[LW__SLOTS];
    const char *why;
    unsigned gaps;

    memcpy(before, cluster->owners, sizeof(before));
    forget_map(cluster);
    why = note_map(cluster, map);
    gaps = count_gaps(cluster);
    lw__node_set_reason(cluster->nowhere, LW_ECONN,
                        why != NULL ? why : "no node of the cluster has its slot");
    log_state(cluster, map, gaps, why);
    if (memcmp(before, cluster->owners, sizeof(before)) != 0) {
        cluster->trouble_us = 0;
    }
    hold(cluster, map);
    note_link(cluster, gaps, why);
    cluster->pause_ms = cluster->options.node.config.backoff_min_ms;
    cluster->known = true;
    cluster->told = cluster->asked;
    if (map->info.down || gaps == LW__SLOTS) {
        ask_soon(cluster);
    }
    settle(cluster);
}

struct lw__node *lw__cluster_node(struct lw__cluster *cluster, unsigned slot)
{
    struct lw__node *node = NULL;

    if (cluster->owners[slot] != LW__NOBODY) {
        node = lw__node_table_node(&cluster->masters, cluster->owners[slot], slot);
    }
    if (node == NULL) {
        cluster->nowhere_wanted = true;
        if (cluster->known) {
            ask_soon(cluster);
        }
        return cluster->nowhere;
    }
    return node;
}

unsigned lw__cluster_refresh_map(struct lw__cluster *cluster)
{
    ask_by(cluster, lw__now_us());
    return cluster->asked + 1;
}

unsigned lw__cluster_map_version(const struct lw__cluster *cluster)
{
    return cluster->told;
}

bool lw__cluster_is_subscribed(const struct lw__cluster *cluster)
{
    return lw__node_table_all_subscribed(&cluster->masters);
}

/* ---- what nodes tell ---- */

static void up(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    lw__node_table_set_up(&cluster->masters, node);
    have_link(cluster); /* even if nobody tells the map any more */
    cluster->events->node.up(cluster->arg, node);
}

static void down(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;
    const struct lw__endpoint *place = lw__node_table_endpoint(&cluster->masters, node);
    bool listed = lw__node_table_is_listed(&cluster->masters, node);
    bool was_up = lw__node_table_set_down(&cluster->masters, node);

    lw__log_cause(cluster->options.node.config.log, lw__now_us(),
                  listed ? LOG_WARNING : LOG_NOTICE,
                  "no connection to the cluster's node %s:%u: %s", place->host,
                  (unsigned)place->port, lw__node_reason(node));
    cluster->events->node.down(cluster->arg, node);
    settle(cluster); /* it may be one to let go of */
    if (listed && was_up) {
        ask_about_new_trouble(cluster);
    } else {
        ask_soon(cluster);
    }
}

static void bound(void *arg, struct lw__node *node)
{
    const struct lw__cluster *cluster = arg;

    cluster->events->node.bound(cluster->arg, node);
}

/* Whoever said it is a host where it names none. */
static void complete(struct lw__endpoint *place, const char *host)
{
    if (place->host[0] == '\0') {
        (void)snprintf(place->host, sizeof(place->host), "%s", host);
    }
}

static void refuse(const struct lw__cluster *cluster, struct lw__command *command,
                   const struct lw__redirect *redirect, const char *what)
{
    const struct lw__endpoint *place = &redirect->endpoint;
    char why[LW__WHY_MAX];

    (void)snprintf(why, sizeof(why), "slot %u is at %.60s:%u: %.60s", redirect->slot,
                   place->host, (unsigned)place->port, what);
    lw__log_cause(cluster->options.node.config.log, lw__now_us(), LOG_WARNING,
                  "names of the cluster cannot be served by %.60s:%u: %.60s", place->host,
                  (unsigned)place->port, what);
    lw__node_reject_command(command, why);
}

/* Where it leads, by a node that knows better than the map. A few times between two maps:
 * of nodes that do not agree each would have everybody ask at the other one, at once. */
static void correct(struct lw__cluster *cluster, const struct lw__redirect *redirect,
                    uint16_t index)
{
    cluster->better = redirect->endpoint;
    if (cluster->corrected[redirect->slot] < CORRECTIONS) {
        cluster->owners[redirect->slot] = index;
        cluster->corrected[redirect->slot]++;
        settle(cluster);
    }
}

static void redirected(void *arg, struct lw__node *node, struct lw__command *command,
                       struct lw__redirect *redirect)
{
    struct lw__cluster *cluster = arg;
    struct lw__node *there = NULL;
    uint16_t index;

    lw__node_reset_slot_fence(node, redirect->slot);
    if (redirect->ask) {
        ask_by(cluster, lw__now_us() + NEEDED_US); /* is it needed still? */
    } else {
        ask_about_new_trouble(cluster);
    }
    if (redirect->endpoint.port == 0) {
        lw__log_cause(cluster->options.node.config.log, lw__now_us(), LOG_WARNING,
                      "slots are at a node that does not tell its place");
        lw__node_reject_command(command,
                                "its slot is at a node that does not tell its place");
        return;
    }
    complete(&redirect->endpoint, lw__node_config(node)->host);
    index = lw__node_table_get(&cluster->masters, &redirect->endpoint, "");
    if (index != LW__NOBODY) {
        there = lw__node_table_node(&cluster->masters, index, redirect->slot);
    }
    if (there == NULL) {
        refuse(cluster, command, redirect, lw__node_table_alloc_error(&cluster->masters));
        return;
    }
    lw__node_table_retain_until(&cluster->masters, index, lw__now_us() + NEEDED_US);
    if (!redirect->ask) {
        correct(cluster, redirect, index);
    }
    if (command->request.hops == HOPS) {
        refuse(cluster, command, redirect,
               "sent from one node to the other without an end");
    } else if (lw__node_is_backing_off(there)) {
        refuse(cluster, command, redirect,
               lw__node_reason(there)); /* there it would wait */
    } else {
        cluster->options.node.stats->redirects++;
        lw__node_send_redirected(there, command, redirect->ask);
    }
}

static void slot_unsettled(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    int64_t before_us = lw__node_table_deprioritize(&cluster->masters, node);

    if (before_us == 0 || lw__now_us() - before_us > QUIET_US) {
        ask_about_new_trouble(cluster);
    } else {
        ask_soon(cluster);
    }
}

static void slot_unsubscribed(void *arg, struct lw__node *node, unsigned slot)
{
    struct lw__cluster *cluster = arg;

    ask_about_new_trouble(cluster);
    cluster->events->node.slot_unsubscribed(cluster->arg, node, slot);
}

static const struct lw__node_events node_events = {
    up, down, bound, redirected, slot_unsettled, slot_unsubscribed};

/* ---- its life ---- */

static int make(const struct lw__route_options *options,
                const struct lw__route_events *events, void *arg,
                struct lw__cluster **ret)
{
    struct lw__cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL) {
        return LW_ENOMEM;
    }
    cluster->options = *options;
    cluster->options.node.clustered = true;
    if (lw__node_table_init(&cluster->masters, &cluster->options.node, &node_events,
                            cluster) != 0) {
        free(cluster);
        return LW_ENOMEM;
    }
    cluster->events = events;
    cluster->arg = arg;
    cluster->pause_ms = options->node.config.backoff_min_ms;
    *ret = cluster;
    return 0;
}

int lw__cluster_new(const struct lw__route_options *options,
                    const struct lw__route_events *events, void *arg,
                    struct lw__cluster **ret)
{
    static const struct lw__survey_events survey_events = {believed, in_vain};
    struct lw__loop *loop = options->node.config.loop;
    struct lw__cluster *cluster;
    char why[LW__WHY_MAX];

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
    if (lw__survey_init(&cluster->survey, &cluster->options.node.config, options->seeds,
                        options->seed_count, &cluster->held, &survey_events,
                        cluster) != 0) {
        goto fail_node;
    }
    (void)snprintf(why, sizeof(why), "%.100s:%u has not sent its slot map yet",
                   options->seeds[0].name, (unsigned)options->seeds[0].port);
    lw__node_set_reason(cluster->nowhere, LW_ECONN, why);
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
    lw__node_table_clear(&cluster->masters);
    free(cluster);
    return LW_ENOMEM;
}

void lw__cluster_free(struct lw__cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    lw__survey_clear(&cluster->survey);
    lw__node_table_clear(&cluster->masters);
    lw__node_free(cluster->nowhere);
    lw__timer_cancel(loop_of(cluster), &cluster->again);
    lw__defer_cancel(loop_of(cluster), &cluster->led);
    lw__timer_unreserve(loop_of(cluster), 1);
    free(cluster->held.nodes.list);
    free(cluster->held.gaps.list);
    free(cluster);
}
