/* SPDX-License-Identifier: MIT */
/* What answers tell by the way: see hints.h. Must not decide how long a message may be
 * believed; machine.c does. A hand-over is judged by the last answer whose time is not
 * later; where there is none of this connection it cannot be judged. */
#include "lock/hints.h"

#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/node.h"

#define CONTENDED_US (1000 * LW__MS)
#define KEEP_US (20000 * LW__MS) /* of the two minutes that a queue lives */

/* Two names in one slot drive each other out. */
static size_t slot_of(const struct lw__name *name)
{
    return name->hash % LW__CONTENDED_SLOTS;
}

void lw__hints_note_clock(struct lw__claim *claim, int64_t sent_us, int64_t server_us)
{
    struct lw_client *client = claim->client;

    /* whose clock it is says who answered: the name may lead elsewhere by now */
    claim->asking.pair = (struct lw__pair){
        sent_us, server_us, lw__node_connection(lw__node_of_command(&claim->command))};
    client->hints.pair = claim->asking.pair;
}

struct lw__pair lw__hints_clock(const struct lw__claim *claim, int64_t handed_us)
{
    const struct lw__pair *last = &claim->client->hints.pair;
    unsigned connection = lw__node_connection(claim->name->node);

    if (last->connection == connection && last->server_us <= handed_us) {
        return *last;
    }
    if (!lw__machine_asks(claim->machine.phase)) {
        return (struct lw__pair){0};
    }
    return claim->asking.pair.connection == connection ? claim->asking.pair
                                                       : (struct lw__pair){0};
}

void lw__hints_note_contended(struct lw_client *client, const struct lw__name *name)
{
    struct lw__contended *slot = &client->hints.contended[slot_of(name)];

    if (slot->hash != name->hash) {
        *slot = (struct lw__contended){.hash = name->hash};
    }
    slot->until_us = lw__now_us() + CONTENDED_US;
}

bool lw__hints_is_contended(const struct lw_client *client, const struct lw__name *name)
{
    const struct lw__contended *slot = &client->hints.contended[slot_of(name)];

    return slot->hash == name->hash && slot->until_us > lw__now_us();
}

bool lw__hints_keep(struct lw_client *client, const struct lw__name *name)
{
    struct lw__contended *slot = &client->hints.contended[slot_of(name)];
    int64_t now = lw__now_us();

    if (slot->hash != name->hash) {
        return true; /* nothing is known of it */
    }
    if (now - slot->kept_us < KEEP_US) {
        return false;
    }
    slot->kept_us = now;
    return true;
}
