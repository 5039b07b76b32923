/* SPDX-License-Identifier: MIT */
/* Subscriptions: see listener.h.
 *
 * ready() subscribes to all channels, push() takes confirmations and messages. A
 * sharded channel whose slot is elsewhere (MOVED) is forgotten; one of a slot without an
 * owner (CLUSTERDOWN) is subscribed to again when it is wanted. Any other error ends the
 * connection, and the session makes another one, except after NOPERM and from servers
 * before 7.0, which do not know SSUBSCRIBE. */
#include "redis/listener.h"

#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/reader.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

/* ---- channels ---- */

/* Without a key there are two channels at most, of different lengths. */
static unsigned hash_of(const struct lw__listener *listener, const char *text)
{
    const struct lw__hash_key *key = listener->options.hash_key;
    size_t length = strlen(text);

    return (unsigned)(key != NULL ? lw__hash(key, text, length) : length);
}

struct lw__channel *lw__listener_find_slot(const struct lw__listener *listener,
                                           unsigned slot)
{
    struct lw__channel *channel;

    HASH_FIND_BYHASHVALUE(hh, listener->channels, &slot, sizeof(slot), slot, channel);
    return channel;
}

struct lw__channel *lw__listener_find(const struct lw__listener *listener,
                                      const char *text)
{
    struct lw__channel *channel;

    if (!listener->options.sharded) {
        HASH_FIND_BYHASHVALUE(hh, listener->channels, text, strlen(text),
                              hash_of(listener, text), channel);
        return channel;
    }
    channel = lw__listener_find_slot(listener, lw__slot_of(text, strlen(text)));
    return channel != NULL && strcmp(channel->text, text) == 0 ? channel : NULL;
}

void lw__listener_remove(struct lw__listener *listener, struct lw__channel *channel)
{
    /* NOLINTNEXTLINE(clang-analyzer-*): uthash keeps count of its table by itself */
    HASH_DELETE(hh, listener->channels, channel);
    free(channel);
}

static void subscribe(struct lw__listener *listener, const struct lw__channel *channel)
{
    struct lw__session *session = &listener->session;
    int status = 0;

    if (session->state == LW__SESSION_READY) {
        status = listener->options.sharded
                     ? lw__link_ssubscribe(session->link, channel->text)
                     : lw__link_subscribe(session->link, channel->text);
    }
    if (status != 0) {
        lw__session_fail(session, lw_strerror(LW_ENOMEM));
    }
}

/* Returns NULL without memory. */
static struct lw__channel *new_channel(struct lw__listener *listener, unsigned slot,
                                       const char *text, const char *tag)
{
    size_t length = strlen(text), tag_length = strlen(tag);
    struct lw__channel *channel = calloc(1, sizeof(*channel) + length + tag_length + 2);

    if (channel == NULL) {
        return NULL;
    }
    channel->slot = slot;
    memcpy(channel->text, text, length + 1);
    channel->tag = memcpy(channel->text + length + 1, tag, tag_length + 1);
    if (listener->options.sharded) {
        HASH_ADD_BYHASHVALUE(hh, listener->channels, slot, sizeof(slot), slot, channel);
    } else {
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, listener->channels, channel->text, length,
                                    hash_of(listener, text), channel);
    }
    if (channel->hh.tbl == NULL) { /* uthash had no memory */
        free(channel);
        return NULL;
    }
    return channel;
}

struct lw__channel *lw__listener_add(struct lw__listener *listener, unsigned slot,
                                     const char *text, const char *tag)
{
    struct lw__channel *channel = listener->options.sharded
                                      ? lw__listener_find_slot(listener, slot)
                                      : lw__listener_find(listener, text);

    if (channel == NULL) {
        channel = new_channel(listener, slot, text, tag);
        if (channel == NULL) {
            return NULL;
        }
        subscribe(listener, channel);
    } else if (channel->state == LW__CHANNEL_REFUSED) {
        channel->state = LW__CHANNEL_PENDING;
        subscribe(listener, channel);
    }
    channel->wanted_us = lw__now_us();
    return channel;
}

