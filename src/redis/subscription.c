/* SPDX-License-Identifier: MIT */
/* Whether messages count, and the connection on which they come: see subscription.h.
 * Happy path: ready(), both channels confirmed, counted, bound. A server that forbids the
 * channels ends the tries until its session is started again; one that does not count us
 * has the connection made anew, and the command link too where that was in vain. */
#include "redis/subscription.h"

#include "base/log.h"
#include "lockwire.h"
#include "redis/link.h"
#include "redis/reply.h"

#include <string.h>
#include <strings.h>
#include <syslog.h>

#define COMMANDS_TOO 3 /* counts of 0 in a row; then after twice as many each time */

static void subscribe(struct lw__subscription *s, const char *channel)
{
    if (s->session.link != NULL && lw__link_subscribe(s->session.link, channel) != 0) {
        lw__session_fail(&s->session, lw_strerror(LW_ENOMEM));
    }
}

void lw__subscription_heartbeat(struct lw__subscription *subscription)
{
    if (subscription->confirmed) {
        subscribe(subscription, subscription->own_channel);
    }
}

static void ready(void *arg)
{
    struct lw__subscription *s = arg;

    s->nonce++;
    lw__format_connection_channel(s->uuid, s->nonce, s->connection_channel);
    subscribe(s, s->own_channel);
    subscribe(s, s->connection_channel);
}

static void lost(void *arg, const char *why)
{
    struct lw__subscription *s = arg;
    bool was_there = s->confirmed;

    s->confirmed = s->bound = false;
    if (s->session.state != LW__SESSION_STOPPED && !was_there) {
        s->events->failed(s->arg, why);
    }
    if (s->session.state == LW__SESSION_STOPPED && !s->forbidden_told) {
        s->forbidden_told = true;
        lw__log(s->session.config->log, LOG_WARNING,
                "subscribing to %s is not permitted, waiting will be by polling: %s",
                s->own_channel, why);
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__subscription *s = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *channel = lw__reply_text(lw__reply_at(reply, 1), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);

    if (strcasecmp(kind, "message") == 0) {
        s->events->message(s->arg, text, length);
    } else if (!s->confirmed && strcmp(channel, s->connection_channel) == 0) {
        s->confirmed = true; /* the second of the two */
        s->events->confirmed(s->arg);
    }
}

bool lw__subscription_counted(struct lw__subscription *subscription, unsigned nonce,
                              int64_t count)
{
    struct lw__subscription *s = subscription;

    if (nonce != s->nonce || !s->confirmed) {
        return false; /* of a connection that is no more */
    }
    s->bound = count > 0;
    if (s->bound) {
        s->astray = 0;
        s->commands_too = COMMANDS_TOO;
        return false;
    }
    if (s->astray++ == 0) {
        lw__log(
            s->session.config->log, LOG_WARNING,
            "the server that commands go to does not count our subscription, which may "
            "stand at another one: waiting is by polling until they agree");
    }
    lw__session_fail(&s->session, "it is at another server than the commands");
    if (s->astray < s->commands_too) {
        return false;
    }
    /* That link may be in order, and others live by it: ever more rarely. */
    s->commands_too *= 2;
    return true;
}

void lw__subscription_init(struct lw__subscription *subscription,
                           const struct lw__session_config *config, const char *uuid,
                           const struct lw__subscription_events *events, void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, push, NULL,
                                                             NULL};

    *subscription = (struct lw__subscription){
        .events = events, .arg = arg, .uuid = uuid, .commands_too = COMMANDS_TOO};
    lw__format_own_channel(uuid, subscription->own_channel);
    lw__session_init(&subscription->session, config, &session_events, subscription);
}
