/* SPDX-License-Identifier: MIT */
/* How handles wait in LW_REDISSON, for which Redis has no queue. Independent of when a
 * grant is believed.
 *
 * The claims of one name form a local queue, in order of arrival. Only the first sends
 * requests, because its refusal applies to all. Refused, it subscribes to the channel on
 * which Redisson publishes the name's releases, and sleeps until a poll is due; those
 * behind it sleep without limit. The confirmation of the subscription and each message
 * make the first claim retry. While a claim of this client holds, the first waiting one
 * stands by for its release. After that release it retries at once if no other client was
 * subscribed, and otherwise after a cooldown, in which another client can get the lock.
 *
 * A lost message costs a poll. If the channel is not confirmed, memory is short, or the
 * Redisson of a cluster uses another channel, waiters poll. The listener is stopped when
 * there have been no waiters for a while, and reconnects when too many of its channels
 * have none. */
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

#define COOLDOWN_US (8 * LW__MS) /* the machine adds 2 ms to a stand-by */
#define STANDBY_MAX_US (2800 * LW__MS)

static bool is_waiting(const struct lw__claim *claim)
{
    return claim->mode->local_queue != NULL && claim->waiting != NULL &&
           (lw__machine_is_acquiring(claim->machine.phase) ||
            lw__machine_is_queued(claim->machine.phase));
}

/* Returns true if a reply is pending, which calls queue_changed. */
static bool is_in_flight(const struct lw__claim *claim)
{
    return lw__machine_is_acquiring(claim->machine.phase) ||
           claim->machine.phase == LW__RELEASING;
}

static bool is_holding(const struct lw__claim *claim)
{
    return lw__machine_holds(claim->machine.phase) || claim->machine.phase == LW__EXPIRED;
}

struct lw__claim *lw__redisson_first(const struct lw__name *name)
{
    struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (is_waiting(claim)) {
            return claim;
        }
    }
    return NULL;
}

/* Returns a claim that is older than `first`: rather one in flight than one that holds;
 * or NULL. */
static const struct lw__claim *find_predecessor(const struct lw__claim *first,
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
        if (is_in_flight(claim)) {
            return claim;
        }
        if (is_holding(claim)) {
            found = claim;
        }
    }
    return found;
}

int64_t lw__redisson_ahead(const struct lw__claim *claim)
{
    const struct lw__claim *earlier;
    const struct lw_lock *lock;
    int64_t count = 0;

    DL_FOREACH(claim->name->claims, earlier) {
        if (earlier == claim) {
            break;
        }
        DL_FOREACH2(earlier->waiting, lock, turn_next) {
            count += earlier->mode->local_queue != NULL;
        }
    }
    return count;
}

bool lw__redisson_is_behind(const struct lw__claim *claim)
{
    return is_waiting(claim) && lw__redisson_first(claim->name) != claim;
}

int64_t lw__redisson_busy_ms(const struct lw__name *name)
{
    const struct lw__claim *first = lw__redisson_first(name),
                           *predecessor = find_predecessor(first, name);
    int64_t now = lw__now_us(), left = 0;

    if (predecessor != NULL && is_holding(predecessor)) {
        left = (predecessor->machine.deadline_us - now) / LW__MS;
    } else if (first != NULL && first->asking.remaining_ms < 0) {
        return first->asking.remaining_ms; /* no TTL */
    } else if (first != NULL) {
        left = first->asking.remaining_ms - (now - first->asking.clock.sent_us) / LW__MS;
    }
    return left > 0 ? left : 0;
}

/* ---- the cooldown after a release ---- */

static struct lw__cooldown *cooldown_of(struct lw_client *client, const char *name)
{
    uint32_t hash = (uint32_t)lw__hash(&client->hash_key, name, strlen(name));
    struct lw__cooldown *cooldown = &client->cooldowns[hash % LW__COOLDOWNS];

    if (cooldown->hash != hash) {
        *cooldown = (struct lw__cooldown){.hash = hash};
    }
    return cooldown;
}

static int64_t cooldown_left_us(struct lw_client *client, const char *name)
{
    int64_t left = cooldown_of(client, name)->until_us - lw__now_us();

    return left > 0 ? left : 0;
}

/* `receivers` clients received the message of the release; `subscribed`: this client is
 * one of them. */
static void begin_cooldown(struct lw_client *client, const char *name, int64_t receivers,
                           bool subscribed)
{
    struct lw__cooldown *cooldown = cooldown_of(client, name);

    cooldown->until_us = receivers > subscribed ? lw__now_us() + COOLDOWN_US : 0;
    cooldown->own_message = receivers > 0 && subscribed && !cooldown->message_before;
    cooldown->message_before = false;
}

/* ---- when the first claim may request ---- */

static bool must_wait(const struct lw__claim *claim)
{
    const struct lw__claim *predecessor = find_predecessor(claim, claim->name);

    return lw__redisson_first(claim->name) != NULL ||
           (predecessor != NULL && is_in_flight(predecessor)) ||
           cooldown_left_us(claim->client, claim->name->text) > 0;
}

static void set_standby(struct lw__claim *first, int64_t window_us)
{
    struct lw__input input = {.event = LW__EV_STANDBY,
                              .standby = {.window_us = window_us}};

    lw__claim_step(first, &input);
}

