/* SPDX-License-Identifier: MIT */
/* A cluster: see cluster.h. Independent of how long a node is kept (node_table.c).
 *
 * The slot map is asked for in a survey: of the seeds at first, later of the nodes. The
 * map that is believed goes to map_believed(), which calls `link` and `remapped`.
 * lw__cluster_node makes a node for the master of a slot when it is first needed. A node
 * that replies MOVED knows better than the map: the slot is corrected, the map asked for
 * again, and the command sent where it belongs. After ASK only this command is sent
 * there. The map is also asked for when a node is lost, is silent or replies CLUSTERDOWN,
 * at most once a second, and every few minutes anyway: a map that is compared with one of
 * long ago may share no node with it. A replica that has been promoted (promotion.c) is
 * asked immediately, and its answer judged like any other.
 *
 * A survey asks the first node, and one more every 200 ms until a good answer comes, each
 * over a connection of its own, so that a silent node delays none of the others. An
 * answer is good if
 *   - its node does not take the cluster for down (CLUSTER INFO),
 *   - it has an owner for every slot,
 *   - its epoch is no earlier than that of the map in use,
 *   - it shares a node id with the map in use, if there is one.
 * A good answer is believed, and ends the survey. After any other answer the next node is
 * asked at once. If no answer is good, the best of those that share a node id is believed
 * once all nodes have answered or have had their time: one whose node does not take the
 * cluster for down before others, then the latest epoch. But if its node takes the
 * cluster for down and its epoch is earlier than that of the map in use, no answer is
 * believed. If none shares a node id, the seeds decide: an answer with which a majority
 * of all distinct seeds agree is believed. If there is no map in use yet, an answer with
 * slots without an owner needs that majority, too; failing that, the best of the nodes
 * that take the cluster for down is believed. As long as only maps with such slots were
 * believed, a further one of them needs a majority unless it shares a node id with the
 * map in use; maps that are whole are not compared with it.
 *
 * A slot without an owner leads to a node that is never up. While such a slot is needed,
 * or no map can be had, the map is asked for again, ever more rarely as long as nothing
 * changes. A master that no longer has a slot is dropped: commands in flight there fail,
 * and are sent elsewhere. Each fault of the cluster is logged when it begins. */
#include "redis/cluster.h"

#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/random.h"
#include "base/reasons.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/node_table.h"
#include "redis/promotion.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

/* Between two surveys, at the least. */
#define PAUSE_US (1000 * (int64_t)LW__MS)
/* While the answers bring no change, a survey begins when the trouble has lasted longer
 * by this part, up to the longest pause. A replica takes over after a
 * cluster-node-timeout and a bit: it is found soon after, however long that is. */
#define PAUSE_PART 8
#define PAUSE_MOST_US (10 * PAUSE_US)
/* Longer than a pause and a survey: without a survey for so long the fault has ended. */
#define QUIET_US (30 * PAUSE_US)
#define REFRESH_US (300 * PAUSE_US)
#define HOPS 5
#define CORRECTIONS 3
#define NEEDED_US (10 * PAUSE_US)

#define ANOTHER_US (200 * (int64_t)LW__MS)
/* The time that the last node has if an answer that is not good has come before. */
#define LAST_US (1000 * (int64_t)LW__MS)
/* If each slot is a range of its own, and its master has two replicas, with host names in
 * an array of two. */
#define MAP_MAX ((size_t)32 << 20)
#define MAP_ELEMENTS ((size_t)LW__SLOTS * 32)
#define TIMERS 3 /* `again`, and those of the survey and of the promotion */
#define NO_MASTER "no node of the cluster serves the slot"

/* One node that is asked in a survey. */
struct slot_map_query {
    struct slot_map_query *next;
    struct survey *survey;
    struct lw__endpoint endpoint;
    struct lw__session_config config; /* leads there */
    struct lw__session session;
    struct lw__request myid_request, info_request, map_request;
    char id[LW__NODE_ID_SIZE];
    struct lw__cluster_info info;
    bool over;
};

struct survey {
    const struct lw__session_config *config; /* except for the host */
    const struct lw__url_host *seeds;
    size_t seed_count;
    bool open;
    bool good; /* the answer that is believed is good */
    struct lw__endpoint *endpoints;
    size_t count, next; /* next: the index of the first that is not asked yet */
    struct slot_map_query *queries;
    struct lw__timer another;
    struct lw__deferred sweep; /* frees queries that have ended */
    struct lw__slot_map *best; /* of the answers that are not good; or NULL */
    /* Answers of seeds that need a majority, since they share no node id, or have slots
     * without an owner; and how many seeds were names of a node counted before. */
    struct lw__slot_map **foreign;
    size_t foreign_count, aliases;
    int status; /* of all failures: lw__session_combine_status; 0 if there was none */
    unsigned degraded;          /* of the last node that replied: lw__session */
    struct lw__reasons reasons; /* in `why` */
    char why[LW_WHY_SIZE];

