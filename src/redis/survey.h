/* SPDX-License-Identifier: MIT */
/* One question to a cluster, put to one of its nodes after the other until one answers:
 * where is each slot? Each by a connection of its own, so that a node that is silent
 * delays nobody. Must not know what is made of the answer.
 *
 * Happy path: lw__survey_begin; the first place is asked, and while nothing comes, every
 * 200 ms one more; `answered`, and all others are let go of. */
#ifndef LW_SURVEY_H
#define LW_SURVEY_H
#include "redis/cluster_says.h"
#include "redis/session.h"

struct lw__question;

struct lw__survey_events {
    /* The answer to CLUSTER SLOTS. false: of no use, `why` (size LW__WHY) tells. */
    bool (*answered)(void *arg, const struct lw__place *by, const struct lw__reply *reply,
                     char *why);
    /* None of the places has told; `why` has what each of them said. */
    void (*in_vain)(void *arg, const char *why);
};

struct lw__survey {
    const struct lw__survey_events *events;
    void *arg;
    const struct lw__access *access; /* but for the host */
    struct lw__place *places;
    size_t count, next;
    struct lw__question *questions;
    struct lw__timer another;
    struct lw__deferred sweep; /* of questions that are over */
    bool open;
    /* The class of all failures so far (lw__session_worse); 0 if there was none. */
    int status;
    size_t length; /* of what is told so far */
    char why[LW__TOLD];
};

/* What is pointed at lives as long as it. 0, LW_ENOMEM. */
int lw__survey_init(struct lw__survey *survey, const struct lw__access *access,
                    const struct lw__survey_events *events, void *arg);
/* The places are its own from now on, to be freed. One that is open is given up. */
void lw__survey_begin(struct lw__survey *survey, struct lw__place *places, size_t count);
void lw__survey_clear(struct lw__survey *survey);
#endif
