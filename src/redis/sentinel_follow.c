/* SPDX-License-Identifier: MIT */
/* The subscription to +switch-master at a sentinel. Must not know what follows from a
 * switch. Happy path: started, subscribed, following(); switched() at each message about
 * the service. A connection that is lost is made again; a sentinel that forbids the
 * channel ends it until it is started again, which is done ever more rarely. */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
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

static void lost(void *arg, const char *why)
{
    struct lw__follow *follow = arg;

    follow->following = false;
    if (follow->session.state != LW__SESSION_STOPPED) {
        return;
    }
    follow->waits = follow->pause;
    follow->pause = follow->pause < PAUSE_MAX ? follow->pause * 2 + 1 : PAUSE_MAX;
    if (!follow->forbidden_told) {
        follow->forbidden_told = true;
        lw__log(follow->config->log, LOG_WARNING,
                "sentinel %s:%u does not permit to subscribe to %s, what it does is "
                "found by asking from time to time: %s",
                follow->config->host, (unsigned)follow->config->port, CHANNEL, why);
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__follow *follow = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);
    struct lw__endpoint from, to;

    if (strcasecmp(kind, "message") != 0) {
        if (!follow->following) {
            follow->following = true;
            follow->pause = 0;
            follow->events->following(follow->arg);
        }
    } else if (lw__sentinel_parse_switch(text, length, follow->service, &from, &to)) {
        follow->events->switched(follow->arg, &from, &to);
    }
}

int lw__sentinel_follow_open(struct lw__follow *follow,
                             const struct lw__session_config *config, const char *service,
                             const struct lw__follow_events *events, void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, push, NULL,
                                                             NULL};

    if (lw__timer_reserve(config->loop, 1) != 0) {
        return LW_ENOMEM;
    }
    *follow = (struct lw__follow){
        .events = events, .arg = arg, .service = service, .config = config};
    lw__session_init(&follow->session, config, &session_events, follow);
    return 0;
}

void lw__sentinel_follow_close(struct lw__follow *follow)
{
    lw__session_stop(&follow->session);
    lw__timer_unreserve(follow->config->loop, 1);
}

void lw__sentinel_follow_start(struct lw__follow *follow)
{
    if (follow->session.state != LW__SESSION_STOPPED) {
        return;
    }
    if (follow->waits > 0) {
        follow->waits--;
    } else {
        lw__session_start(&follow->session);
    }
}

void lw__sentinel_follow_stop(struct lw__follow *follow)
{
    lw__session_stop(&follow->session);
    follow->following = false;
}

void lw__sentinel_follow_heartbeat(struct lw__follow *follow)
{
    if (follow->following) {
        subscribe(follow);
    }
}
