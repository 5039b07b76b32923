/* SPDX-License-Identifier: MIT */
/* Surveys a cluster for its slot map: see survey.h. Does not depend on what the map is
 * used for.
 *
 * ask_another() connects to a place, ready() asks it, replied() reads the answer, and
 * take() decides what it is worth. A place that refuses, cannot be reached or answers
 * nonsense has the next one asked at once. go_on() ends the survey when no place is left.
 * A question is freed by sweep(), never from within an event of its connection. */
#include "redis/survey.h"

#include "base/container_of.h"
#include "base/url.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANOTHER_US (200 * (int64_t)LW__MS)
/* The time that the last place has if an answer that is not good has come before. */
#define LAST_US (1000 * (int64_t)LW__MS)
/* Where each slot is a range of its own, and its master has two replicas, with host names
 * that are told in an array of two. */
#define MAP_MAX ((size_t)32 << 20)
#define MAP_ELEMENTS ((size_t)LW__SLOTS * 32)
/* One more than masters.c keeps, so that it refuses those beyond. */
#define MASTERS_MOST 1025

struct lw__slot_map_query {
    struct lw__slot_map_query *next;
    struct lw__survey *survey;
    struct lw__endpoint place;
    struct lw__session_config config; /* leads there */
    struct lw__session session;
    struct lw__request myid_request, info_request, map_request;
    char id[LW__NODE_ID_SIZE];
    struct lw__cluster_info info;
    bool over;
};

/* ---- maps ---- */