    /* What answers are compared with: the nodes of the map in use, or none; then those of
     * one with slots without an owner; and its epoch, 0 if unknown. */
    struct lw__node_ids in_use, in_use_with_gaps;
    uint64_t epoch_in_use;
};

struct lw__cluster {
    struct lw__route_options options;
    const struct lw__route_events *events;
    void *arg;
    struct lw__node *nowhere;
    struct lw__node_table table;
    uint16_t owners[LW__SLOTS];
    /* How often since the last survey began, which may not know of it. */
    uint8_t corrected[LW__SLOTS];

    struct survey survey;
    struct lw__promotion promotion;
    struct lw__deferred silence;  /* a node is silent */
    struct lw__timer again;       /* begins the next one */
    struct lw__deferred remapped; /* the map has changed */
    int64_t asked_us;             /* when the last survey began */
    int64_t trouble_us;           /* since then they brought no change; 0: they did */
    unsigned requested, version;  /* counts surveys; the one that the map is of */
    uint32_t pause_ms;            /* after surveys without a result */
    bool known;                   /* there is a map */
    bool up;                      /* as the `link` event reported last */
    bool hurried;        /* asked for during a survey, which may bring an older map */
    bool nowhere_wanted; /* a slot without an owner was asked for */
    struct lw__endpoint better; /* the node to be asked first; or no host */

    /* Faults that have been logged and are not mended yet. */
    const char *gap; /* why some slots have no owner, or NULL */
    bool down_logged;
};

static void map_believed(struct lw__cluster *cluster, struct lw__slot_map *map);
static void no_map(struct lw__cluster *cluster);

static struct lw__loop *loop_of(const struct lw__cluster *cluster)
{
    return cluster->options.node.config.loop;
}

static struct lw__cluster *cluster_of(struct survey *survey)
{
    return LW__CONTAINER_OF(struct lw__cluster, survey, survey);
}

/* ---- a survey: which answer is believed ---- */

static bool holds_none(const struct survey *survey)
{
    return survey->in_use.count == 0;
}

static bool is_foreign(const struct survey *survey, const struct lw__slot_map *map)
{
    return !holds_none(survey) && map->nodes.count > 0 &&
           !lw__cluster_parse_share_node(&map->nodes, &survey->in_use);
}

/* Returns true if the answer needs a majority of the seeds, although it is not foreign:
 * it has slots without an owner, as the map of a node that was left alone has. */
static bool is_doubtful(const struct survey *survey, const struct lw__slot_map *map)
{
    return holds_none(survey) && map->nodes.count > 0 && !map->info.down &&
           !lw__cluster_parse_share_node(&map->nodes, &survey->in_use_with_gaps);
}

static bool is_older(const struct survey *survey, const struct lw__slot_map *map)
{
    return map->info.epoch != 0 && map->info.epoch < survey->epoch_in_use;
}

/* The map in use is newer, and this node serves none of its slots. */
static bool is_outdated(const struct survey *survey, const struct lw__slot_map *map)
{
    return map->info.down && is_older(survey, map);
}

/* An isolated replica raises its epoch with each election that it loses, so that the
 * epoch counts only among nodes that agree whether the cluster is down. */
static bool is_better(const struct lw__slot_map *a, const struct lw__slot_map *b)
{
    if (a->info.down != b->info.down) {
        return !a->info.down;
    }
    if (a->info.epoch != b->info.epoch) {
        return a->info.epoch > b->info.epoch;
    }
    return a->whole && !b->whole;
}

static bool is_seed(const struct survey *survey, const struct lw__endpoint *endpoint)
{
    for (size_t i = 0; i < survey->seed_count; i++) {
        struct lw__endpoint seed = {.port = survey->seeds[i].port};

        (void)snprintf(seed.host, sizeof(seed.host), "%s", survey->seeds[i].name);
        if (lw__endpoint_equal(&seed, endpoint)) {
            return true;
        }
    }
    return false;
}

