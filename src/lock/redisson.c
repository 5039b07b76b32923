/* SPDX-License-Identifier: MIT */
/* The line of those who wait for one name in LW_REDISSON, in one client: in order of
 * arrival, the first asks for all, since one refusal would be every one's. Owns who is
 * first, what keeps it from asking (one of ours that holds, asks or lets go), and how
 * long a name is left to those elsewhere whom a release woke. Must not know channels or
 * replies.
 *
 * Happy path: the first is refused and sleeps, those behind it sleep without end; a
 * message has the first ask; once it holds, the next one is first and stands by; the
 * release's end has it ask, at once where nobody else was told. A message that never
 * comes costs a poll. */
/* How handles wait in LW_REDISSON: by the channels on which Redisson publishes releases.
 * Independent of which handle may ask next (line.c), and of whether a grant is believed.
 *
 * The first try is refused, and has the name's channel subscribed; its confirmation and
 * each message let the first handle of the line ask again. If the channel is not
 * confirmed, or a cluster's Redisson uses another one, waiters poll. The listener is
 * stopped when there have been no waiters for a while; it reconnects when too many of its
 * channels have none. */
#include "lock/lock_private.h"

#include "base/hash.h"
#include "base/log.h"
#include "loop/loop.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/listener.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

/* ---- the local queue ---- */

#define REST_US (8 * LW__MS) /* a stand-by adds 2 ms */
#define STAND_BY_US (2800 * LW__MS)

static bool waits(const struct lw__claim *claim)
{
    return claim->mode->local_queue != NULL && claim->waiting != NULL &&
           (lw__machine_is_acquiring(claim->machine.phase) ||
            lw__machine_is_queued(claim->machine.phase));
}

/* Its answer, soon to come, has the first one called. */
static bool is_about(const struct lw__claim *claim)
{
    return lw__machine_is_acquiring(claim->machine.phase) ||
           (claim->machine.phase == LW__RELEASING);
}

static bool holds(const struct lw__claim *claim)
{
    return lw__machine_holds(claim->machine.phase) || claim->machine.phase == LW__EXPIRED;
}

struct lw__claim *lw__redisson_first(const struct lw__name *name)
{
    struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (waits(claim)) {
            return claim;
        }
    }
    return NULL;
}

/* One of ours that came before `first` and is about to be answered, or else holds. */
static const struct lw__claim *ahead_of(const struct lw__claim *first,
                                        const struct lw__name *name)
{
    const struct lw__claim *claim, *found = NULL;

    DL_FOREACH(name->claims, claim) {
        if (claim == first) {
            break;
        }
        if (claim->mode->local_queue == NULL) {
            continue;
        }
        if (is_about(claim)) {
            return claim;
        }
        if (holds(claim)) {
            found = claim;
        }
    }
    return found;
}

int64_t lw__redisson_ahead(const struct lw__claim *claim)
{
    const struct lw__claim *before;
    const struct lw_lock *lock;
    int64_t count = 0;

    DL_FOREACH(claim->name->claims, before) {
        if (before == claim) {
            break;
        }
        DL_FOREACH2(before->waiting, lock, turn_next) {
            count += before->mode->local_queue != NULL;
        }
    }
    return count;
}

bool lw__redisson_is_behind(const struct lw__claim *claim)
{
    return waits(claim) && lw__redisson_first(claim->name) != claim;
}

int64_t lw__redisson_busy_ms(const struct lw__name *name)
{
    const struct lw__claim *first = lw__redisson_first(name),
                           *ahead = ahead_of(first, name);
    int64_t now = lw__now_us(), left = 0;

    if (ahead != NULL && holds(ahead)) {
        left = (ahead->machine.deadline_us - now) / LW__MS;
    } else if (first != NULL && first->asking.remaining_ms < 0) {
        return first->asking.remaining_ms; /* no TTL */
    } else if (first != NULL) {
        left = first->asking.remaining_ms - (now - first->asking.clock.sent_us) / LW__MS;
    }
    return left > 0 ? left : 0;
}

/* ---- leaving a name to others ---- */

static struct lw__cooldown *rest_of(struct lw_client *client, const char *name)
{
    uint32_t hash = (uint32_t)lw__hash(&client->hash_key, name, strlen(name));
    struct lw__cooldown *rest = &client->cooldowns[hash % LW__COOLDOWNS];