static void free_map(struct lw__slot_map *map)
{
    if (map != NULL) {
        free(map->masters);
        free(map->nodes.list);
        free(map);
    }
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorts the ids, and keeps one of each. */
static void sort_ids(struct lw__node_ids *ids)
{
    size_t kept = 0;

    if (ids->count == 0) {
        return;
    }
    qsort(ids->list, ids->count, sizeof(*ids->list), compare_ids);
    for (size_t i = 1; i < ids->count; i++) {
        if (strcmp(ids->list[kept], ids->list[i]) != 0) {
            memcpy(ids->list[++kept], ids->list[i], sizeof(*ids->list));
        }
    }
    ids->count = kept + 1;
}

static bool has_id(const struct lw__node_ids *ids, const char *id)
{
    return ids->count > 0 &&
           bsearch(id, ids->list, ids->count, sizeof(*ids->list), compare_ids) != NULL;
}

static bool share_id(const struct lw__node_ids *a, const struct lw__node_ids *b)
{
    for (size_t i = 0; i < a->count; i++) {
        if (has_id(b, a->list[i])) {
            return true;
        }
    }
    return false;
}

/* Copies the ids of all nodes of the answer. Returns false without memory. */
static bool take_ids(struct lw__slot_map *map, const struct lw__reply *reply)
{
    size_t most = 0, ranges = lw__reply_count(reply);
    char id[LW__NODE_ID_SIZE];

    for (size_t at = 0; at < ranges; at++) {
        most += lw__reply_count(lw__reply_at(reply, at));
    }
    map->nodes.list = calloc(most + 1, sizeof(*map->nodes.list));
    if (map->nodes.list == NULL) {
        return false;
    }
    for (size_t at = 0; at < ranges; at++) {
        for (size_t node = 0; lw__cluster_parse_node_id(reply, at, node, id); node++) {
            if (*id != '\0') {
                memcpy(map->nodes.list[map->nodes.count++], id, sizeof(id));
            }
        }
    }
    sort_ids(&map->nodes);
    return true;
}

/* Returns the index of the range's master in map->masters, where there is room. */
static size_t master_of(struct lw__slot_map *map, const struct lw__range *range)
{
    size_t i = 0;

    while (i < map->count &&
           (!lw__endpoint_equal(&map->masters[i].place, &range->master) ||
            strcmp(map->masters[i].id, range->id) != 0)) {
        i++;
    }
    if (i == MASTERS_MOST) {
        return i - 1;
    }
    if (i == map->count) {
        map->masters[i].place = range->master;
        memcpy(map->masters[i].id, range->id, sizeof(range->id));
        map->count++;
    }
    return i;
}

static void take_ranges(struct lw__slot_map *map, const struct lw__reply *reply)
{
    struct lw__range range;
    size_t slots = 0;

    for (size_t at = 0; lw__cluster_parse_range(reply, &at, &range);) {
        size_t master;

        if (range.master.host[0] == '\0') {
            memcpy(range.master.host, map->by.host, sizeof(range.master.host));
        }
        master = master_of(map, &range);
        for (unsigned slot = range.first; slot <= range.last; slot++) {
            map->owners[slot] = (uint16_t)(master + 1);
        }
        slots += range.master.port != 0 ? range.last - range.first + 1 : 0;
    }
    map->whole = slots == LW__SLOTS;
}

/* Returns NULL without memory. */
static struct lw__slot_map *new_map(const struct lw__slot_map_query *question,
                                    const struct lw__reply *reply)
{
    size_t most = lw__reply_count(reply);
    struct lw__slot_map *map = calloc(1, sizeof(*map));

    if (map == NULL) {
        return NULL;
    }
    map->by = question->place;
    memcpy(map->by_id, question->id, sizeof(map->by_id));
    map->info = question->info;
    map->masters =
        calloc(most < MASTERS_MOST ? most : MASTERS_MOST, sizeof(*map->masters));
    if (map->masters == NULL || !take_ids(map, reply)) {
        free_map(map);
        return NULL;
    }
    take_ranges(map, reply);
    return map;
}

/* ---- which one is believed ---- */

static bool holds_none(const struct lw__survey *survey)
{
    return survey->held->nodes.count == 0;
}

static bool is_foreign(const struct lw__survey *survey, const struct lw__slot_map *map)
{
    return !holds_none(survey) && map->nodes.count > 0 &&
           !share_id(&map->nodes, &survey->held->nodes);
}

/* Returns true if the answer needs a majority of the seeds, although it is not foreign:
 * it has slots without an owner, as the map of a node that was left alone has. */
static bool is_doubtful(const struct lw__survey *survey, const struct lw__slot_map *map)
{
    return holds_none(survey) && map->nodes.count > 0 && !map->info.down &&
           !share_id(&map->nodes, &survey->held->gaps);
}

static bool is_older(const struct lw__survey *survey, const struct lw__slot_map *map)
{
    return map->info.epoch != 0 && map->info.epoch < survey->held->epoch;
}

/* The map in use is newer, and this node serves none of its slots. */
static bool is_outdated(const struct lw__survey *survey, const struct lw__slot_map *map)
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

static bool is_seed(const struct lw__survey *survey, const struct lw__endpoint *place)
{
    for (size_t i = 0; i < survey->seed_count; i++) {
        struct lw__endpoint seed = {.port = survey->seeds[i].port};

        (void)snprintf(seed.host, sizeof(seed.host), "%s", survey->seeds[i].name);
        if (lw__endpoint_equal(&seed, place)) {
            return true;
        }
    }
    return false;
}

/* Two seeds may be two names of one node. */
static bool is_counted(const struct lw__survey *survey, const struct lw__slot_map *map)
{
    for (size_t i = 0; i < survey->foreign_count && *map->by_id != '\0'; i++) {
        if (strcmp(survey->foreign[i]->by_id, map->by_id) == 0) {
            return true;
        }
    }
    return false;
}

static void keep_foreign(struct lw__survey *survey, struct lw__slot_map *map)
{
    struct lw__slot_map **grown = NULL;

    if (is_seed(survey, &map->by) && is_counted(survey, map)) {
        survey->aliases++;
    } else if (is_seed(survey, &map->by)) {
        grown = realloc(survey->foreign,
                        (survey->foreign_count + 1) * sizeof(struct lw__slot_map *));
    }
    if (grown == NULL) {
        free_map(map);
        return;
    }
    survey->foreign = grown;
    survey->foreign[survey->foreign_count++] = map;
}

static size_t count_seeds(const struct lw__survey *survey)
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
static struct lw__slot_map *agreed(struct lw__survey *survey)
{
    struct lw__slot_map **best = NULL, *ret;

    for (size_t i = 0; i < survey->foreign_count; i++) {
        size_t votes = 0;

        for (size_t j = 0; j < survey->foreign_count; j++) {
            votes += share_id(&survey->foreign[i]->nodes, &survey->foreign[j]->nodes);
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

static void forget_answers(struct lw__survey *survey)
{
    free_map(survey->best);
    survey->best = NULL;
    for (size_t i = 0; i < survey->foreign_count; i++) {
        free_map(survey->foreign[i]);
    }
    free(survey->foreign);
    survey->foreign = NULL;
    survey->foreign_count = survey->aliases = 0;
}

/* ---- questions ---- */

static void sweep(void *arg)
{
    struct lw__survey *survey = arg;
    struct lw__slot_map_query **at = &survey->questions, *one;

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

static void end(struct lw__survey *survey)
{
    survey->open = false;
    lw__timer_cancel(survey->config->loop, &survey->another);
    for (struct lw__slot_map_query *one = survey->questions; one != NULL;
         one = one->next) {
        one->over = true;
    }
    lw__defer(survey->config->loop, &survey->sweep, false);
    free(survey->places);
    survey->places = NULL;
    forget_answers(survey);
}

static void end_with(struct lw__survey *survey, struct lw__slot_map *map)
{
    end(survey);
    survey->events->believed(survey->arg, map);
    free_map(map);
}

static void end_without_good_answer(struct lw__survey *survey)
{
    struct lw__slot_map *best = survey->best, *map = NULL;
    bool first = holds_none(survey) && survey->held->gaps.count == 0;

    survey->best = NULL;
    if (best != NULL && is_outdated(survey, best)) { /* then all are */
        free_map(best);
        best = NULL;
    }
    if (best == NULL || first) {
        map = agreed(survey);
    }
    if (map == NULL) {
        map = best;
    } else {
        free_map(best);
    }
    if (map != NULL) {
        end_with(survey, map);
        return;
    }
    end(survey);
    survey->events->in_vain(survey->arg, survey->why);
}

static void note(struct lw__survey *survey, const struct lw__endpoint *place, int status,
                 const char *why)
{
    survey->status = lw__session_combine_status(survey->status, status);
    if (survey->length < sizeof(survey->why)) {
        survey->length += (size_t)snprintf(
            survey->why + survey->length, sizeof(survey->why) - survey->length,
            "; %s:%u: %s", place->host, (unsigned)place->port, why);
    }
}

static void ask_another(void *arg);

static bool is_waiting(const struct lw__survey *survey)
{
    const struct lw__slot_map_query *one = survey->questions;

    while (one != NULL && one->over) {
        one = one->next;
    }
    return one != NULL;
}

static bool has_answer(const struct lw__survey *survey)
{
    return survey->best != NULL || (holds_none(survey) && survey->foreign_count > 0);
}

static void go_on(struct lw__survey *survey)
{
    if (survey->next < survey->count) {
        ask_another(survey);
    } else if (!is_waiting(survey)) {
        end_without_good_answer(survey);
    } else if (has_answer(survey) && !lw__timer_is_set(&survey->another)) {
        lw__timer_set(survey->config->loop, &survey->another, lw__now_us() + LAST_US);
    }
}

static void close_question(struct lw__slot_map_query *question)
{
    question->over = true;
    lw__defer(question->survey->config->loop, &question->survey->sweep, false);
}

static void failed(struct lw__slot_map_query *question, int status, const char *why)
{
    if (!question->over) {
        close_question(question);
        note(question->survey, &question->place, status, why);
        go_on(question->survey);
    }
}

/* What is not good is kept, and the next place asked at once.
 *
 * A node that was left alone with some of the slots serves them, so that a client without
 * a map would acquire locks there which the cluster knows nothing of: a majority of the
 * seeds must agree with such a map. (A master that has failed keeps its slots in the
 * others' maps, so that few clusters have gaps.) A node that takes the cluster for down
 * serves nothing. */
static void take(struct lw__slot_map_query *question, struct lw__slot_map *map)
{
    struct lw__survey *survey = question->survey;
    bool foreign = is_foreign(survey, map);

    map->good = !foreign && !map->info.down && map->whole && !is_older(survey, map);
    if (map->good) {
        end_with(survey, map);
        return;
    }
    if (!foreign && is_outdated(survey, map)) {
        note(survey, &question->place, LW_ECONN,
             "it takes the cluster for down, and its map is older than the one in use");
    }
    if (foreign) {
        note(survey, &question->place, LW_ECONN, "it is a node of another cluster");
        keep_foreign(survey, map);
    } else if (is_doubtful(survey, map)) {
        note(survey, &question->place, LW_ECONN, "it knows no owner of some slots");
        keep_foreign(survey, map);
    } else if (survey->best == NULL || is_better(map, survey->best)) {
        free_map(survey->best);
        survey->best = map;
    } else {
        free_map(map);
    }
    close_question(question);
    go_on(survey);
}

static void map_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__slot_map_query *question =
        LW__CONTAINER_OF(struct lw__slot_map_query, map_request, request);
    struct lw__slot_map *map;
    char why[LW__WHY_MAX];

    if (question->over) {
        return;
    }
    if (!lw__cluster_parse_map(reply, why)) {
        bool refused = lw__reply_type(reply) == LW__REPLY_ERROR &&
                       lw__classify_guide(lw__reply_text(reply, NULL));

        failed(question, refused ? LW_EREDIS : LW_ECONN, why);
        return;
    }
    map = new_map(question, reply);
    if (map == NULL) {
        failed(question, LW_ENOMEM, lw_strerror(LW_ENOMEM));
    } else {
        take(question, map);
    }
}

static void myid_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__slot_map_query *question =
        LW__CONTAINER_OF(struct lw__slot_map_query, myid_request, request);

    lw__cluster_parse_myid(reply, question->id);
}

static void info_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__slot_map_query *question =
        LW__CONTAINER_OF(struct lw__slot_map_query, info_request, request);

    question->info = lw__cluster_parse_info(reply);
}

static void ready(void *arg)
{
    static const struct lw__request_type myid_type = {myid_told, NULL};
    static const struct lw__request_type info_type = {info_told, NULL};
    static const struct lw__request_type map_type = {map_told, NULL};
    struct lw__slot_map_query *question = arg;

    lw__session_request(&question->session, &question->myid_request, &myid_type, 2,
                        (const char *[]){"CLUSTER", "MYID"});
    lw__session_request(&question->session, &question->info_request, &info_type, 2,
                        (const char *[]){"CLUSTER", "INFO"});
    lw__session_request(&question->session, &question->map_request, &map_type, 2,
                        (const char *[]){"CLUSTER", "SLOTS"});
}

static void lost(void *arg, const char *why)
{
    struct lw__slot_map_query *question = arg;

    failed(question, question->session.failure.status, why);
}

/* Returns NULL without memory. */
static struct lw__slot_map_query *ask(struct lw__survey *survey,
                                      const struct lw__endpoint *place)
{
    static const struct lw__session_events events = {ready, lost, NULL, NULL, NULL};
    struct lw__slot_map_query *question = calloc(1, sizeof(*question));

    if (question == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(survey->config->loop, 1) != 0) {
        free(question);
        return NULL;
    }
    question->survey = survey;
    question->place = *place;
    question->config = *survey->config;
    question->config.host = question->place.host;
    question->config.port = question->place.port;
    question->config.reply_max = MAP_MAX;
    question->config.reply_elements = MAP_ELEMENTS;
    lw__session_init(&question->session, &question->config, &events, question);
    lw__session_start(&question->session);
    return question;
}

static void ask_another(void *arg)
{
    struct lw__survey *survey = arg;
    const struct lw__endpoint *place = &survey->places[survey->next++];
    struct lw__slot_map_query *question = ask(survey, place);
    bool last = survey->next == survey->count;

    lw__timer_cancel(survey->config->loop, &survey->another);
    if (question == NULL) {
        note(survey, place, LW_ENOMEM, lw_strerror(LW_ENOMEM));
        lw__timer_set(survey->config->loop, &survey->another, lw__now_us() + ANOTHER_US);
        return;
    }
    if (!last || has_answer(survey)) {
        lw__timer_set(survey->config->loop, &survey->another,
                      lw__now_us() + (last ? LAST_US : ANOTHER_US));
    }
    question->next = survey->questions;
    survey->questions = question;
}

/* No place is left: those that are silent have had their time. */
static void another_due(void *arg)
{
    struct lw__survey *survey = arg;

    if (survey->next == survey->count && has_answer(survey)) {
        end_without_good_answer(survey);
    } else {
        go_on(survey);
    }
}

void lw__survey_begin(struct lw__survey *survey, struct lw__endpoint *places,
                      size_t count)
{
    if (survey->open) {
        end(survey);
    }
    survey->open = true;
    survey->places = places;
    survey->count = count;
    survey->next = 0;
    survey->status = 0;
    survey->length = (size_t)snprintf(survey->why, sizeof(survey->why),
                                      "no node tells which slots the nodes have");
    ask_another(survey);
}

int lw__survey_init(struct lw__survey *survey, const struct lw__session_config *config,
                    const struct lw__url_host *seeds, size_t seed_count,
                    const struct lw__survey_held *held,
                    const struct lw__survey_events *events, void *arg)
{
    *survey = (struct lw__survey){.events = events,
                                  .arg = arg,
                                  .config = config,
                                  .seeds = seeds,
                                  .seed_count = seed_count,
                                  .held = held};
    lw__timer_init(&survey->another, another_due, survey);
    lw__defer_init(&survey->sweep, sweep, survey);
    return lw__timer_reserve(config->loop, 1) == 0 ? 0 : LW_ENOMEM;
}

void lw__survey_clear(struct lw__survey *survey)
{
    end(survey);
    lw__defer_cancel(survey->config->loop, &survey->sweep);
    sweep(survey);
    lw__timer_unreserve(survey->config->loop, 1);
}
