/* SPDX-License-Identifier: MIT
 *
 * Checks a quorum's servers: a client that believes that it holds a lock has the votes of
 * a majority. Changes nothing. A violation does not return.
 */
#include "lock/lock_private.h"
#include "look.h"

#include <string.h>

/* Returns true if the name's key at this server has a token of the client. */
static bool has_vote(const struct op *op, unsigned server)
{
    const struct lw_client *client = op->host->client;
    const char *uuid = client->holds.uuid;
    char *rest, *value;

    look_from(world.servers[server]);
    rest = (char *)look_ask("GET", load_name(op->name), NULL);
    value = look_take(&rest);
    look_from(NULL);
    return value != NULL && strncmp(value, uuid, strlen(uuid)) == 0;
}

void check_votes(const struct op *op)
{
    unsigned votes = 0;

    if (op->host->client == NULL || op->host->client->quorum == NULL) {
        return;
    }
    for (unsigned i = 0; i < world.plan.servers; i++) {
        votes += has_vote(op, i);
    }
    if (votes <= world.plan.servers / 2) {
        violation("op %u believes to hold %s, but only %u servers have it", op->id,
                  load_name(op->name), votes);
    }
}

bool check_has_no_majority(const char *name)
{
    unsigned held = 0;

    for (unsigned i = 0; i < world.plan.servers; i++) {
        look_from(world.servers[i]);
        held += !look_is_free(name);
        look_from(NULL);
    }
    return held <= world.plan.servers / 2;
}