    if (rest->hash != hash) {
        *rest = (struct lw__cooldown){.hash = hash};
    }
    return rest;
}

static int64_t rest_us(struct lw_client *client, const char *name)
{
    int64_t left = rest_of(client, name)->until_us - lw__now_us();

    return left > 0 ? left : 0;
}

static void note_released(struct lw_client *client, const char *name, int64_t told,
                          bool told_us)
{
    struct lw__cooldown *rest = rest_of(client, name);

    rest->until_us = told > told_us ? lw__now_us() + REST_US : 0;
    rest->own_message = told > 0 && told_us && !rest->message_before;
    rest->message_before = false;
}

/* ---- whose turn it is to ask ---- */

static bool must_wait(const struct lw__claim *claim)
{
    const struct lw__claim *ahead = ahead_of(claim, claim->name);

    return lw__redisson_first(claim->name) != NULL ||
           (ahead != NULL && is_about(ahead)) ||
           rest_us(claim->client, claim->name->text) > 0;
}

static void stand_by(struct lw__claim *first, int64_t window_us)
{
    struct lw__input input = {.event = LW__EV_STANDBY,
                              .standby = {.window_us = window_us}};

    lw__claim_step(first, &input);
}

/* Where one of ours holds, its release is what to wait for; unless it never comes. */
static void call(struct lw__claim *first)
{
    const struct lw__claim *ahead = ahead_of(first, first->name);
    struct lw_client *client = first->client;
    int64_t left;

    if (client->closing || !lw__node_is_up(first->name->node) ||
        (ahead != NULL && is_about(ahead))) {
        return;
    }
    if (ahead != NULL) {
        left = ahead->machine.deadline_us - lw__now_us();
        stand_by(first, left < STAND_BY_US ? left : STAND_BY_US);
    } else if ((left = rest_us(client, first->name->text)) > 0) {
        stand_by(first, left);
    } else {
        lw__claim_event(first, LW__EV_RETRY_NOW);
    }
}

static void queue_changed(struct lw__name *name, bool freed)
{
    struct lw__claim *first = lw__redisson_first(name);

    if (first == NULL) {
        return;
    }
    /* one that sleeps without end was not first until now */
    if (freed || (lw__machine_is_queued(first->machine.phase) &&
                  first->machine.due_us == LW__NEVER)) {
        call(first);
    }
}

static bool lets_go(const struct lw__name *name)
{
    const struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (claim->mode->local_queue != NULL &&
            lw__machine_releases(claim->machine.phase) && is_about(claim)) {
            return true;
        }
    }
    return false;
}

static void queue_unsubscribed(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    struct lw__claim *first = name != NULL ? lw__redisson_first(name) : NULL;

    if (first != NULL && lw__node_is_up(name->node)) {
        stand_by(first, STAND_BY_US);
    }
}

static void queue_message(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    struct lw__cooldown *rest = rest_of(client, text);
    struct lw__claim *first = name != NULL ? lw__redisson_first(name) : NULL;

    if (name != NULL && lets_go(name)) {
        rest->message_before =
            true; /* its own, most likely; the answer has the first called */
    } else if (rest->own_message && rest->until_us > lw__now_us()) {
        rest->own_message = false;
    } else {
        rest->until_us = 0; /* somebody had it meanwhile */
        if (first != NULL && lw__node_is_up(name->node) &&
            ahead_of(first, name) == NULL) {
            lw__claim_event(first, LW__EV_RETRY_NOW);
        }
    }
}

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

    return name != NULL && lw__redisson_first(name) != NULL;
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

    queue_message(redisson->client, channel->tag);
}

static void message(void *arg, const struct lw__channel *channel, const char *text,
                    size_t length)
{
    struct lw__redisson *redisson = arg;

    if (length == 1 && (*text == '0' || *text == '1')) {
        queue_message(redisson->client, channel->tag);
    }
}

static void unconfirmed(void *arg, const struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    queue_unsubscribed(redisson->client, channel->tag);
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
    note_released(claim->client, claim->name->text, answer->subscribers,
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

const struct lw__local_queue_ops lw__redisson_local_queue = {
    must_wait, queue_changed, warn_of_cluster, refused, released, poll_ms};
