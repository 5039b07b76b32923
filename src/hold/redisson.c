/* SPDX-License-Identifier: MIT */
/* When a claim of LW_REDISSON retries, since Redis has no queue for it. Independent of
 * the handles that wait for it (turns.c), and of when a grant is believed.
 *
 * A client has one claim for a name, which requests it for all its waiters. Refused, it
 * subscribes to the channel on which Redisson publishes the name's releases, and sleeps
 * until a poll is due. The confirmation of the subscription and each message make it
 * retry. After a release of this client the next claim requests the name at once if no
 * other client was subscribed, and otherwise after a cooldown, in which another client
 * can get the lock.
 *
 * A lost message costs a poll. If the channel is not confirmed, memory is short, or the
 * Redisson of a cluster uses another channel, waiters poll. The listener is stopped when
 * there have been no waiters for a while, and reconnects when too many of its channels
 * have none. */
#include "hold/hold.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/listener.h"
#include "redis/node.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

#define COOLDOWN_US (8 * LW__MS) /* the machine adds 2 ms to a stand-by */
#define STANDBY_MAX_US (2800 * LW__MS)

/* Returns the only claim of this mode for the name, or NULL. */
static struct lw__claim *find_claim(struct lw__holds *holds, const char *text)
{
    const struct lw__name *name = lw__name_find(holds, text);
    struct lw__claim *claim = name != NULL ? name->claims : NULL;

    while (claim != NULL && !claim->mode->polls) {
        claim = claim->next;
    }
    return claim;
}

/* ---- the cooldown after a release ---- */

static struct lw__cooldown *cooldown_of(struct lw__holds *holds, const char *name)
{
    uint32_t hash = (uint32_t)lw__hash(&holds->hash_key, name, strlen(name));
    struct lw__cooldown *cooldown = &holds->cooldowns[hash % LW__COOLDOWNS];

    if (cooldown->hash != hash) {
        *cooldown = (struct lw__cooldown){.hash = hash};
    }
    return cooldown;
}

int64_t lw__redisson_cooldown_us(const struct lw__claim *claim)
{
    int64_t until = cooldown_of(claim->holds, claim->name->text)->until_us;
    int64_t now = lw__now_us();

    return until > now ? until - now : 0;
}

/* ---- when the claim retries ---- */