/* Two seeds may be two names of one node. */
static bool is_counted(const struct survey *survey, const struct lw__slot_map *map)
{
    for (size_t i = 0; i < survey->foreign_count && *map->by_id != '\0'; i++) {
        if (strcmp(survey->foreign[i]->by_id, map->by_id) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_foreign(struct survey *survey, struct lw__slot_map *map)
{
    struct lw__slot_map **grown = NULL;

    if (is_seed(survey, &map->by) && is_counted(survey, map)) {
        survey->aliases++;
    } else if (is_seed(survey, &map->by)) {
        grown = realloc(survey->foreign,
                        (survey->foreign_count + 1) * sizeof(struct lw__slot_map *));
    }
    if (grown == NULL) {
        lw__cluster_parse_free_map(map);
        return;
    }
    survey->foreign = grown;
    survey->foreign[survey->foreign_count++] = map;
}

static size_t count_seeds(const struct survey *survey)
{
    size_t count = 0;

    for (size_t i = 0; i < survey->seed_count; i++) {
        size_t before = 0;

        while (before < i &&
               (survey->seeds[before].port != survey->seeds[i].port ||
                strcasecmp(survey->seeds[before].name, survey->seeds[i].name) != 0)) {
            before++;
        }
        count += before == i;
    }
    return count - survey->aliases;
}

/* Returns the best answer on which a majority of the seeds agree, taken out of the list,
 * or NULL. Seeds that do not answer count as well: while our own nodes are away for a
 * moment, one seed whose address went to another cluster must not decide alone. */
static struct lw__slot_map *agreed(struct survey *survey)
{
    struct lw__slot_map **best = NULL, *ret;

    for (size_t i = 0; i < survey->foreign_count; i++) {
        size_t votes = 0;

        for (size_t j = 0; j < survey->foreign_count; j++) {
            votes += lw__cluster_parse_share_node(&survey->foreign[i]->nodes,
                                                  &survey->foreign[j]->nodes);
        }
        if (2 * votes > count_seeds(survey) &&
            (best == NULL || is_better(survey->foreign[i], *best))) {
            best = &survey->foreign[i];
        }
    }
    if (best == NULL) {
        return NULL;
    }
    ret = *best;
    *best = survey->foreign[--survey->foreign_count];
    return ret;
}

static void forget_answers(struct survey *survey)
{
    lw__cluster_parse_free_map(survey->best);
    survey->best = NULL;
    for (size_t i = 0; i < survey->foreign_count; i++) {
        lw__cluster_parse_free_map(survey->foreign[i]);
    }
    free(survey->foreign);
    survey->foreign = NULL;
    survey->foreign_count = survey->aliases = 0;
}

/* ---- queries ---- */

static void sweep(void *arg)
{
    struct survey *survey = arg;
    struct slot_map_query **at = &survey->queries, *one;

    while ((one = *at) != NULL) {
        if (!one->over) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        lw__session_stop(&one->session);
        lw__timer_unreserve(survey->config->loop, 1);
        free(one);
    }
}

static void end_survey(struct survey *survey)
{
    survey->open = false;
    lw__timer_cancel(survey->config->loop, &survey->another);
    for (struct slot_map_query *one = survey->queries; one != NULL; one = one->next) {
        one->over = true;
    }
    lw__defer(survey->config->loop, &survey->sweep, false);
    free(survey->endpoints);
    survey->endpoints = NULL;
    forget_answers(survey);
}

static void believe(struct survey *survey, struct lw__slot_map *map)
{
    end_survey(survey);
    map_believed(cluster_of(survey), map);
    lw__cluster_parse_free_map(map);
}

static void end_without_good_answer(struct survey *survey)
{
    struct lw__slot_map *best = survey->best, *map = NULL;
    bool first = holds_none(survey) && survey->in_use_with_gaps.count == 0;

    survey->best = NULL;
    if (best != NULL && is_outdated(survey, best)) { /* then all are */
        lw__cluster_parse_free_map(best);
        best = NULL;
    }
    if (best == NULL || first) {
        map = agreed(survey);
    }
    if (map == NULL) {
        map = best;
    } else {
        lw__cluster_parse_free_map(best);
    }
    if (map != NULL) {
        believe(survey, map);
        return;
    }
    end_survey(survey);
    no_map(cluster_of(survey));
}

static void note(struct survey *survey, const struct lw__endpoint *endpoint, int status,
                 const char *why)
{
    char server[LW__HOST_SIZE + sizeof(":65535")];

    survey->status = lw__session_combine_status(survey->status, status);
    (void)snprintf(server, sizeof(server), "%s:%u", endpoint->host,
                   (unsigned)endpoint->port);
    lw__reasons_add(&survey->reasons, server, why);
}

static void query_another(void *arg);

static bool is_waiting(const struct survey *survey)
{
    const struct slot_map_query *one = survey->queries;

    while (one != NULL && one->over) {
        one = one->next;
    }
    return one != NULL;
}

static bool has_answer(const struct survey *survey)
{
    return survey->best != NULL || (holds_none(survey) && survey->foreign_count > 0);
}

static void go_on(struct survey *survey)
{
    if (survey->next < survey->count) {
        query_another(survey);
    } else if (!is_waiting(survey)) {
        end_without_good_answer(survey);
    } else if (has_answer(survey) && !lw__timer_is_set(&survey->another)) {
        lw__timer_set(survey->config->loop, &survey->another, lw__now_us() + LAST_US);
    }
}

static void close_query(struct slot_map_query *query)
{
    query->over = true;
    lw__defer(query->survey->config->loop, &query->survey->sweep, false);
}

static void query_failed(struct slot_map_query *query, int status, const char *why)
{
    if (!query->over) {
        close_query(query);
        note(query->survey, &query->endpoint, status, why);
        go_on(query->survey);
    }
}

/* A good answer ends the survey. Any other is kept, and the next node asked at once.
 *
 * A node that was left alone with some of the slots serves them, so that a client without
 * a map would acquire locks there which the cluster knows nothing of: a majority of the
 * seeds must agree with such a map. (A master that has failed keeps its slots in the
 * others' maps, so that few clusters have gaps.) A node that takes the cluster for down
 * serves nothing. */
static void judge(struct slot_map_query *query, struct lw__slot_map *map)
{
    struct survey *survey = query->survey;
    bool foreign = is_foreign(survey, map);

    if (!foreign && !map->info.down && map->whole && !is_older(survey, map)) {
        survey->good = true;
        believe(survey, map);
        return;
    }
    if (!foreign && is_outdated(survey, map)) {
        note(survey, &query->endpoint, LW_ECONN,
             "reports the cluster as down, with a slot map older than the one in use");
    }
    if (foreign) {
        note(survey, &query->endpoint, LW_ECONN, "belongs to another cluster");
        keep_foreign(survey, map);
    } else if (is_doubtful(survey, map)) {
        note(survey, &query->endpoint, LW_ECONN, "reports no master for some slots");
        keep_foreign(survey, map);
    } else if (survey->best == NULL || is_better(map, survey->best)) {
        lw__cluster_parse_free_map(survey->best);
        survey->best = map;
    } else {
        lw__cluster_parse_free_map(map);
    }
    close_query(query);
    go_on(survey);
}

static void map_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct slot_map_query *query =
        LW__CONTAINER_OF(struct slot_map_query, map_request, request);
    struct lw__slot_map *map;
    char why[LW_WHY_SIZE];

    if (query->over) {
        return;
    }
    if (!lw__cluster_parse_map(reply, why)) {
        bool refused = lw__reply_type(reply) == LW__REPLY_ERROR &&
                       lw__classify_topology(lw__reply_text(reply, NULL));

        query_failed(query, refused ? LW_EREDIS : LW_ECONN, why);
        return;
    }
    map = lw__cluster_parse_new_map(reply, &query->endpoint);
    if (map == NULL) {
        query_failed(query, LW_ENOMEM, lw_strerror(LW_ENOMEM));
        return;
    }
    memcpy(map->by_id, query->id, sizeof(map->by_id));
    map->info = query->info;
    judge(query, map);
}

static void myid_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct slot_map_query *query =
        LW__CONTAINER_OF(struct slot_map_query, myid_request, request);

    lw__cluster_parse_myid(reply, query->id);
}

static void info_replied(struct lw__request *request, const struct lw__reply *reply)
{
    struct slot_map_query *query =
        LW__CONTAINER_OF(struct slot_map_query, info_request, request);

    if (lw__classify_denied(lw__reply_text(reply, NULL))) {
        lw__session_note_missing(&query->session, reply, LW_DEGRADED_CLUSTER, LOG_WARNING,
                                 "CLUSTER INFO",
                                 "the slot map of a node that is cut off may be used");
    }
    query->survey->degraded = query->session.degraded;
    query->info = lw__cluster_parse_info(reply);
}

static void query_ready(void *arg)
{
    static const struct lw__request_type myid_type = {myid_replied, NULL};
    static const struct lw__request_type info_type = {info_replied, NULL};
    static const struct lw__request_type map_type = {map_replied, NULL};
    struct slot_map_query *query = arg;

    lw__session_request(&query->session, &query->myid_request, &myid_type, 2,
                        (const char *[]){"CLUSTER", "MYID"});
    lw__session_request(&query->session, &query->info_request, &info_type, 2,
                        (const char *[]){"CLUSTER", "INFO"});
    lw__session_request(&query->session, &query->map_request, &map_type, 2,
                        (const char *[]){"CLUSTER", "SLOTS"});
}

static void query_lost(void *arg, const char *why)
{
    struct slot_map_query *query = arg;

    query_failed(query, query->session.failure.status, why);
}

/* Returns NULL without memory. */
static struct slot_map_query *query_node(struct survey *survey,
                                         const struct lw__endpoint *endpoint)
{
    static const struct lw__session_events events = {query_ready, query_lost, NULL, NULL,
                                                     NULL};
    struct slot_map_query *query = calloc(1, sizeof(*query));

    if (query == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(survey->config->loop, 1) != 0) {
        free(query);
        return NULL;
    }
    query->survey = survey;
    query->endpoint = *endpoint;
    query->config = *survey->config;
    query->config.host = query->endpoint.host;
    query->config.port = query->endpoint.port;
    if (is_seed(survey, endpoint)) {
        query->config.address_map = NULL;
    }
    query->config.reply_max = MAP_MAX;
    query->config.reply_elements = MAP_ELEMENTS;
    lw__session_init(&query->session, &query->config, &events, query);
    lw__session_start(&query->session);
    return query;
}

static void query_another(void *arg)
{
    struct survey *survey = arg;
    const struct lw__endpoint *endpoint = &survey->endpoints[survey->next++];
    struct slot_map_query *query = query_node(survey, endpoint);
    bool last = survey->next == survey->count;

    lw__timer_cancel(survey->config->loop, &survey->another);
    if (query == NULL) {
        note(survey, endpoint, LW_ENOMEM, lw_strerror(LW_ENOMEM));
        lw__timer_set(survey->config->loop, &survey->another, lw__now_us() + ANOTHER_US);
        return;
    }
    if (!last || has_answer(survey)) {
        lw__timer_set(survey->config->loop, &survey->another,
                      lw__now_us() + (last ? LAST_US : ANOTHER_US));
    }
    query->next = survey->queries;
    survey->queries = query;
}

/* If no node is left to be asked, the silent ones have had their time. */
static void another_due(void *arg)
{
    struct survey *survey = arg;

    if (survey->next == survey->count && has_answer(survey)) {
        end_without_good_answer(survey);
    } else {
        go_on(survey);
    }
}

/* Starts a survey; one that is open is given up. Takes ownership of `endpoints`, at least
 * one, in the order in which they are to be asked. */
static void begin_survey(struct survey *survey, struct lw__endpoint *endpoints,
                         size_t count)
{
    if (survey->open) {
        end_survey(survey);
    }
    survey->open = true;
    survey->good = false;
    survey->endpoints = endpoints;
    survey->count = count;
    survey->next = 0;
    survey->status = 0;
    lw__reasons_begin(&survey->reasons, survey->why, sizeof(survey->why),
                      "no node returned a usable slot map", count);
    query_another(survey);
}

/* ---- when to ask for the map ---- */

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

/* Begins a survey so long after the last one, or now if that has passed. */
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
    struct lw__endpoint *endpoints;
    int64_t now_us = lw__now_us();
    size_t count;

    if (cluster->trouble_us == 0 || now_us - cluster->asked_us > QUIET_US) {
        cluster->trouble_us = now_us;
    }
    cluster->asked_us = now_us;
    cluster->hurried = false;
    cluster->requested++;
    memset(cluster->corrected, 0, sizeof(cluster->corrected));
    endpoints = lw__node_table_query_order(&cluster->table, &cluster->better,
                                           options->seeds, options->seed_count, &count);
    if (endpoints == NULL) {
        lw__timer_set(loop_of(cluster), &cluster->again, cluster->asked_us + PAUSE_US);
        cluster->events->map_unavailable(cluster->arg, cluster->requested,
                                         lw_strerror(LW_ENOMEM));
        return;
    }
    cluster->better.host[0] = '\0';
    options->node.stats->refreshes++;
    begin_survey(&cluster->survey, endpoints, count);
}

