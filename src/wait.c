/* SPDX-License-Identifier: MIT */
/*
 * Wake-ups to their waiters: finds the token that a message on our channel means, keeps
 * what answers told of the server's clock (only differences of it are ever used), and
 * remembers which names somebody else had lately. Must not decide how long a message may
 * be believed; machine.c does. Only whether it can be believed at all is known here.
 */
#include "core.h"

#include <string.h>
#include <syslog.h>
#include <utlist.h>

#define CONTENDED_US (1000 * LW__MS)

static struct lw__token *find_token(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    struct lw__token *token = NULL;

    if (name == NULL) {
        return NULL;
    }
    DL_SEARCH_SCALAR(name->tokens, token, n, m->n); /* FIFO: it is among the first */
    return token;
}

/* A turn is on its way that ends this token: it says all there is to say. To give it back
 * as well would have the turn find nothing, and its release told as too late. */
static bool is_being_ended(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    const struct lw__token *token;

    if (name == NULL) {
        return false;
    }
    DL_FOREACH(name->tokens, token) {
        if (token->machine.turning && token->previous_n == m->n) {
            return true;
        }
    }
    return false;
}

/* Whether the server that we send to gave us the lock. A subscription at another one
 * hears what that gave away, or what its master did, and by another clock. */
static bool is_of_our_server(const struct lw_client *client, const struct lw__message *m)
{
    return lw__node_is_bound(client->node) && *m->server &&
           strcmp(m->server, lw__node_server(client->node)) == 0;
}

void lw__wait_message(struct lw_client *client, const char *text, size_t length)
{
    struct lw__message message;
    struct lw__token *token;
    struct lw__input input = {0};

    if (!lw__get_message(text, length, client->uuid, &message)) {
        lw__log(&client->log, LOG_NOTICE,
                "a message that is not ours to understand on the channel of %s",
                client->uuid);
        return;
    }
    token = find_token(client, &message);
    if (token == NULL) {
        if (message.handed && !is_being_ended(client, &message)) {
            lw__token_give_back(client, message.name, &message);
        }
        return;
    }
    if (!message.handed) {
        input.event = LW__EV_STANDBY;
    } else {
        input.event = is_of_our_server(client, &message) ? LW__EV_HANDED : LW__EV_ASK_NOW;
    }
    input.fence = message.fence >= (uint64_t)LW__FENCE_MIN ? message.fence : 0;
    input.handed_us = message.handed_us;
    input.window_us = message.window_ms * LW__MS;
    lw__wait_clock(token, message.handed_us, &input.pair_sent_us, &input.pair_server_us);
    lw__token_step(token, &input);
}

void lw__wait_note_clock(struct lw__token *token, int64_t sent_us, int64_t server_us)
{
    struct lw_client *client = token->client;

    token->pair_sent_us = client->pair_sent_us = sent_us;
    token->pair_server_us = client->pair_server_us = server_us;
    token->pair_connection = client->pair_connection = lw__node_connection(client->node);
}

void lw__wait_clock(const struct lw__token *token, int64_t handed_us, int64_t *sent_us,
                    int64_t *server_us)
{
    const struct lw_client *client = token->client;
    unsigned connection = lw__node_connection(client->node);

    *sent_us = *server_us = 0;
    if (client->pair_connection == connection && client->pair_server_us <= handed_us) {
        *sent_us = client->pair_sent_us;
        *server_us = client->pair_server_us;
    } else if (token->pair_connection == connection) {
        *sent_us = token->pair_sent_us;
        *server_us = token->pair_server_us;
    }
}

void lw__wait_note_contended(struct lw_client *client, const struct lw__name *name)
{
    unsigned hash = name->hh.hashv;

    client->contended[hash % LW__CONTENDED_SLOTS].hash = hash;
    client->contended[hash % LW__CONTENDED_SLOTS].until_us = lw__now_us() + CONTENDED_US;
}

bool lw__wait_is_contended(const struct lw_client *client, const struct lw__name *name)
{
    unsigned hash = name->hh.hashv;

    return client->contended[hash % LW__CONTENDED_SLOTS].hash == hash &&
           client->contended[hash % LW__CONTENDED_SLOTS].until_us > lw__now_us();
}
