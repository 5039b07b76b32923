/* SPDX-License-Identifier: MIT */
/*
 * LW_REDISSON: locks shared with Redisson's RLock. What is its own of how handles wait:
 * by the channel on which Redisson tells of releases. Must not know replies, nor decide
 * when a grant may be believed.
 *
 * Happy path: the first try is refused, and has the name's channel listened to
 * (listen.c); its confirmation has the first who waits for the name ask again, as does
 * each message (line.c). Once it is held, who has the same owner enters (together.c).
 * Where the channel cannot be heard, or a cluster's Redisson uses another, who waits
 * polls.
 */
#include "lock/redisson.h"

#include "base/log.h"
#include "lock/line.h"
#include "lock/listen.h"
#include "lock/structs.h"
#include "redis/decode.h"
#include "redis/node.h"

#include <syslog.h>

#define POLL_MS 10000
#define POLL_UNHEARD_MS 3000

static void tell_of_cluster(struct lw_client *client)
{
    if (client->cluster_told || !lw__node_is_clustered(client->node)) {
        return;
    }
    client->cluster_told = true;
    lw__log(
        &client->log, LOG_WARNING,
        "the server is in cluster mode, where Redisson wakes by sharded channels: it and "
        "this client exclude each other, but waiting will be by polling");
}

static void held(struct lw__claim *claim)
{
    tell_of_cluster(claim->client);
}

static void refused(struct lw__claim *claim)
{
    tell_of_cluster(claim->client);
    lw__listen_to(claim->client, claim->name);
}

static void released(struct lw__claim *claim, const struct lw__released *answer)
{
    lw__line_released(claim->client, claim->name->text, answer->told,
                      lw__listen_hears(claim->client, claim->name->text));
}

/* Less where the name's channel is not heard. */
static int64_t poll_ms(const struct lw__claim *claim)
{
    const struct lw_client *client = claim->client;
    bool heard = lw__listen_hears(client, claim->name->text) &&
                 !lw__node_is_clustered(client->node);

    return heard ? POLL_MS : POLL_UNHEARD_MS;
}

const struct lw__in_line lw__redisson_in_line = {
    lw__line_must_wait, lw__line_moved, held, refused, released, poll_ms};