static void silent(void *arg)
{
    ask_soon(arg);
}

/* The survey takes the place of one that is open. In the next one, soon after, another
 * node is the first: of two replicas that call themselves masters the later epoch wins.
 */
static void promoted(void *arg, const struct lw__endpoint *replica)
{
    struct lw__cluster *cluster = arg;

    cluster->better = *replica;
    lw__timer_cancel(loop_of(cluster), &cluster->again);
    ask(cluster);
    cluster->hurried = true;
    if (cluster->survey.open && cluster->survey.count > 1) {
        cluster->better = cluster->survey.endpoints[1];
    }
}

static void no_map(struct lw__cluster *cluster)
{
    const char *why = cluster->survey.why;
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
        cluster->events->map_unavailable(cluster->arg, cluster->requested, why);
        if (cluster->up && !lw__node_table_any_up(&cluster->table)) {
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
    lw__defer(loop_of(cluster), &cluster->remapped, false);
}

static void remapped(void *arg)
{
    struct lw__cluster *cluster = arg;
    int64_t needed_us;

    cluster->nowhere_wanted = false;
    cluster->events->remapped(cluster->arg);
    needed_us = lw__node_table_reap(&cluster->table);
    if (needed_us > 0) {
        ask_by(cluster, needed_us);
    }
    if (cluster->nowhere_wanted) {
        cluster->events->node.down(cluster->arg, cluster->nowhere);
    }
    if (cluster->nowhere_wanted || cluster->hurried ||
        lw__node_table_has_outage(&cluster->table)) {
        ask_soon(cluster);
    }
    ask_by(cluster, lw__now_us() + REFRESH_US);
}

/* Forgets the map, except for the corrections since the survey began. */
static void forget_map(struct lw__cluster *cluster)
{
    lw__node_table_unlist_all(&cluster->table);
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        if (!cluster->corrected[slot]) {
            cluster->owners[slot] = LW__NOBODY;
        } else if (cluster->owners[slot] != LW__NOBODY) {
            lw__node_table_list(&cluster->table, cluster->owners[slot]);
        }
    }
}