void lw__listener_settle(struct lw__listener *listener)
{
    struct lw__channel *channel, *next;

    HASH_ITER(hh, listener->channels, channel, next) {
        channel->fresh = false;
    }
}

/* ---- what the server says ---- */

static void ready(void *arg)
{
    struct lw__listener *listener = arg;
    struct lw__channel *channel, *next;

    listener->connections++;
    if (listener->events->ready != NULL) {
        listener->events->ready(listener->arg);
        return;
    }
    HASH_ITER(hh, listener->channels, channel, next) {
        subscribe(listener, channel);
    }
}

/* Returns true if a channel was confirmed. */
static bool unconfirm_all(struct lw__listener *listener)
{
    struct lw__channel *channel, *next;
    bool any = false, confirmed;

    HASH_ITER(hh, listener->channels, channel, next) {
        if (channel->state == LW__CHANNEL_LEAVING) {
            lw__listener_remove(listener, channel);
            continue;
        }
        confirmed = channel->state == LW__CHANNEL_CONFIRMED;
        any = any || confirmed;
        channel->state = LW__CHANNEL_PENDING;
        channel->fresh = false;
        if (confirmed && listener->events->unconfirmed != NULL) {
            listener->events->unconfirmed(listener->arg, channel);
        }
    }
    return any;
}

static void lost(void *arg, const char *why)
{
    struct lw__listener *listener = arg;
    const struct lw__session *session = &listener->session;
    bool was_confirmed;
    char place[LW__TEXT_MAX];

    listener->forbidden = session->state == LW__SESSION_STOPPED;
    if (listener->forbidden) {
        lw__session_endpoint(session, place);
        lw__log_once(session->config->log, &listener->forbidden_logged, LOG_WARNING,
                     "%s refused %s; %s: %s", place,
                     listener->options.sharded ? "SSUBSCRIBE" : "SUBSCRIBE",
                     listener->options.consequence, why);
    }
    was_confirmed = unconfirm_all(listener);
    if (listener->events->lost != NULL) {
        listener->events->lost(listener->arg, was_confirmed, why);
    }
}

/* CLUSTERDOWN names no slot: it may be the reply to any subscription that is pending. */
static void note_cluster_down(struct lw__listener *listener)
{
    struct lw__channel *channel, *next;

    HASH_ITER(hh, listener->channels, channel, next) {
        if (channel->state == LW__CHANNEL_LEAVING) {
            lw__listener_remove(listener, channel);
        } else if (channel->state == LW__CHANNEL_PENDING) {
            channel->state = LW__CHANNEL_REFUSED;
        }
    }
    listener->events->unsettled(listener->arg);
}

/* The waiters of an unconfirmed channel poll, and learn of the slot's node by that. */
static void note_moved(struct lw__listener *listener, struct lw__channel *channel)
{
    bool confirmed = channel->state == LW__CHANNEL_CONFIRMED;
    unsigned slot = channel->slot;

    lw__listener_remove(listener, channel);
    if (confirmed) {
        listener->events->unsubscribed(listener->arg, slot);
    } else {
        listener->events->unsettled(listener->arg);
    }
}

static bool refused(void *arg, const char *error)
{
    struct lw__listener *listener = arg;
    struct lw__channel *channel;
    struct lw__redirect redirect;

    if (!listener->options.sharded) {
        return false;
    }
    if (lw__classify_down(error)) {
        note_cluster_down(listener);
        return true;
    }
    if (!lw__cluster_parse_redirect(error, strlen(error), &redirect)) {
        return false;
    }
    channel = lw__listener_find_slot(listener, redirect.slot);
    if (channel != NULL) {
        note_moved(listener, channel);
    }
    return true;
}

