/* SPDX-License-Identifier: MIT */
/* One sentinel, to be asked: its connection, which is kept alive, the question where the
 * master is, and what it said. Must not know the other ones. Happy path: asked, at once
 * or when it is ready; heard. Whatever goes wrong before that (a name, a connection, a
 * login, an answer of no use) is heard as well, with why. A learnt sentinel that does not
 * prove the id under which it was learnt is connected to ever more rarely. */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "base/container_of.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

#define PAUSE_MAX 60 /* rounds */

static void heard(struct lw__sentinel *sentinel, bool useful)
{
    sentinel->open = false;
    sentinel->useful = useful;
    sentinel->events->heard(sentinel->arg, sentinel);
}

static void ask_now(struct lw__sentinel *sentinel);

static void master_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__sentinel *sentinel =
        LW__CONTAINER_OF(struct lw__sentinel, master_request, request);

    if (sentinel->stale) {
        ask_now(sentinel);
    } else {
        const char *error = lw__reply_text(reply, NULL);

        sentinel->said_us = lw__now_us();
        sentinel->status = lw__reply_type(reply) == LW__REPLY_ERROR &&
                                   lw__classify_guide(error)
                               ? LW_EREDIS
                               : LW_ECONN;
        heard(sentinel, lw__sentinel_parse_master(reply, &sentinel->said, sentinel->why));
    }
}

static void others_told(struct lw__request *request, const struct lw__reply *reply)
{
    struct lw__sentinel *sentinel =
        LW__CONTAINER_OF(struct lw__sentinel, others_request, request);

    sentinel->events->others(sentinel->arg, sentinel, reply);
}

static void say(struct lw__sentinel *sentinel, struct lw__request *request,
                const struct lw__request_type *type, const char *what)
{
    if (request->prev == NULL) {
        lw__session_request(&sentinel->session, request, type, 3,
                            (const char *[]){"SENTINEL", what, sentinel->service});
    }
}

static void ask_now(struct lw__sentinel *sentinel)
{
    static const struct lw__request_type type = {master_told, NULL};

    sentinel->stale = sentinel->stale && sentinel->master_request.prev != NULL;
    if (sentinel->open) {
        say(sentinel, &sentinel->master_request, &type, "MASTER");
    }
}

static void ready(void *arg)
{
    struct lw__sentinel *sentinel = arg;

    sentinel->pause = 0;
    ask_now(sentinel);
}

static void be_warned(struct lw__sentinel *sentinel, const char *why)
{
    if (!sentinel->useless_told) {
        lw__log(sentinel->config.log, LOG_WARNING, "sentinel %s:%u: %s",
                sentinel->place.host, (unsigned)sentinel->place.port, why);
    }
    sentinel->useless_told = true;
}

static void lost(void *arg, const char *why)
{
    struct lw__sentinel *sentinel = arg;

    if (sentinel->session.stranger) {
        be_warned(sentinel, why);
        sentinel->waits = sentinel->pause;
        sentinel->pause = sentinel->pause < PAUSE_MAX ? sentinel->pause * 2 + 1
                                                      : PAUSE_MAX;
        lw__session_stop(&sentinel->session);
    }
    if (sentinel->open) {
        (void)snprintf(sentinel->why, sizeof(sentinel->why), "%s", why);
        sentinel->status = sentinel->session.failure.status;
        heard(sentinel, false);
    }
}

bool lw__sentinel_ask_stands(const struct lw__sentinel *sentinel)
{
    return sentinel->session.state == LW__SESSION_READY;
}

void lw__sentinel_ask(struct lw__sentinel *sentinel)
{
    if (sentinel->waits > 0) {
        sentinel->waits--;
        return;
    }
    sentinel->open = true;
    if (lw__sentinel_ask_stands(sentinel)) {
        ask_now(sentinel);
    } else if (sentinel->session.state != LW__SESSION_CONNECTING) {
        lw__session_stop(&sentinel->session);
        lw__session_start(&sentinel->session);
    }
}

void lw__sentinel_ask_forget(struct lw__sentinel *sentinel)
{
    sentinel->stale = sentinel->master_request.prev != NULL;
}

void lw__sentinel_ask_others(struct lw__sentinel *sentinel)
{
    static const struct lw__request_type type = {others_told, NULL};

    if (lw__sentinel_ask_stands(sentinel)) {
        say(sentinel, &sentinel->others_request, &type, "SENTINELS");
    }
}

/* A name may stand for several of them, of which it is the one that was tried last. */
bool lw__sentinel_ask_is_at(const struct lw__sentinel *sentinel,
                            const struct lw__endpoint *place)
{
    const struct lw__session *session = &sentinel->session;

    return lw__endpoint_equal(&sentinel->place, place) ||
           (session->address < session->addresses.count &&
            sentinel->place.port == place->port &&
            strcasecmp(session->addresses.list[session->address].text, place->host) == 0);
}

struct lw__sentinel *lw__sentinel_ask_new(const struct lw__session_config *config,
                                          const char *service,
                                          const struct lw__endpoint *place,
                                          const char *id,
                                          const struct lw__sentinel_events *events,
                                          void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, NULL, NULL,
                                                             NULL};
    struct lw__sentinel *sentinel = calloc(1, sizeof(*sentinel));

    if (sentinel == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(config->loop, 1) != 0) {
        free(sentinel);
        return NULL;
    }
    sentinel->events = events;
    sentinel->arg = arg;
    sentinel->service = service;
    sentinel->place = *place;
    sentinel->config = *config;
    sentinel->config.host = sentinel->place.host;
    sentinel->config.port = sentinel->place.port;
    sentinel->learnt = id != NULL;
    if (id != NULL) {
        (void)snprintf(sentinel->id, sizeof(sentinel->id), "%s", id);
        sentinel->config.sentinel_id = sentinel->id;
    }
    lw__session_init(&sentinel->session, &sentinel->config, &session_events, sentinel);
    return sentinel;
}

void lw__sentinel_ask_free(struct lw__sentinel *sentinel)
{
    lw__session_stop(&sentinel->session);
    lw__timer_unreserve(sentinel->config.loop, 1);
    free(sentinel);
}