/* Returns the index of a master that the node `by` has announced. */
static uint16_t get_master(struct lw__cluster *cluster,
                           const struct lw__endpoint *endpoint, const char *id,
                           const struct lw__endpoint *by)
{
    return lw__node_table_get(&cluster->table, endpoint, id,
                              is_seed(&cluster->survey, endpoint) ? NULL : by);
}

/* Returns why the slots of this master lead nowhere, or NULL; then *ret is its index. */
static const char *find_master(struct lw__cluster *cluster,
                               const struct lw__map_master *master,
                               const struct lw__endpoint *by, uint16_t *ret)
{
    *ret = LW__NOBODY;
    if (master->node.endpoint.port == 0) {
        return "the cluster reports no endpoint for the slot's master";
    }
    *ret = get_master(cluster, &master->node.endpoint, master->node.id, by);
    return *ret != LW__NOBODY ? NULL : lw__node_table_alloc_error(&cluster->table);
}

/* Gives the slots of the map's master number `which` to the master with this index. If
 * the prefix has a tag, the node that has its slot uses that one. */
static void assign_slots(struct lw__cluster *cluster, const struct lw__slot_map *map,
                         size_t which, uint16_t index)
{
    const char *prefix = cluster->options.node.prefix;
    unsigned only = lw__slot_of(prefix, strlen(prefix)); /* if the prefix has a tag */
    bool before = false;

    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        bool has = map->owners[slot] == which + 1;

        if (has && !before && index != LW__NOBODY) {
            lw__node_table_set_slot(&cluster->table, index, slot);
        }
        if (has && !cluster->corrected[slot]) {
            cluster->owners[slot] = index;
        }
        before = has;
    }
    if (lw__format_has_tag(prefix) && index != LW__NOBODY &&
        map->owners[only] == which + 1) {
        lw__node_table_set_slot(&cluster->table, index, only);
    }
}

