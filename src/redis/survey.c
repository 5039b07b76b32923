/* SPDX-License-Identifier: MIT */
/* A question to a cluster: see survey.h. Must not know what it is asked for. Happy path:
 * ask_another(), ready(), told(), over. A place that refuses, is not there, or says what
 * is of no use has the next one asked at once; the last of them, in_vain(). A question is
 * freed by sweep(), never from within what its connection tells. */
#include "redis/survey.h"

#include "base/owner.h"
#include "lockwire.h"
#include "loop/now.h"
#include "redis/classify.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdio.h>
#include <stdlib.h>

#define ANOTHER_US (200 * (int64_t)LW__MS)
/* Where each slot is a range of its own, and its master has two replicas, with host names
 * that are told in an array of two. */
#define MAP_MAX ((size_t)32 << 20)
#define MAP_ELEMENTS ((size_t)LW__SLOTS * 32)

struct lw__question {
    struct lw__question *next;
    struct lw__survey *survey;
    struct lw__place place;
    struct lw__access access; /* leads there */
    struct lw__session session;
    struct lw__request request;
    bool over;
};

static void sweep(void *arg)
{
    struct lw__survey *survey = arg;
    struct lw__question **at = &survey->questions, *one;

    while ((one = *at) != NULL) {
        if (!one->over) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        lw__session_stop(&one->session);
        lw__timer_unreserve(survey->access->loop, 1);
        free(one);
    }
}

static void end(struct lw__survey *survey)
{
    survey->open = false;
    lw__timer_cancel(survey->access->loop, &survey->another);
    for (struct lw__question *one = survey->questions; one != NULL; one = one->next) {
        one->over = true;
    }
    lw__defer(survey->access->loop, &survey->sweep, false);
    free(survey->places);
    survey->places = NULL;
}

static void note(struct lw__survey *survey, const struct lw__place *place, int status,
                 const char *why)
{
    survey->status = lw__session_worse(survey->status, status);
    if (survey->length < sizeof(survey->why)) {
        survey->length += (size_t)snprintf(
            survey->why + survey->length, sizeof(survey->why) - survey->length,
            "; %s:%u: %s", place->host, (unsigned)place->port, why);
    }
}

static void ask_another(void *arg);

static bool is_waiting(const struct lw__survey *survey)
{
    const struct lw__question *one = survey->questions;

    while (one != NULL && one->over) {
        one = one->next;
    }
    return one != NULL;
}

static void go_on(struct lw__survey *survey)
{
    if (survey->next < survey->count) {
        ask_another(survey);
    } else if (!is_waiting(survey)) {
        end(survey);
        survey->events->in_vain(survey->arg, survey->why);
    }
}

static void failed(struct lw__question *question, int status, const char *why)
{
    struct lw__survey *survey = question->survey;

    if (question->over) {
        return;
    }
    question->over = true;
    lw__defer(survey->access->loop, &survey->sweep, false);
    note(survey, &question->place, status, why);
    go_on(survey);
}

static void told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__question *question = LW__OWNER(struct lw__question, request, request);
    struct lw__survey *survey = question->survey;
    char why[LW__WHY];

    if (question->over) {
        return;
    }
    if (survey->events->answered(survey->arg, &question->place, reply, why)) {
        end(survey);
    } else {
        bool refused = lw__reply_type(reply) == LW__REPLY_ERROR &&
                       lw__classify_guide(lw__reply_text(reply, NULL));

        failed(question, refused ? LW_EREDIS : LW_ECONN, why);
    }
}

static void ready(void *arg)
{
    static const struct lw__request_type type = {told, NULL};
    struct lw__question *question = arg;

    lw__session_say(&question->session, &question->request, &type, 2,
                    (const char *[]){"CLUSTER", "SLOTS"});
}

static void lost(void *arg, const char *why)
{
    struct lw__question *question = arg;

    failed(question, question->session.failure.status, why);
}

/* NULL: no memory. */
static struct lw__question *ask(struct lw__survey *survey, const struct lw__place *place)
{
    static const struct lw__session_events events = {ready, lost, NULL, NULL, NULL};
    struct lw__question *question = calloc(1, sizeof(*question));

    if (question == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(survey->access->loop, 1) != 0) {
        free(question);
        return NULL;
    }
    question->survey = survey;
    question->place = *place;
    question->access = *survey->access;
    question->access.host = question->place.host;
    question->access.port = question->place.port;
    question->access.reply_max = MAP_MAX;
    question->access.reply_elements = MAP_ELEMENTS;
    lw__session_init(&question->session, &question->access, &events, question);
    lw__session_start(&question->session);
    return question;
}

static void ask_another(void *arg)
{
    struct lw__survey *survey = arg;
    const struct lw__place *place = &survey->places[survey->next++];
    struct lw__question *question = ask(survey, place);

    if (survey->next < survey->count) {
        lw__timer_set(survey->access->loop, &survey->another, lw__now_us() + ANOTHER_US);
    }
    if (question == NULL) {
        note(survey, place, LW_ENOMEM, lw_strerror(LW_ENOMEM));
        lw__timer_set(survey->access->loop, &survey->another, lw__now_us() + ANOTHER_US);
        return;
    }
    question->next = survey->questions;
    survey->questions = question;
}

static void another_due(void *arg)
{
    go_on(arg);
}

void lw__survey_begin(struct lw__survey *survey, struct lw__place *places, size_t count)
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

int lw__survey_init(struct lw__survey *survey, const struct lw__access *access,
                    const struct lw__survey_events *events, void *arg)
{
    *survey = (struct lw__survey){.events = events, .arg = arg, .access = access};
    lw__timer_init(&survey->another, another_due, survey);
    lw__defer_init(&survey->sweep, sweep, survey);
    return lw__timer_reserve(access->loop, 1) == 0 ? 0 : LW_ENOMEM;
}

void lw__survey_clear(struct lw__survey *survey)
{
    end(survey);
    lw__defer_cancel(survey->access->loop, &survey->sweep);
    sweep(survey);
    lw__timer_unreserve(survey->access->loop, 1);
}
