/* SPDX-License-Identifier: MIT */
/* How handles wait in LW_REDISSON: by the channels on which Redisson publishes releases.
 * Independent of which handle may ask next (line.c), and of whether a grant is believed.
 *
 * The first try is refused, and has the name's channel subscribed; its confirmation and
 * each message let the first handle of the line ask again. If the channel is not
 * confirmed, or a cluster's Redisson uses another one, waiters poll. The listener is
 * stopped when there have been no waiters for a while; it reconnects when too many of its
 * channels have none. */
#include "lock/redisson.h"

#include "base/log.h"
#include "lock/line.h"
#include "lock/name.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/listener.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* The listener is stopped after so long without waiters. */
#define IDLE_US (10000 * (int64_t)LW__MS)
#define POLL_MS 10000
#define POLL_UNHEARD_MS 3000
#define CHANNELS_MAX                                                                     \
    1024 /* at so many, or more, channels without waiters are dropped                    \
          */

/* A channel's tag is the name of its lock. */
struct lw__redisson {
    struct lw_client *client;
    struct lw__listener listener;
    struct lw__timer tick; /* the heartbeat, and the end of an idle listener */
    unsigned channels_max; /* at least twice as many as had waiters when it was set */
    int64_t idle_since_us; /* LW__NEVER while there are waiters */
};

static bool has_waiters(const struct lw__redisson *redisson,
                        const struct lw__channel *channel)
{
    const struct lw__name *name = lw__name_find(redisson->client, channel->tag);

    return name != NULL && lw__line_first(name) != NULL;
}

/* Returns true if the server has confirmed the subscription to the name's channel. */
static bool hears(const struct lw_client *client, const char *name)
{
    const struct lw__channel *found = NULL;
    char channel[LW__CHANNEL_SIZE];

    if (client->redisson != NULL) {
        lw__format_redisson_channel(name, channel);
        found = lw__listener_find(&client->redisson->listener, channel);
    }
    return found != NULL && found->state == LW__CHANNEL_CONFIRMED;
}

/* ---- events of the listener ---- */

/* A release before the confirmation was not heard of. */
static void confirmed(void *arg, struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    lw__line_message(redisson->client, channel->tag);
}

static void message(void *arg, const struct lw__channel *channel, const char *text,
                    size_t length)
{
    struct lw__redisson *redisson = arg;

    if (length == 1 && (*text == '0' || *text == '1')) {
        lw__line_message(redisson->client, channel->tag);
    }
}

static void unconfirmed(void *arg, const struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    lw__line_unheard(redisson->client, channel->tag);
}

static void lost(void *arg, bool was_confirmed, const char *why)
{
    (void)arg, (void)was_confirmed, (void)why;
}

/* ---- its life ---- */

/* Without UNSUBSCRIBE the only way to have fewer channels is another connection: not
 * again before there are as many more as are left. */
static void start_over(struct lw__redisson *redisson)
{
    struct lw__listener *listener = &redisson->listener;
    struct lw__channel *channel, *next;

    HASH_ITER(hh, listener->channels, channel, next) {
        if (!has_waiters(redisson, channel)) {
            lw__listener_remove(listener, channel);
        }
    }
    redisson->channels_max = 2 * HASH_COUNT(listener->channels);
    if (redisson->channels_max < CHANNELS_MAX) {
        redisson->channels_max = CHANNELS_MAX;
    }
    lw__listener_stop(listener);
    lw__listener_start(listener);
}

static bool is_wanted(const struct lw__redisson *redisson)
{
    struct lw__channel *channel, *next;

    HASH_ITER(hh, redisson->listener.channels, channel, next) {
        if (has_waiters(redisson, channel)) {
            return true;
        }
    }
    return false;
}

static void tick(void *arg)
{
    struct lw__redisson *redisson = arg;
    const struct lw_client *client = redisson->client;
    int64_t now = lw__now_us();
    int64_t next = now + (int64_t)client->options.request_timeout_ms * LW__MS;

    if (is_wanted(redisson)) {
        redisson->idle_since_us = LW__NEVER;
    } else if (redisson->idle_since_us == LW__NEVER) {
        redisson->idle_since_us = now;
    } else if (now - redisson->idle_since_us >= IDLE_US) {
        lw__listener_clear(&redisson->listener);
        return;
    }
    lw__listener_heartbeat(&redisson->listener);
    if (redisson->idle_since_us != LW__NEVER &&
        next > redisson->idle_since_us + IDLE_US) {
        next = redisson->idle_since_us + IDLE_US;
    }
    lw__timer_set(client->loop, &redisson->tick, next);
}