/* Returns why some slots lead nowhere now, or NULL. */
static const char *note_map(struct lw__cluster *cluster, const struct lw__slot_map *map)
{
    const char *why = map->whole ? NULL : NO_MASTER, *none;
    uint16_t index;

    for (size_t i = 0; i < map->count; i++) {
        none = find_master(cluster, &map->masters[i], &map->by, &index);
        assign_slots(cluster, map, i, index);
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
        lw__log(
            log, LOG_WARNING,
            "%u of %d slots are unreachable; names in these slots cannot be locked: %s",
            gaps, LW__SLOTS, why);
    }
    cluster->gap = why;
    if (map->info.down && !cluster->down_logged) {
        lw__log(log, LOG_WARNING,
                "no node reports the cluster as up; using the slot map of %s:%u, which "
                "reports the cluster as down",
                map->by.host, (unsigned)map->by.port);
    }
    cluster->down_logged = map->info.down;
}

/* The next map is compared with the nodes and the epoch of this one, unless its node
 * takes the cluster for down: such a node may know other nodes than the cluster has, and
 * an epoch on which no other node agrees. */
static void note_in_use(struct survey *survey, struct lw__slot_map *map)
{
    struct lw__node_ids *ids = survey->in_use.count == 0 && !survey->good
                                   ? &survey->in_use_with_gaps
                                   : &survey->in_use;
    struct lw__node_ids before = *ids;

    if (map->info.down) {
        return;
    }
    *ids = map->nodes;
    map->nodes = before; /* to be freed with it */
    if (map->info.epoch != 0) {
        survey->epoch_in_use = map->info.epoch;
    }
}

