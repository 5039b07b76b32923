/* SPDX-License-Identifier: MIT */
/* The subscription to +switch-master, at one sentinel. Must not know what follows from a
 * switch. Happy path: started, subscribed, following(); switched() at each message about
 * the service. When that connection is lost the next attempt goes to another sentinel; a
 * sentinel that forbids the channel ends it until it is started again, which is done ever
 * more rarely. */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "lockwire.h"
#include "redis/link.h"
#include "redis/reply.h"

#include <string.h>
#include <strings.h>
#include <syslog.h>

#define CHANNEL "+switch-master"
#define PAUSE_MAX 1000 /* starts */

static void subscribe(struct lw__follow *follow)
{
    if (lw__link_subscribe(follow->session.link, CHANNEL) != 0) {
        lw__session_fail(&follow->session, lw_strerror(LW_ENOMEM));
    }
}

static void ready(void *arg)
{
    subscribe(arg);
}

static void lead(struct lw__follow *follow, const struct lw__place *place)
{
    follow->place = *place;
    follow->access.host = follow->place.host;
    follow->access.port = follow->place.port;
}

static void lost(void *arg, const char *why)
{
    struct lw__follow *follow = arg;
    const struct lw__place *next = follow->events->next(follow->arg, &follow->place);

    follow->following = false;
    if (follow->session.state == LW__SESSION_STOPPED) {
        follow->waits = follow->pause;
        follow->pause = follow->pause < PAUSE_MAX ? follow->pause * 2 + 1 : PAUSE_MAX;
    }
    if (follow->session.state == LW__SESSION_STOPPED && !follow->forbidden_told) {
        follow->forbidden_told = true;
        lw__log(follow->access.log, LOG_WARNING,
                "the sentinel does not permit to subscribe to %s, a failover is found "
                "by asking from time to time: %s",
                CHANNEL, why);
    }
    if (next != NULL) {
        lead(follow, next);
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__follow *follow = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);
    struct lw__place to;

    if (strcasecmp(kind, "message") != 0) {
        if (!follow->following) {
            follow->following = true;
            follow->pause = 0;
            follow->events->following(follow->arg);
        }
    } else if (lw__sentinel_says_switch(text, length, follow->service, &to)) {
        follow->events->switched(follow->arg, &to);
    }
}

void lw__sentinel_follow_init(struct lw__follow *follow, const struct lw__access *access,
                              const char *service, const struct lw__follow_events *events,
                              void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, push, NULL};

    *follow = (struct lw__follow){
        .events = events, .arg = arg, .service = service, .access = *access};
    lw__session_init(&follow->session, &follow->access, &session_events, follow);
}

void lw__sentinel_follow_start(struct lw__follow *follow, const struct lw__place *place)
{
    if (follow->session.state != LW__SESSION_STOPPED) {
        return;
    }
    if (follow->waits > 0) {
        follow->waits--;
    } else {
        lead(follow, place);
        lw__session_start(&follow->session);
    }
}

void lw__sentinel_follow_heartbeat(struct lw__follow *follow)
{
    if (follow->following) {
        subscribe(follow);
    }
}

void lw__sentinel_follow_leave(struct lw__follow *follow, const char *why)
{
    lw__session_fail(&follow->session, why);
}
