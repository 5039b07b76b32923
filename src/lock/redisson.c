/* SPDX-License-Identifier: MIT */
/* How handles wait in LW_REDISSON: by the channels on which Redisson tells of releases.
 * Owns the connection that listens to them. Must not know whose turn it is to ask (line.c
 * does), nor decide when a grant may be believed.
 *
 * Happy path: the first try is refused, and has the name's channel subscribed; its
 * confirmation and each message have line.c's first ask again. A connection that is lost
 * is brought back by its session, unless we may not subscribe; where a channel is not
 * heard, or a cluster's Redisson uses another, who waits polls. When nobody waited for a
 * while, or too many channels are of no use any more, it is closed. */
#include "lock/redisson.h"

#include "base/hash.h"
#include "base/log.h"
#include "lock/line.h"
#include "lock/name.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/link.h"
#include "redis/node.h"
#include "redis/reply.h"
#include "redis/session.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

/* The link is closed when nobody waited for so long. */
#define IDLE_US (10000 * (int64_t)LW__MS)
#define POLL_MS 10000
#define POLL_UNHEARD_MS 3000
#define NAMES_MAX 1024 /* channels that nobody waits for go at that many, or more */

/* A name whose channel is, or shall be, subscribed. */
struct awaited {
    UT_hash_handle hh; /* by channel */
    bool confirmed;
    char channel[LW__CHANNEL_SIZE];
    char name[];
};

struct lw__listener {
    struct lw_client *client;
    struct lw__session session;
    struct lw__timer tick; /* heartbeat, and: is it still wanted? */
    struct awaited *names;
    unsigned names_max;    /* at least twice as many as were awaited when it was set */
    int64_t idle_since_us; /* LW__NEVER: somebody waits */
};

static bool is_awaited(const struct lw__listener *listener, const struct awaited *entry)
{
    const struct lw__name *name = lw__name_find(listener->client, entry->name);

    return name != NULL && lw__line_first(name) != NULL;
}

static unsigned hash_of(const struct lw__listener *listener, const char *channel)
{
    return (unsigned)lw__hash(&listener->client->hash_key, channel, strlen(channel));
}

static struct awaited *find_channel(const struct lw__listener *listener,
                                    const char *channel)
{
    struct awaited *entry;

    HASH_FIND_BYHASHVALUE(hh, listener->names, channel, strlen(channel),
                          hash_of(listener, channel), entry);
    return entry;
}

/* The name's channel, as far as the server confirmed that we listen to it. */
static bool hears(const struct lw_client *client, const char *name)
{
    const struct awaited *entry = NULL;
    char channel[LW__CHANNEL_SIZE];

    if (client->listener != NULL) {
        lw__format_redisson_channel(name, channel);
        entry = find_channel(client->listener, channel);
    }
    return entry != NULL && entry->confirmed;
}

/* ---- the connection ---- */

static void subscribe(struct lw__listener *listener, const struct awaited *entry)
{
    if (listener->session.state == LW__SESSION_READY &&
        lw__link_subscribe(listener->session.link, entry->channel) != 0) {
        lw__session_fail(&listener->session, lw_strerror(LW_ENOMEM));
    }
}

static void ready(void *arg)
{
    struct lw__listener *listener = arg;
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        subscribe(listener, entry);
    }
}

static void unconfirm(struct lw__listener *listener)
{
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        if (!entry->confirmed) {
            continue;
        }
        entry->confirmed = false;
        lw__line_unheard(listener->client, entry->name);
    }
}

static void lost(void *arg, const char *why)
{
    struct lw__listener *listener = arg;
    struct lw_client *client = listener->client;

    unconfirm(listener);
    if (listener->session.state == LW__SESSION_STOPPED &&
        !client->channels_forbidden_told) {
        client->channels_forbidden_told = true;
        lw__log(&client->log, LOG_WARNING,
                "subscribing to Redisson's channels is not permitted, waiting will be by "
                "polling: %s",
                why);
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__listener *listener = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *channel = lw__reply_text(lw__reply_at(reply, 1), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);
    struct awaited *entry = find_channel(listener, channel);

    if (entry == NULL) {
        return;
    }
    if (strcasecmp(kind, "message") == 0) {
        if (length == 1 && (*text == '0' || *text == '1')) {
            lw__line_message(listener->client, entry->name);
        }
    } else if (!entry->confirmed) {
        entry->confirmed = true;
        /* what was freed before it came was not heard of */
        lw__line_message(listener->client, entry->name);
    }
}

/* ---- its life ---- */

static void forget(struct lw__listener *listener, struct awaited *entry)
{
    /* NOLINTNEXTLINE(clang-analyzer-*): uthash keeps count of its table by itself */
    HASH_DEL(listener->names, entry);
    free(entry);
}

/* Without UNSUBSCRIBE the only way to have fewer channels is another connection: not
 * again before there are as many more as were left. */
static void start_over(struct lw__listener *listener)
{
    struct awaited *entry, *next;

    lw__session_stop(&listener->session);
    HASH_ITER(hh, listener->names, entry, next) {
        if (!is_awaited(listener, entry)) {
            forget(listener, entry);
        }
    }
    listener->names_max = 2 * HASH_COUNT(listener->names);
    if (listener->names_max < NAMES_MAX) {
        listener->names_max = NAMES_MAX;
    }
    unconfirm(listener);
    lw__session_start(&listener->session);
}

static bool is_wanted(const struct lw__listener *listener)
{
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        if (is_awaited(listener, entry)) {
            return true;
        }
    }
    return false;
}