/* The server has unsubscribed us, at our request or by itself. */
static void note_unsubscribed(struct lw__listener *listener, struct lw__channel *channel)
{
    unsigned slot = channel->slot;

    if (channel->state != LW__CHANNEL_LEAVING) {
        lw__listener_remove(listener, channel);
        listener->events->unsubscribed(listener->arg, slot);
    } else if (channel->wanted_us != 0) { /* again, in the meantime */
        channel->state = LW__CHANNEL_PENDING;
        subscribe(listener, channel);
    } else {
        lw__listener_remove(listener, channel);
    }
}

/* A flush of the database has no keys. */
static void note_changes(struct lw__listener *listener, const struct lw__reply *keys)
{
    if (listener->events->key_changed == NULL) {
        return;
    }
    if (lw__reply_type(keys) == LW__REPLY_NIL) {
        listener->events->key_changed(listener->arg, NULL);
    }
    for (size_t i = 0; i < lw__reply_count(keys); i++) {
        listener->events->key_changed(listener->arg,
                                      lw__reply_text(lw__reply_at(keys, i), NULL));
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__listener *listener = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);
    struct lw__channel *channel =
        lw__listener_find(listener, lw__reply_text(lw__reply_at(reply, 1), NULL));

    if (channel == NULL) {
        if (lw__reader_push_kind(reply) == LW__PUSH_INVALIDATION) {
            note_changes(listener, lw__reply_at(reply, 2));
        }
        return;
    }
    if (strcasecmp(kind, "message") == 0 || strcasecmp(kind, "smessage") == 0) {
        listener->events->message(listener->arg, channel, text, length);
    } else if (strcasecmp(kind, "sunsubscribe") == 0) {
        note_unsubscribed(listener, channel);
    } else if (channel->state == LW__CHANNEL_PENDING ||
               channel->state == LW__CHANNEL_REFUSED) {
        channel->state = LW__CHANNEL_CONFIRMED;
        channel->fresh = true;
        listener->events->confirmed(listener->arg, channel);
    }
}

/* ---- its life ---- */

bool lw__listener_leave(struct lw__listener *listener, int64_t since_us)
{
    struct lw__session *session = &listener->session;
    struct lw__channel *channel, *next;
    bool others = false;

    HASH_ITER(hh, listener->channels, channel, next) {
        if (channel->wanted_us >= since_us) {
            others = true;
        } else if (session->state != LW__SESSION_READY) {
            lw__listener_remove(listener, channel);
        } else if (channel->state != LW__CHANNEL_LEAVING) {
            channel->state = LW__CHANNEL_LEAVING;
            channel->fresh = false;
            channel->wanted_us = 0;
            (void)lw__link_sunsubscribe(session->link, channel->text);
        }
    }
    return others;
}

void lw__listener_heartbeat(struct lw__listener *listener)
{
    struct lw__channel *channel, *next;

    HASH_ITER(hh, listener->channels, channel, next) {
        if (channel->state == LW__CHANNEL_CONFIRMED) {
            subscribe(listener, channel);
            return;
        }
    }
}

void lw__listener_init(struct lw__listener *listener,
                       const struct lw__listener_options *options,
                       const struct lw__listener_events *events, void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, push, NULL,
                                                             refused};

    *listener = (struct lw__listener){.options = *options, .events = events, .arg = arg};
    lw__session_init(&listener->session, options->config, &session_events, listener);
}

void lw__listener_start(struct lw__listener *listener)
{
    listener->forbidden = false;
    lw__session_start(&listener->session);
}

void lw__listener_stop(struct lw__listener *listener)
{
    lw__session_stop(&listener->session);
    (void)unconfirm_all(listener);
}

void lw__listener_clear(struct lw__listener *listener)
{
    struct lw__channel *channel, *next;

    lw__session_stop(&listener->session);
    HASH_ITER(hh, listener->channels, channel, next) {
        lw__listener_remove(listener, channel);
    }
}