/* The lock was released, most likely. */
static void retry(struct lw__holds *holds, const char *name)
{
    struct lw__cooldown *cooldown = cooldown_of(holds, name);
    struct lw__claim *claim = find_claim(holds, name);

    if (claim != NULL && claim->machine.phase == LW__RELEASING) {
        /* Most likely the message of this release. */
        cooldown->message_before = true;
    } else if (cooldown->own_message && cooldown->until_us > lw__now_us()) {
        cooldown->own_message = false;
    } else {
        cooldown->until_us = 0; /* another client may have held the lock since */
        if (claim != NULL && lw__node_is_up(claim->name->node)) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
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
    struct lw__holds *holds;
    struct lw__listener listener;
    struct lw__timer tick; /* the heartbeat, and the end of an idle listener */
    unsigned channels_max; /* at least twice as many as had waiters when it was set */
    int64_t idle_since_us; /* LW__NEVER while there are waiters */
};

static bool has_waiters(const struct lw__redisson *redisson,
                        const struct lw__channel *channel)
{
    const struct lw__claim *claim = find_claim(redisson->holds, channel->tag);

    return claim != NULL && lw__claim_terms(claim).awaited;
}

/* Returns true if the server has confirmed the subscription to the name's channel. */
static bool is_subscribed(const struct lw__claim *claim)
{
    const struct lw__holds *holds = claim->holds;
    const struct lw__channel *found = NULL;
    char channel[LW__CHANNEL_SIZE];

    if (holds->redisson != NULL) {
        lw__format_redisson_channel(claim->name->text, channel);
        found = lw__listener_find(&holds->redisson->listener, channel);
    }
    return found != NULL && found->state == LW__CHANNEL_CONFIRMED;
}

/* A release before the confirmation may have been missed. */
static void channel_confirmed(void *arg, struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;

    retry(redisson->holds, channel->tag);
}

static void message_received(void *arg, const struct lw__channel *channel,
                             const char *text, size_t length)
{
    struct lw__redisson *redisson = arg;

    if (length == 1 && (*text == '0' || *text == '1')) {
        retry(redisson->holds, channel->tag);
    }
}

static void channel_unconfirmed(void *arg, const struct lw__channel *channel)
{
    struct lw__redisson *redisson = arg;
    struct lw__claim *claim = find_claim(redisson->holds, channel->tag);

    if (claim != NULL && lw__node_is_up(claim->name->node)) {
        int64_t spread_us = STANDBY_MAX_US / 20; /* all clients lose it together */

        lw__claim_stand_by(claim,
                           STANDBY_MAX_US -
                               lw__random_between(&claim->holds->random, 0, spread_us));
    }
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
    const struct lw__holds *holds = redisson->holds;
    int64_t now = lw__now_us();
    int64_t next = now + (int64_t)holds->request_timeout_ms * LW__MS;

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
    lw__timer_set(holds->loop, &redisson->tick, next);
}

/* Returns NULL if memory is short. */
static struct lw__redisson *new_redisson(struct lw__holds *holds,
                                         const struct lw__name *name)
{
    static const struct lw__listener_events events = {.confirmed = channel_confirmed,
                                                      .message = message_received,
                                                      .unconfirmed = channel_unconfirmed};
    struct lw__listener_options options = {.config = lw__node_config(name->node),
                                           .hash_key = &holds->hash_key,
                                           .consequence = "waiters poll"};
    struct lw__redisson *redisson = calloc(1, sizeof(*redisson));

    if (redisson == NULL || lw__timer_reserve(holds->loop, 2) != 0) {
        free(redisson);
        return NULL;
    }
    redisson->holds = holds;
    lw__listener_init(&redisson->listener, &options, &events, redisson);
    lw__timer_init(&redisson->tick, tick, redisson);
    return redisson;
}

/* Returns NULL if memory is short. */
static struct lw__redisson *get_started(struct lw__holds *holds,
                                        const struct lw__name *name)
{
    if (holds->redisson == NULL) {
        holds->redisson = new_redisson(holds, name);
    }
    if (holds->redisson != NULL && !lw__timer_is_set(&holds->redisson->tick)) {
        holds->redisson->channels_max = CHANNELS_MAX;
        lw__listener_start(&holds->redisson->listener);
        lw__timer_set(holds->loop, &holds->redisson->tick,
                      lw__now_us() + (int64_t)holds->request_timeout_ms * LW__MS);
    }
    return holds->redisson;
}

static void subscribe(struct lw__holds *holds, const struct lw__name *name)
{
    struct lw__redisson *redisson = get_started(holds, name);
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

void lw__redisson_close(struct lw__holds *holds)
{
    struct lw__redisson *redisson = holds->redisson;

    if (redisson != NULL) {
        holds->redisson = NULL;
        lw__timer_cancel(holds->loop, &redisson->tick);
        lw__listener_clear(&redisson->listener);
        lw__timer_unreserve(holds->loop, 2);
        free(redisson);
    }
}

/* ---- a claim's events ---- */

void lw__redisson_warn_of_cluster(struct lw__claim *claim)
{
    struct lw__holds *holds = claim->holds;

    if (lw__node_is_clustered(claim->name->node)) {
        lw__log_once(holds->log, &holds->cluster_logged, LOG_WARNING,
                     "the server is in cluster mode, where Redisson uses sharded "
                     "channels; Redisson and this client exclude each other, but "
                     "waiters poll");
    }
}

void lw__redisson_busy(struct lw__claim *claim)
{
    lw__redisson_warn_of_cluster(claim);
    subscribe(claim->holds, claim->name);
}

void lw__redisson_released(struct lw__claim *claim, const struct lw__released *reply)
{
    struct lw__cooldown *cooldown = cooldown_of(claim->holds, claim->name->text);
    bool subscribed = is_subscribed(claim);
    int64_t others = reply->subscribers - subscribed;

    cooldown->until_us = others > 0 ? lw__now_us() + COOLDOWN_US : 0;
    cooldown->own_message = subscribed && reply->subscribers > 0 &&
                            !cooldown->message_before;
    cooldown->message_before = false;
}

int64_t lw__redisson_poll_ms(const struct lw__claim *claim)
{
    bool expects_messages = is_subscribed(claim) &&
                            !lw__node_is_clustered(claim->name->node);

    return expects_messages ? POLL_MS : POLL_UNSUBSCRIBED_MS;
}