/* The cluster is down only if all slots lead nowhere. */
static void note_link(struct lw__cluster *cluster, unsigned gaps, const char *why)
{
    if (gaps < LW__SLOTS) {
        have_link(cluster);
    } else if (cluster->up || !cluster->known) {
        cluster->up = false;
        cluster->events->link(cluster->arg, LW_ECONN, why);
    }
}

static void map_believed(struct lw__cluster *cluster, struct lw__slot_map *map)
{
    uint16_t before[LW__SLOTS];
    const char *why;
    unsigned gaps;

    memcpy(before, cluster->owners, sizeof(before));
    forget_map(cluster);
    why = note_map(cluster, map);
    lw__promotion_note_map(&cluster->promotion, map);
    gaps = count_gaps(cluster);
    lw__node_set_reason(cluster->nowhere, LW_ECONN, why != NULL ? why : NO_MASTER);
    log_state(cluster, map, gaps, why);
    if (memcmp(before, cluster->owners, sizeof(before)) != 0) {
        cluster->trouble_us = 0;
        lw__log(cluster->options.node.config.log, LOG_INFO,
                "the slot map of %s:%u has %zu masters", map->by.host,
                (unsigned)map->by.port, map->count);
    }
    note_in_use(&cluster->survey, map);
    note_link(cluster, gaps, why);
    cluster->pause_ms = cluster->options.node.config.backoff_min_ms;
    cluster->known = true;
    cluster->version = cluster->requested;
    if (map->info.down || gaps == LW__SLOTS) {
        ask_soon(cluster);
    }
    settle(cluster);
}

struct lw__node *lw__cluster_node(struct lw__cluster *cluster, unsigned slot)
{
    struct lw__node *node = NULL;

    if (cluster->owners[slot] != LW__NOBODY) {
        node = lw__node_table_node(&cluster->table, cluster->owners[slot], slot);
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
    return cluster->requested + 1;
}

unsigned lw__cluster_map_version(const struct lw__cluster *cluster)
{
    return cluster->version;
}

bool lw__cluster_is_subscribed(const struct lw__cluster *cluster)
{
    return lw__node_table_all_subscribed(&cluster->table);
}

unsigned lw__cluster_degraded(const struct lw__cluster *cluster)
{
    return cluster->survey.degraded | cluster->promotion.degraded |
           lw__node_table_degraded(&cluster->table);
}

/* ---- events of nodes ---- */

static void up(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    lw__node_table_set_up(&cluster->table, node);
    have_link(cluster); /* even if no map can be had */
    cluster->events->node.up(cluster->arg, node);
}

static void down(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;
    const struct lw__endpoint *endpoint = lw__node_table_endpoint(&cluster->table, node);
    bool listed = lw__node_table_is_listed(&cluster->table, node);
    bool was_up = lw__node_table_set_down(&cluster->table, node);

    lw__log_cause(cluster->options.node.config.log, lw__now_us(),
                  listed ? LOG_WARNING : LOG_NOTICE,
                  "no connection to the cluster's node %s:%u: %s", endpoint->host,
                  (unsigned)endpoint->port, lw__node_reason(node));
    cluster->events->node.down(cluster->arg, node);
    settle(cluster); /* it may be one to drop */
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

/* A redirect without a host leads to the host of the node that replied. */
static void complete(struct lw__endpoint *endpoint, const char *host)
{
    if (endpoint->host[0] == '\0') {
        (void)snprintf(endpoint->host, sizeof(endpoint->host), "%s", host);
    }
}

static void refuse(const struct lw__cluster *cluster, struct lw__command *command,
                   const struct lw__redirect *redirect, const char *what)
{
    const struct lw__endpoint *endpoint = &redirect->endpoint;
    char why[LW_WHY_SIZE];

    (void)snprintf(why, sizeof(why), "slot %u was redirected to %.60s:%u: %.60s",
                   redirect->slot, endpoint->host, (unsigned)endpoint->port, what);
    lw__log_cause(cluster->options.node.config.log, lw__now_us(), LOG_WARNING,
                  "commands redirected to %.60s:%u cannot be sent there: %.60s",
                  endpoint->host, (unsigned)endpoint->port, what);
    lw__node_reject_command(command, why);
}

/* The node knows better than the map. This is done a few times between two maps only:
 * nodes that do not agree would send every command to and fro. */
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
        ask_by(cluster, lw__now_us() + NEEDED_US); /* is the master still needed then? */
    } else {
        ask_about_new_trouble(cluster);
    }
    if (redirect->endpoint.port == 0) {
        lw__log_cause(cluster->options.node.config.log, lw__now_us(), LOG_WARNING,
                      "a redirect names no endpoint (a node without "
                      "cluster-announce-hostname?); names in its slots cannot be locked");
        lw__node_reject_command(command, "redirected to a node without an endpoint");
        return;
    }
    complete(&redirect->endpoint, lw__node_config(node)->host);
    index = get_master(cluster, &redirect->endpoint, "",
                       lw__node_table_endpoint(&cluster->table, node));
    if (index != LW__NOBODY) {
        there = lw__node_table_node(&cluster->table, index, redirect->slot);
    }
    if (there == NULL) {
        refuse(cluster, command, redirect, lw__node_table_alloc_error(&cluster->table));
        return;
    }
    lw__node_table_retain_until(&cluster->table, index, lw__now_us() + NEEDED_US);
    if (!redirect->ask) {
        correct(cluster, redirect, index);
    }
    if (command->request.hops == HOPS) {
        refuse(cluster, command, redirect, "too many redirects");
    } else if (lw__node_is_backing_off(there)) {
        refuse(cluster, command, redirect,
               lw__node_reason(there)); /* it would have to wait there */
    } else {
        cluster->options.node.stats->redirects++;
        lw__node_send_redirected(there, command, redirect->ask);
    }
}

