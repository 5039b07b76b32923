/* SPDX-License-Identifier: MIT */
/* Messages to their claims. Must not decide how long a message may be believed; machine.c
 * does. Only whether it can be believed at all is known here. Happy path: a hand-over
 * goes to the claim with its token. One that is nobody's any more is given back; one of
 * another server than the command link's has its claim ask. A hint that a hold was broken
 * has it verified at once; it is never believed by itself. What is no message of ours is
 * told to the log. */
#include "lock/inbox.h"

#include "base/log.h"
#include "lock/claim.h"
#include "lock/hints.h"
#include "lock/name.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/node.h"

#include <string.h>
#include <syslog.h>
#include <utlist.h>

static struct lw__claim *find_claim(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    struct lw__claim *claim = NULL;

    if (name != NULL) { /* FIFO: it is among the first */
        DL_SEARCH_SCALAR(name->claims, claim, n, m->token.n);
    }
    return claim;
}

/* A turn is on its way that ends this token: it says all there is to say. To give it back
 * as well would have the turn find nothing, and its release told as too late. */
static bool is_being_ended(struct lw_client *client, const struct lw__message *m)
{
    struct lw__name *name = lw__name_find(client, m->name);
    const struct lw__claim *claim;

    if (name == NULL) {
        return false;
    }
    DL_FOREACH(name->claims, claim) {
        if (claim->machine.turning && claim->previous_n == m->token.n) {
            return true;
        }
    }
    return false;
}

/* Whether the server that we send to gave us the lock. A subscription at another one
 * hears what that gave away, or what its master did, and by another clock. */
static bool is_of_our_server(const struct lw__name *name, const struct lw__message *m)
{
    return lw__node_is_bound(name->node, name->slot) && *m->server &&
           strcmp(m->server, lw__node_server(name->node)) == 0;
}

/* What it is asking on its way to is another server, by whose clock its answer is. */
static bool asks_elsewhere(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ASKING && claim->command.request.prev != NULL &&
           lw__node_of_command(&claim->command) != claim->name->node;
}

void lw__inbox_message(void *arg, const char *text, size_t length)
{
    struct lw_client *client = arg;
    struct lw__message message;
    struct lw__claim *claim;
    struct lw__input input = {0};
    struct lw__pair pair;

    if (!lw__format_read_message(text, length, client->uuid, &message)) {
        lw__log(&client->log, LOG_NOTICE,
                "a message that is not ours to understand on the channel of %s",
                client->uuid);
        return;
    }
    claim = find_claim(client, &message);
    if (claim == NULL) {
        if (message.handed && !is_being_ended(client, &message)) {
            lw__claim_give_back(client, &message);
        }
        return;
    }
    if (message.verify) {
        lw__renewal_verify(claim);
        return;
    }
    if (!message.handed) {
        input.event = LW__EV_STANDBY;
        input.standby.window_us = message.window_ms * LW__MS;
        if (lw__machine_asks(claim->machine.phase)) {
            claim->asking.place = 1;
        }
    } else if (is_of_our_server(claim->name, &message) && !asks_elsewhere(claim)) {
        pair = lw__hints_clock(claim, message.handed_us);
        input.event = LW__EV_HANDED;
        input.handed.handed_us = message.handed_us;
        input.handed.fence = message.fence >= (uint64_t)LW__FENCE_MIN ? message.fence : 0;
        input.handed.pair_sent_us = pair.sent_us;
        input.handed.pair_server_us = pair.server_us;
    } else {
        input.event = LW__EV_ASK_NOW;
    }
    lw__claim_step(claim, &input);
}
