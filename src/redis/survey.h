/* SPDX-License-Identifier: MIT */
/* Asks a cluster's nodes for the slot map and chooses the answer to believe. Each node is
 * asked over a connection of its own, so that a silent node delays none of the others.
 * Does not depend on what the map is used for.
 *
 * lw__survey_begin asks the first place, and one more every 200 ms until a good answer
 * comes. An answer is good if
 *   - its node does not take the cluster for down (CLUSTER INFO),
 *   - it has an owner for every slot,
 *   - its epoch is no earlier than that of the map in use,
 *   - it shares a node id with the map in use, if there is one.
 * A good answer is believed, and the survey ends. After any other answer the next place
 * is asked at once. If no answer is good, the best of those that share a node id is
 * believed once all places have answered or have had their time: one whose node does not
 * take the cluster for down before others, then the latest epoch. But if its node takes
 * the cluster for down and its epoch is earlier than that of the map in use, no answer is
 * believed. If none shares a node id, the seeds decide: an answer with which a majority
 * of all distinct seeds agree is believed. If there is no map in use yet, an answer with
 * slots without an owner needs that majority, too; failing that, the best of the nodes
 * that take the cluster for down is believed. As long as only maps with such slots were
 * believed, a further one of them needs a majority unless it shares a node id with the
 * map in use; maps that are whole are not compared with it. */
#ifndef LW_SURVEY_H
#define LW_SURVEY_H
#include "redis/cluster_parse.h"
#include "redis/session.h"
#include "redis/slot.h"

struct lw__slot_map_query;

/* The nodes that a map names, masters and replicas, sorted. */
struct lw__node_ids {
    char (*list)[LW__NODE_ID_SIZE];
    size_t count;
};

/* One node's answer. */
struct lw__slot_map {
    struct lw__map_master {
        struct lw__endpoint
            place; /* with the host of the node that answered, if it is "" */
        char id[LW__NODE_ID_SIZE];
    } * masters;
    size_t count;
    uint16_t owners[LW__SLOTS]; /* index in `masters` plus 1; 0 if no node has the slot */
    struct lw__node_ids nodes;
    struct lw__cluster_info info;
    bool whole;                   /* every slot has an owner */
    bool good;                    /* as defined above */
    struct lw__endpoint by;       /* the node that answered, */
    char by_id[LW__NODE_ID_SIZE]; /* and its id, "" if unknown */
};

/* The map in use, with which answers are compared. */
struct lw__survey_held {
    struct lw__node_ids nodes; /* none: any answer will do */
    struct lw__node_ids gaps;  /* instead, if the map in use has slots without an owner */
    uint64_t epoch;            /* 0 if unknown */
};

struct lw__survey_events {
    /* The survey has ended with this map, which may be changed and is freed afterwards.
     */
    void (*believed)(void *arg, struct lw__slot_map *map);
    /* The survey has ended without a map; `why` has the reason of each place. */
    void (*in_vain)(void *arg, const char *why);
};

struct lw__survey {
    const struct lw__survey_events *events;
    void *arg;
    const struct lw__session_config *config; /* except for the host */
    const struct lw__url_host *seeds;
    size_t seed_count;
    const struct lw__survey_held *held;
    struct lw__endpoint *places;
    size_t count, next;
    struct lw__slot_map_query *questions;
    struct lw__slot_map *best; /* the best answer so far that is not good, or NULL */
    /* Of seeds: the answers that need a majority, since they share no node id, or have
     * slots without an owner. */
    struct lw__slot_map **foreign;
    size_t foreign_count,
        aliases; /* aliases: seeds that are names of a node counted before */
    struct lw__timer another;
    struct lw__deferred sweep; /* frees finished questions */
    bool open;
    /* The class of all failures so far (lw__session_combine_status); 0 if there was none.
     */
    int status;
    size_t length; /* of `why` */
    char why[LW__TEXT_MAX];
};

/* What is pointed at must live as long as the survey. Returns 0, or LW_ENOMEM. */
int lw__survey_init(struct lw__survey *survey, const struct lw__session_config *config,
                    const struct lw__url_host *seeds, size_t seed_count,
                    const struct lw__survey_held *held,
                    const struct lw__survey_events *events, void *arg);
/* Starts a survey; one that is open is given up. Takes ownership of `places`, at least
 * one, in the order in which they are to be asked. */
void lw__survey_begin(struct lw__survey *survey, struct lw__endpoint *places,
                      size_t count);
void lw__survey_clear(struct lw__survey *survey);
#endif