static void slot_unsettled(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    int64_t before_us = lw__node_table_deprioritize(&cluster->table, node);

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

static void keep_slots(void *arg, struct lw__node *node)
{
    struct lw__cluster *cluster = arg;

    if (cluster->events->node.keep_slots != NULL) {
        cluster->events->node.keep_slots(cluster->arg, node);
    }
}

static const struct lw__node_events node_events = {
    up, down, bound, NULL, redirected, slot_unsettled, slot_unsubscribed, keep_slots};

/* ---- its life ---- */

static int make(const struct lw__route_options *options,
                const struct lw__route_events *events, void *arg,
                struct lw__cluster **ret)
{
    struct lw__cluster *cluster = calloc(1, sizeof(*cluster));
    struct lw__node_options masters;

    if (cluster == NULL) {
        return LW_ENOMEM;
    }
    cluster->options = *options;
    cluster->options.node.clustered = true;
    masters = cluster->options.node;
    masters.config.silence = &cluster->silence;
    lw__defer_init(&cluster->silence, silent, cluster);
    if (lw__node_table_init(&cluster->table, &masters, &node_events, cluster) != 0) {
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
    struct lw__loop *loop = options->node.config.loop;
    struct lw__cluster *cluster;
    char why[LW_WHY_SIZE];

    if (make(options, events, arg, &cluster) != 0) {
        return LW_ENOMEM;
    }
    if (lw__timer_reserve(loop, TIMERS) != 0) {
        goto fail;
    }
    if (lw__node_new(&cluster->options.node, &node_events, cluster, &cluster->nowhere) !=
        0) {
        goto fail_reserved;
    }
    cluster->survey.config = &cluster->options.node.config;
    cluster->survey.seeds = options->seeds;
    cluster->survey.seed_count = options->seed_count;
    lw__timer_init(&cluster->survey.another, another_due, &cluster->survey);
    lw__defer_init(&cluster->survey.sweep, sweep, &cluster->survey);
    (void)snprintf(why, sizeof(why), "%.100s:%u has not sent its slot map yet",
                   options->seeds[0].name, (unsigned)options->seeds[0].port);
    lw__node_set_reason(cluster->nowhere, LW_ECONN, why);
    lw__timer_init(&cluster->again, ask, cluster);
    lw__promotion_init(&cluster->promotion, &cluster->options.node.config,
                       &cluster->table, promoted, cluster);
    lw__defer_init(&cluster->remapped, remapped, cluster);
    lw__timer_set(loop, &cluster->again, lw__now_us());
    *ret = cluster;
    return 0;

fail_reserved:
    lw__timer_unreserve(loop, TIMERS);
fail:
    lw__node_table_clear(&cluster->table);
    free(cluster);
    return LW_ENOMEM;
}

void lw__cluster_free(struct lw__cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    end_survey(&cluster->survey);
    lw__defer_cancel(loop_of(cluster), &cluster->survey.sweep);
    sweep(&cluster->survey);
    lw__promotion_clear(&cluster->promotion);
    lw__node_table_clear(&cluster->table);
    lw__defer_cancel(loop_of(cluster), &cluster->silence);
    lw__node_free(cluster->nowhere);
    lw__timer_cancel(loop_of(cluster), &cluster->again);
    lw__defer_cancel(loop_of(cluster), &cluster->remapped);
    lw__timer_unreserve(loop_of(cluster), TIMERS);
    free(cluster->survey.in_use.list);
    free(cluster->survey.in_use_with_gaps.list);
    free(cluster);
}
