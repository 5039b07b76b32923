/* SPDX-License-Identifier: MIT */
/* The subscription link of a node: the client's own channel, and whether what is said
 * there counts. Owns that connection, the channel that is its alone, and the verdict.
 * Must not know the command link, whose server's count it is told, nor what messages
 * mean.
 *
 * A name may lead the two links to different servers: a balancer, a failover, a replica.
 * A waiter would queue where nobody finds it, or hear what another server did. So the
 * link is bound only while the command link's own server counts the very connection that
 * stands: lw__subscription_counted(1), upon which `message` may be believed. */
#ifndef LW_SUBSCRIPTION_H
#define LW_SUBSCRIPTION_H
#include "redis/format.h"
#include "redis/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__subscription_events {
    /* The server of a new connection has its channels: now they can be counted. */
    void (*confirmed)(void *arg);
    void (*message)(void *arg, const char *text, size_t length);
    /* An attempt to connect, or to subscribe, failed, and is made again. */
    void (*failed)(void *arg, const char *why);
};

struct lw__subscription {
    struct lw__session session;
    const struct lw__subscription_events *events;
    void *arg;
    const char *uuid;
    char own_channel[LW__CHANNEL_OF_OURS_SIZE];
    char connection_channel[LW__CHANNEL_OF_OURS_SIZE]; /* by `nonce` */
    unsigned nonce;        /* counts connections; of the one that stands */
    unsigned astray;       /* counts of 0 in a row */
    unsigned commands_too; /* at so many of them */
    bool confirmed, bound, forbidden_told;
};

/* Room for a timer must have been reserved. Strings live as long as it. Starts
 * nothing: lw__session_start does, also of one that was forbidden. */
void lw__subscription_init(struct lw__subscription *subscription,
                           const struct lw__session_config *config, const char *uuid,
                           const struct lw__subscription_events *events, void *arg);
/* Subscribes once more, so that a connection that is dead shows. */
void lw__subscription_heartbeat(struct lw__subscription *subscription);
/* What the command link's server counts for the connection `nonce`. true: the command
 * link should connect anew as well, since this one alone has tried in vain: more and more
 * rarely, where they will never agree. */
bool lw__subscription_counted(struct lw__subscription *subscription, unsigned nonce,
                              int64_t count);
#endif