/* Returns NULL without memory. */
static struct lw__redisson *new_redisson(struct lw_client *client,
                                         const struct lw__name *name)
{
    static const struct lw__listener_events events = {.confirmed = confirmed,
                                                      .message = message,
                                                      .unconfirmed = unconfirmed,
                                                      .lost = lost};
    struct lw__listener_options options = {.config = lw__node_config(name->node),
                                           .hash_key = &client->hash_key,
                                           .consequence = "waiters will poll"};
    struct lw__redisson *redisson = calloc(1, sizeof(*redisson));

    if (redisson == NULL || lw__timer_reserve(client->loop, 2) != 0) {
        free(redisson);
        return NULL;
    }
    redisson->client = client;
    lw__listener_init(&redisson->listener, &options, &events, redisson);
    lw__timer_init(&redisson->tick, tick, redisson);
    return redisson;
}

/* Returns NULL without memory. */
static struct lw__redisson *started(struct lw_client *client, const struct lw__name *name)
{
    if (client->redisson == NULL) {
        client->redisson = new_redisson(client, name);
    }
    if (client->redisson != NULL && !lw__timer_is_set(&client->redisson->tick)) {
        client->redisson->channels_max = CHANNELS_MAX;
        lw__listener_start(&client->redisson->listener);
        lw__timer_set(client->loop, &client->redisson->tick,
                      lw__now_us() +
                          (int64_t)client->options.request_timeout_ms * LW__MS);
    }
    return client->redisson;
}

/* Without memory the waiters poll. */
static void listen_to(struct lw_client *client, const struct lw__name *name)
{
    struct lw__redisson *redisson = started(client, name);
    char channel[LW__CHANNEL_SIZE];

    if (redisson == NULL) {
        return;
    }
    redisson->idle_since_us = LW__NEVER;
    lw__format_redisson_channel(name->text, channel);
    if (lw__listener_find(&redisson->listener, channel) != NULL) {
        return;
    }
    if (HASH_COUNT(redisson->listener.channels) >= redisson->channels_max) {
        start_over(redisson);
    }
    (void)lw__listener_add(&redisson->listener, 0, channel, name->text);
}

void lw__redisson_close(struct lw_client *client)
{
    struct lw__redisson *redisson = client->redisson;

    if (redisson != NULL) {
        client->redisson = NULL;
        lw__timer_cancel(client->loop, &redisson->tick);
        lw__listener_clear(&redisson->listener);
        lw__timer_unreserve(client->loop, 2);
        free(redisson);
    }
}

/* ---- what is LW_REDISSON's own ---- */

static void warn_of_cluster(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;

    if (lw__node_is_clustered(claim->name->node)) {
        lw__log_once(&client->log, &client->cluster_logged, LOG_WARNING,
                     "the server is in cluster mode, where Redisson wakes by sharded "
                     "channels: it and this client exclude each other, but waiters "
                     "will poll");
    }
}

static void refused(struct lw__claim *claim)
{
    warn_of_cluster(claim);
    listen_to(claim->client, claim->name);
}

static void released(struct lw__claim *claim, const struct lw__released *answer)
{
    lw__line_released(claim->client, claim->name->text, answer->subscribers,
                      hears(claim->client, claim->name->text));
}

/* Less where the name's channel is not heard. */
static int64_t poll_ms(const struct lw__claim *claim)
{
    const struct lw_client *client = claim->client;
    bool heard = hears(client, claim->name->text) &&
                 !lw__node_is_clustered(claim->name->node);

    return heard ? POLL_MS : POLL_UNHEARD_MS;
}

const struct lw__in_line lw__redisson_in_line = {
    lw__line_must_wait, lw__line_moved, warn_of_cluster, refused, released, poll_ms};
