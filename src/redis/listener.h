/* SPDX-License-Identifier: MIT */
/* A connection that subscribes to channels, kept alive by a session. It has four kinds of
 * owners: a node, for the channels of its client; a cluster's node, for a sharded channel
 * of each slot that has waiters; a sentinel, for +switch-master; and LW_REDISSON, for the
 * channels of its locks. Independent of what the messages mean.
 *
 * lw__listener_start connects, lw__listener_add names a channel; `confirmed` is called
 * once the server has it, then `message` for each message. After a lost connection all
 * channels are subscribed to again.
 *
 * A server that does not permit SUBSCRIBE stops the listener. That is logged once. */
#ifndef LW_LISTENER_H
#define LW_LISTENER_H
#include "base/hash.h"
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__channel {
    UT_hash_handle hh; /* by `slot` if it is sharded, else by `text` */
    enum {
        LW__CHANNEL_PENDING, /* subscribed to as soon as the connection is up */
        LW__CHANNEL_CONFIRMED,
        LW__CHANNEL_REFUSED, /* maybe: lw__listener_add subscribes to it again */
        LW__CHANNEL_LEAVING  /* SUNSUBSCRIBE is not confirmed yet */
    } state;
    bool fresh;        /* confirmed since lw__listener_settle */
    int64_t wanted_us; /* when lw__listener_add named it last; 0: not since it LEAVES */
    unsigned slot;     /* if it is sharded */
    const char *tag;   /* of its owner, stored behind `text` */
    char text[];
};

struct lw__listener_events {
    /* The connection is up. In place of subscribing to the channels that there are, which
     * the owner replaces. NULL if they stay. */
    void (*ready)(void *arg);
    void (*confirmed)(void *arg, struct lw__channel *channel);
    void (*message)(void *arg, const struct lw__channel *channel, const char *text,
                    size_t length);
    /* A key has changed, or it is NULL: any keys have. Comes if another connection has
     * CLIENT TRACKING redirect to this one. NULL if no connection has. */
    void (*key_changed)(void *arg, const char *key);
    /* The connection has ended, and with it the subscription. NULL if the owner does not
     * need to know of each channel. */
    void (*unconfirmed)(void *arg, const struct lw__channel *channel);
    /* A connection with confirmed channels ended, or an attempt to have them. The
     * listener tries again, unless it is `forbidden`. NULL if not needed. */
    void (*lost)(void *arg, bool was_confirmed, const char *why);
    /* Sharded channels only. The node has unsubscribed us from a confirmed channel, whose
     * slot is elsewhere. The channel has been freed. */
    void (*unsubscribed)(void *arg, unsigned slot);
    /* Sharded channels only. The node refuses a channel: its slot is elsewhere, or has no
     * owner. */
    void (*unsettled)(void *arg);
};

struct lw__listener_options {
    const struct lw__session_config *config;
    bool sharded;
    const struct lw__hash_key *hash_key; /* for names that others choose; or NULL */
    const char *consequence;             /* for the log, if SUBSCRIBE is not permitted */
};

struct lw__listener {
    struct lw__listener_options options;
    const struct lw__listener_events *events;
    void *arg;
    struct lw__session session;
    struct lw__channel *channels;
    unsigned connections; /* counts them; of the present one */
    bool forbidden;       /* the server refused a subscription, for good */
    bool forbidden_logged;
};

/* Initializes a listener without starting it. The caller must have reserved a timer, and
 * all that is pointed at must live as long as the listener. */
void lw__listener_init(struct lw__listener *listener,
                       const struct lw__listener_options *options,
                       const struct lw__listener_events *events, void *arg);
/* Connects; no effect unless it is stopped. A listener that was forbidden tries again. */
void lw__listener_start(struct lw__listener *listener);
/* Disconnects. The channels stay, unconfirmed. */
void lw__listener_stop(struct lw__listener *listener);
/* Disconnects and frees all channels. lw__listener_start may follow. */
void lw__listener_clear(struct lw__listener *listener);

/* Subscribes to a channel, now or when the connection is up. If it is sharded, `text`
 * leads to `slot`. `tag` is copied. Returns the channel, which may have been there, or
 * NULL without memory. */
struct lw__channel *lw__listener_add(struct lw__listener *listener, unsigned slot,
                                     const char *text, const char *tag);
/* Each returns the channel, or NULL if it is not there; the second one is for sharded
 * channels. */
struct lw__channel *lw__listener_find(const struct lw__listener *listener,
                                      const char *text);
struct lw__channel *lw__listener_find_slot(const struct lw__listener *listener,
                                           unsigned slot);
/* Frees the channel, without a word to the server. */
void lw__listener_remove(struct lw__listener *listener, struct lw__channel *channel);
/* Clears the mark `fresh` of all channels. */
void lw__listener_settle(struct lw__listener *listener);
/* Unsubscribes from sharded channels that were last wanted before `since_us`. Returns
 * true if others are left. */
bool lw__listener_leave(struct lw__listener *listener, int64_t since_us);
/* Subscribes to a confirmed channel once more, so that a dead connection is noticed. */
void lw__listener_heartbeat(struct lw__listener *listener);
#endif
