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

static struct lw__node *node_of(const struct lw_client *client)
{
    return lw__route_find(client->route, client->identity.key, NULL);
}

static struct lw_client *client_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__identity, command, command)->client;
}

static void encode_text(struct lw__command *command, struct lw__buffer *out)
{
    struct lw_client *client = client_of(command);

    lw__encode_identity(out, client->holds.prefix, client->holds.uuid,
                        client->closing ? NULL : client->identity.text);
}

/* Notes whether the key is in Redis. If the client has closed, deletes the key. */
static void settle(struct lw__command *command, bool published)
{
    struct lw_client *client = client_of(command);

    client->identity.published = published;
    if (!client->closing) {
        return;
    }
    lw__identity_withdraw(client);
    lw__ending_drained(client);
}

static bool replied(struct lw__command *command, const struct lw__reply *reply)
{
    settle(command,
           lw__reply_type(reply) == LW__REPLY_STATUS); /* of SET; DEL returns a number */
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    const struct lw_client *client = client_of(command);

    (void)why; /* a SET without a reply may have been executed */
    settle(command, !client->closing && (sent || client->identity.published));
}

static void send_text(struct lw_client *client)
{
    static const struct lw__command_type type = {encode_text, replied, .failed = failed};

    if (client->identity.command.request.prev == NULL) {
        (void)lw__node_send(node_of(client), &client->identity.command, &type,
                            LW__PRIORITY_NEW, true);
    }
}

static void refresh(void *arg)
{
    struct lw_client *client = arg;

    if (client->holds.open_claims > 0) {
        lw__identity_publish(client, lw__now_us());
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

void lw__identity_init(struct lw_client *client)
{
    struct lw__identity *identity = &client->identity;
    char host[65], uid[LW__DIGITS];

    get_host(host);
    (void)snprintf(uid, sizeof(uid), "%lu", (unsigned long)geteuid());
    (void)snprintf(identity->text, sizeof(identity->text), "%s %s %ld",
                   client->options.client_name, host, (long)getpid());
    (void)snprintf(identity->who, sizeof(identity->who), "%s %s", identity->text,
                   client->options.user != NULL ? client->options.user : uid);
    client->holds.who = client->options.no_identity ? NULL : identity->who;
    client->identity.client = client;
    lw__format_client(client->holds.prefix, client->holds.uuid, client->identity.key);
    lw__timer_init(&client->identity.timer, refresh, client);
}

void lw__identity_publish(struct lw_client *client, int64_t now_us)
{
    if (now_us < client->identity.due_us || client->closing || client->quorum != NULL ||
        client->options.no_identity || !lw__node_is_up(node_of(client))) {
        return;
    }
    client->identity.due_us = now_us + REFRESH_US;
    lw__timer_set(client->loop, &client->identity.timer, client->identity.due_us);
    send_text(client);
}

void lw__identity_verify(struct lw_client *client)
{
    client->identity.due_us = 0;
    refresh(client);
}

void lw__identity_withdraw(struct lw_client *client)
{
    lw__timer_cancel(client->loop, &client->identity.timer);
    if (client->identity.published) {
        send_text(client);
    }
}
