/* SPDX-License-Identifier: MIT */
/* The client's identity for those who inspect a lock: a short text (name, host, process)
 * under a key of its own, kept in Redis while the client holds or waits. Nothing depends
 * on it, so that its failures are not reported. The first acquisition publishes it, and a
 * timer refreshes it long before it expires. A client that closes deletes the key; during
 * an outage the key is left to expire. */
#include "lock/lock_private.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "loop/loop.h"
#include "redis/encode.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REFRESH_US (40000 * (int64_t)LW__MS)

static struct lw__node *node_of(const struct lw__identity *identity)
{
    char key[LW__CLIENT_SIZE];

    lw__format_client(identity->holds->prefix, identity->holds->uuid, key);
    return lw__route_find(identity->holds->route, key, NULL);
}

static struct lw__identity *identity_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__identity, command, command);
}

static void encode_text(struct lw__command *command, struct lw__buffer *out)
{
    const struct lw__identity *identity = identity_of(command);
    const struct lw_client *client = identity->client;

    lw__encode_identity(out, identity->holds->prefix, identity->holds->uuid,
                        client->closing ? NULL : client->identity_text);
}

/* Notes whether the key is in Redis. If the client has closed, deletes the key. */
static void settle(struct lw__identity *identity, bool published)
{
    identity->published = published;
    if (!identity->client->closing) {
        return;
    }
    lw__identity_withdraw(identity);
    lw__ending_drained(identity->client);
}

static bool replied(struct lw__command *command, const struct lw__reply *reply)
{
    settle(identity_of(command),
           lw__reply_type(reply) == LW__REPLY_STATUS); /* of SET; DEL returns a number */
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__identity *identity = identity_of(command);

    (void)why; /* a SET without a reply may have been executed */
    settle(identity, !identity->client->closing && (sent || identity->published));
}

static void send_text(struct lw__identity *identity)
{
    static const struct lw__command_type type = {encode_text, replied, .failed = failed};

    if (identity->command.request.prev == NULL) {
        (void)lw__node_send(node_of(identity), &identity->command, &type,
                            LW__PRIORITY_NEW, true);
    }
}

static void refresh(void *arg)
{
    struct lw__identity *identity = arg;

    if (identity->holds->open_claims > 0) {
        lw__identity_publish(identity, lw__now_us());
    }
}

/* Writes the name of this host. A word of an identity has no blanks. */
static void get_host(char ret[65])
{
    if (gethostname(ret, 64) != 0 || ret[0] == '\0') {
        memcpy(ret, "-", 2);
    }
    ret[64] = '\0';
    for (char *at = ret; *at != '\0'; at++) {
        if (*at <= 0x20 || *at >= 0x7f) {
            *at = '?';
        }
    }
}

void lw__identity_describe(struct lw_client *client)
{
    char host[65], uid[LW__DIGITS];

    get_host(host);
    (void)snprintf(uid, sizeof(uid), "%lu", (unsigned long)geteuid());
    (void)snprintf(client->identity_text, sizeof(client->identity_text), "%s %s %ld",
                   client->options.client_name, host, (long)getpid());
    (void)snprintf(client->who, sizeof(client->who), "%s %s", client->identity_text,
                   client->options.user != NULL ? client->options.user : uid);
}

void lw__identity_init(struct lw__identity *identity, struct lw_client *client,
                       struct lw__holds *holds)
{
    identity->client = client;
    identity->holds = holds;
    holds->who = client->options.no_identity ? NULL : client->who;
    lw__timer_init(&identity->timer, refresh, identity);
}

void lw__identity_publish(struct lw__identity *identity, int64_t now_us)
{
    const struct lw_client *client = identity->client;

    if (now_us < identity->due_us || client->closing || identity->holds->votes != NULL ||
        client->options.no_identity || !lw__node_is_up(node_of(identity))) {
        return;
    }
    identity->due_us = now_us + REFRESH_US;
    lw__timer_set(client->loop, &identity->timer, identity->due_us);
    send_text(identity);
}

void lw__identity_verify(struct lw__identity *identity)
{
    identity->due_us = 0;
    refresh(identity);
}

void lw__identity_withdraw(struct lw__identity *identity)
{
    lw__timer_cancel(identity->client->loop, &identity->timer);
    if (identity->published) {
        send_text(identity);
    }
}