static void tick(void *arg)
{
    struct lw__listener *listener = arg;
    struct lw_client *client = listener->client;
    int64_t now = lw__now_us();
    int64_t next = now + (int64_t)client->options.request_timeout_ms * LW__MS;

    if (is_wanted(listener)) {
        listener->idle_since_us = LW__NEVER;
    } else if (listener->idle_since_us == LW__NEVER) {
        listener->idle_since_us = now;
    } else if (now - listener->idle_since_us >= IDLE_US) {
        lw__redisson_close(client);
        return;
    }
    if (listener->names != NULL && listener->names->confirmed) {
        subscribe(listener, listener->names); /* the heartbeat: it is confirmed again */
    }
    if (listener->idle_since_us != LW__NEVER &&
        next > listener->idle_since_us + IDLE_US) {
        next = listener->idle_since_us + IDLE_US;
    }
    lw__timer_set(client->loop, &listener->tick, next);
}

static struct lw__listener *listen_for(struct lw_client *client,
                                       const struct lw__name *name)
{
    static const struct lw__session_events events = {ready, lost, push, NULL, NULL};
    struct lw__listener *listener = client->listener;

    if (listener != NULL) {
        return listener;
    }
    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    if (lw__timer_reserve(client->loop, 2) != 0) {
        free(listener);
        return NULL;
    }
    listener->client = client;
    listener->names_max = NAMES_MAX;
    listener->idle_since_us = LW__NEVER;
    lw__session_init(&listener->session, lw__node_access(name->node), &events, listener);
    lw__session_start(&listener->session);
    lw__timer_init(&listener->tick, tick, listener);
    lw__timer_set(client->loop, &listener->tick,
                  lw__now_us() + (int64_t)client->options.request_timeout_ms * LW__MS);
    client->listener = listener;
    return listener;
}

/* Without memory it is not. */
static void listen_to(struct lw_client *client, const struct lw__name *awaited)
{
    struct lw__listener *listener = listen_for(client, awaited);
    const char *name = awaited->text;
    char channel[LW__CHANNEL_SIZE];
    struct awaited *entry;

    if (listener == NULL) {
        return;
    }
    listener->idle_since_us = LW__NEVER;
    lw__format_redisson_channel(name, channel);
    if (find_channel(listener, channel) != NULL) {
        return;
    }
    if (HASH_COUNT(listener->names) >= listener->names_max) {
        start_over(listener);
    }
    entry = calloc(1, sizeof(*entry) + strlen(name) + 1);
    if (entry == NULL) {
        return;
    }
    memcpy(entry->channel, channel, sizeof(channel));
    memcpy(entry->name, name, strlen(name) + 1);
    HASH_ADD_BYHASHVALUE(hh, listener->names, channel, strlen(channel),
                         hash_of(listener, channel), entry);
    if (entry->hh.tbl != NULL) { /* else uthash had no memory */
        subscribe(listener, entry);
    } else {
        free(entry);
    }
}

void lw__redisson_close(struct lw_client *client)
{
    struct lw__listener *listener = client->listener;
    struct awaited *entry, *next;

    if (listener == NULL) {
        return;
    }
    client->listener = NULL;
    lw__timer_cancel(client->loop, &listener->tick);
    lw__session_stop(&listener->session);
    lw__timer_unreserve(client->loop, 2);
    HASH_ITER(hh, listener->names, entry, next) {
        forget(listener, entry);
    }
    free(listener);
}

/* ---- what is LW_REDISSON's own ---- */

static void tell_of_cluster(struct lw__claim *claim)
{
    struct lw_client *client = claim->client;

    if (client->cluster_told || !lw__node_is_clustered(claim->name->node)) {
        return;
    }
    client->cluster_told = true;
    lw__log(
        &client->log, LOG_WARNING,
        "the server is in cluster mode, where Redisson wakes by sharded channels: it and "
        "this client exclude each other, but waiting will be by polling");
}

static void refused(struct lw__claim *claim)
{
    tell_of_cluster(claim);
    listen_to(claim->client, claim->name);
}

static void released(struct lw__claim *claim, const struct lw__released *answer)
{
    lw__line_released(claim->client, claim->name->text, answer->told,
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
    lw__line_must_wait, lw__line_moved, tell_of_cluster, refused, released, poll_ms};