/* If another claim of this client holds, the first one waits for its release, but not
 * beyond its deadline or STANDBY_MAX_US. */
static void wake_first(struct lw__claim *first)
{
    const struct lw__claim *predecessor = find_predecessor(first, first->name);
    struct lw_client *client = first->client;
    int64_t left;

    if (client->closing || !lw__node_is_up(first->name->node) ||
        (predecessor != NULL && is_in_flight(predecessor))) {
        return;
    }
    if (predecessor != NULL) {
        left = predecessor->machine.deadline_us - lw__now_us();
        set_standby(first, left < STANDBY_MAX_US ? left : STANDBY_MAX_US);
    } else if ((left = cooldown_left_us(client, first->name->text)) > 0) {
        set_standby(first, left);
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
    /* a claim that sleeps without limit has just become the first */
    if (freed || (lw__machine_is_queued(first->machine.phase) &&
                  first->machine.due_us == LW__NEVER)) {
        wake_first(first);
    }
}

static bool is_releasing(const struct lw__name *name)
{
    const struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (claim->mode->local_queue != NULL && claim->machine.phase == LW__RELEASING) {
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
        set_standby(first, STANDBY_MAX_US);
    }
}

static void queue_message(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    struct lw__cooldown *cooldown = cooldown_of(client, text);
    struct lw__claim *first = name != NULL ? lw__redisson_first(name) : NULL;

    if (name != NULL && is_releasing(name)) {
        /* Most likely the message of this release, whose reply wakes the first claim. */
        cooldown->message_before = true;
    } else if (cooldown->own_message && cooldown->until_us > lw__now_us()) {
        cooldown->own_message = false;
    } else {
        cooldown->until_us = 0; /* another client may have held the lock since */
        if (first != NULL && lw__node_is_up(name->node) &&
            find_predecessor(first, name) == NULL) {
            lw__claim_event(first, LW__EV_RETRY_NOW);
        }
    }
}

/* ---- the channels ---- */

#define IDLE_US (10000 * (int64_t)LW__MS) /* without waiters; stops the listener */
#define POLL_MS 10000
#define POLL_UNSUBSCRIBED_MS 3000
/* With as many channels, those without waiters are dropped. */
#define CHANNELS_MAX 1024

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
static bool is_subscribed(const struct lw_client *client, const char *name)
{
    const struct lw__channel *found = NULL;
    char channel[LW__CHANNEL_SIZE];

    if (client->redisson != NULL) {
        lw__format_redisson_channel(name, channel);
        found = lw__listener_find(&client->redisson->listener, channel);
    }
    return found != NULL && found->state == LW__CHANNEL_CONFIRMED;
}

/* A release before the confirmation may have been missed. */
static void channel_confirmed(void *arg, struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    queue_message(redisson->client, channel->tag);
}

static void message_received(void *arg, const struct lw__channel *channel,
                             const char *text, size_t length)
{
    struct lw__redisson *redisson = arg;

    if (length == 1 && (*text == '0' || *text == '1')) {
        queue_message(redisson->client, channel->tag);
    }
}

static void channel_unconfirmed(void *arg, const struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    queue_unsubscribed(redisson->client, channel->tag);
}

static void connection_lost(void *arg, bool was_confirmed, const char *why)
{
    (void)arg, (void)was_confirmed, (void)why;
}

/* Removes the channels without waiters. Reconnects for that, since the listener has no
 * UNSUBSCRIBE, and so does it again only when there are twice as many channels as are
 * left. */
static void drop_idle_channels(struct lw__redisson *redisson)
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

static bool has_any_waiters(const struct lw__redisson *redisson)
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

    if (has_any_waiters(redisson)) {
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

/* Returns NULL if memory is short. */
static struct lw__redisson *new_redisson(struct lw_client *client,
                                         const struct lw__name *name)
{
    static const struct lw__listener_events events = {.confirmed = channel_confirmed,
                                                      .message = message_received,
                                                      .unconfirmed = channel_unconfirmed,
                                                      .lost = connection_lost};
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

/* Returns NULL if memory is short. */
static struct lw__redisson *get_started(struct lw_client *client,
                                        const struct lw__name *name)
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

static void subscribe(struct lw_client *client, const struct lw__name *name)
{
    struct lw__redisson *redisson = get_started(client, name);
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
        drop_idle_channels(redisson);
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

/* ---- the queue's operations ---- */

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

static void claim_refused(struct lw__claim *claim)
{
    warn_of_cluster(claim);
    subscribe(claim->client, claim->name);
}

static void claim_released(struct lw__claim *claim, const struct lw__released *reply)
{
    begin_cooldown(claim->client, claim->name->text, reply->subscribers,
                   is_subscribed(claim->client, claim->name->text));
}

static int64_t poll_ms(const struct lw__claim *claim)
{
    const struct lw_client *client = claim->client;
    bool expects_messages = is_subscribed(client, claim->name->text) &&
                            !lw__node_is_clustered(claim->name->node);

    return expects_messages ? POLL_MS : POLL_UNSUBSCRIBED_MS;
}

const struct lw__local_queue_ops lw__redisson_local_queue = {
    must_wait, queue_changed, warn_of_cluster, claim_refused, claim_released, poll_ms};
