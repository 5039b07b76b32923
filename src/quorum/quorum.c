/* SPDX-License-Identifier: MIT */
/* The servers of a quorum as a whole: which of them are usable, whether they are a
 * majority, and why not. Each server is a member: a route of its own, and holds, whose
 * claims are votes. Independent of single locks, and of when a client is made or freed
 * (client.c).
 *
 * Usual course: each member's node comes up and is admitted; with the majority of them
 * the quorum is up. When a member goes down the quorum stays up while a majority is left.
 *
 * Failures: a server that is no independent master (a master with replicas, a node of a
 * cluster, the same server as another member) is not admitted: its link ends with the
 * reason, and it counts as down. (A replica is down in any case.) When no majority can be
 * reached, the reason lists every server with its own. */
#include "quorum/quorum_private.h"

#include "base/escape.h"
#include "base/log.h"
#include "base/reasons.h"
#include "loop/loop.h"
#include "redis/node.h"
#include "redis/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

/* ---- which servers are usable ---- */

/* Returns the member that is up and is the same server, or NULL. */
static const struct lw__quorum_member *find_same(const struct lw__quorum_member *member,
                                                 const struct lw__node *node)
{
    const struct lw__quorum *quorum = member->client->quorum;
    const char *server = lw__node_server(node);

    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__quorum_member *other = &quorum->members[i];

        if (other != member && *server && lw__member_is_up(other) &&
            strcmp(lw__node_server(lw__member_node(other)), server) == 0) {
            return other;
        }
    }
    return NULL;
}

/* A member's node came up. Returns false if the server cannot be a member: its link is
 * ended with the reason. */
static bool admit(struct lw__quorum_member *member, struct lw__node *node)
{
    const struct lw__quorum_member *same = find_same(member, node);
    char why[LW_WHY_SIZE];

    if (lw__node_is_clustered(node)) {
        (void)snprintf(why, sizeof(why), "a cluster's node cannot be in a quorum");
    } else if (lw__node_replicas(node) > 0) {
        (void)snprintf(why, sizeof(why),
                       "a master with replicas cannot be in a quorum: a replica would "
                       "not know its locks");
    } else if (same != NULL) {
        (void)snprintf(why, sizeof(why), "the same server as %.100s", same->server);
    } else {
        return true;
    }
    lw__node_fail_link(node, why);
    return false;
}

/* ---- the quorum as a whole ---- */

void lw__quorum_list(const struct lw__quorum *quorum,
                     const char *const why[LW__QUORUM_MOST], char ret[LW_WHY_SIZE])
{
    struct lw__reasons reasons;

    lw__reasons_begin(&reasons, ret, LW_WHY_SIZE, "", quorum->count);
    for (unsigned i = 0; i < quorum->count; i++) {
        lw__reasons_add(&reasons, quorum->members[i].server,
                        why[i] != NULL ? why[i] : "");
    }
}

int lw__quorum_error(const struct lw__quorum *quorum)
{
    unsigned refused = 0;

    if (quorum->up) {
        return LW_OK;
    }
    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__quorum_member *member = &quorum->members[i];

        if (lw__member_is_up(member)) {
            continue;
        }
        if (member->error == LW_ESYSTEM || member->error == LW_ENOMEM) {
            return member->error;
        }
        refused += member->error == LW_EREDIS;
    }
    return refused > quorum->count - quorum->majority ? LW_EREDIS : LW_ECONN;
}

/* Counts the members that are up, and those that have failed; writes why the quorum is
 * not up, "" if it is. */
static void survey(struct lw__quorum *quorum, unsigned *up, unsigned *failed)
{
    const char *reasons[LW__QUORUM_MOST] = {NULL};

    *up = *failed = 0;
    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__quorum_member *member = &quorum->members[i];

        if (lw__member_is_up(member)) {
            reasons[i] = "connected";
            *up += 1;
        } else if (member->holds.route != NULL) {
            reasons[i] = lw__node_reason(lw__member_node(member));
            *failed += lw__node_has_failed(lw__member_node(member));
        }
    }
    *quorum->why = '\0';
    if (*up < quorum->majority) {
        lw__quorum_list(quorum, reasons, quorum->why);
    }
}

const char *lw__quorum_reason(struct lw__quorum *quorum)
{
    unsigned up, failed;

    survey(quorum, &up, &failed);
    return quorum->why;
}

/* A member came up or went down, or failed to come up. A client that closes may end
 * before its members. */
static void note(struct lw_client *client)
{
    struct lw__quorum *quorum = client->quorum;
    struct lw__node *node;
    bool was_up = quorum->up;
    unsigned up, failed;

    if (client->closing) {
        return;
    }
    node = lw__route_node(client->route, 0);
    survey(quorum, &up, &failed);
    quorum->up = up >= quorum->majority;
    lw__node_set_up(node, quorum->up);
    if (quorum->up) {
        if (!was_up) {
            quorum->changed(client, was_up);
        }
        return;
    }
    if (!was_up && failed <= quorum->count - quorum->majority) {
        return; /* others are still connecting */
    }
    lw__node_set_reason(node, lw__quorum_error(quorum), quorum->why);
    quorum->changed(client, was_up);
}

/* ---- events of a member's server ---- */

static void link_changed(void *arg, int status, const char *why)
{
    struct lw__quorum_member *member = arg;
    bool for_good = status == LW_EREDIS || status == LW_ESYSTEM;

    member->error = status;
    if (status == LW_OK) {
        lw__log(&member->log, LOG_INFO, "connected");
    } else {
        lw__log_cause(&member->log, lw__now_us(), for_good ? LOG_ERR : LOG_WARNING,
                      "no connection: %s", why);
    }
}

static void node_up(void *arg, struct lw__node *node)
{
    struct lw__quorum_member *member = arg;

    if (!admit(member, node)) {
        return;
    }
    lw__retry_all(&member->holds, node, true);
    lw__identity_verify(&member->identity);
    note(member->client);
}

/* The votes are counted again: what this server was asked is not answered. */
static void node_down(void *arg, struct lw__node *node)
{
    struct lw__quorum_member *member = arg;
    struct lw__holds *holds = &member->client->holds;
    const struct lw__claim *claim;

    (void)node;
    for (struct lw__name *name = lw__name_after(holds, NULL); name != NULL;
         name = lw__name_after(holds, name)) {
        DL_FOREACH(name->claims, claim) {
            lw__votes_changed(claim->extras->votes);
        }
    }
    note(member->client);
}

static void node_bound(void *arg, struct lw__node *node)
{
    struct lw__quorum_member *member = arg;

    lw__retry_all(&member->holds, node, false);
}

static void guard_changed(void *arg, struct lw__node *node)
{
    struct lw__quorum_member *member = arg;

    lw__retry_all(&member->holds, node, true);
}

/* ---- the life of its members ---- */

int lw__quorum_new(struct lw_client *client,
                   void (*changed)(struct lw_client *client, bool was_up))
{
    unsigned count = (unsigned)client->url.host_count;
    struct lw__quorum *quorum =
        calloc(1, sizeof(*quorum) + count * sizeof(quorum->members[0]));

    if (quorum == NULL) {
        return LW_ENOMEM;
    }
    client->quorum = quorum;
    quorum->changed = changed;
    quorum->count = count;
    quorum->majority = quorum->count / 2 + 1;
    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__url_host *host = &client->url.hosts[i];
        struct lw__quorum_member *member = &quorum->members[i];
        bool v6 = strchr(host->name, ':') != NULL;

        member->client = client;
        (void)snprintf(member->server, sizeof(member->server), "%s%s%s:%u", v6 ? "[" : "",
                       host->name, v6 ? "]" : "", (unsigned)host->port);
    }
    return 0;
}

/* The holds have the client's id: what differs between its votes is the number. */
static void init_holds(struct lw__quorum_member *member,
                       const struct lw__claim_events *events)
{
    struct lw_client *client = member->client;
    struct lw__holds *holds = &member->holds;

    member->log = client->log;
    member->log.about = member->server;
    *holds = (struct lw__holds){
        .loop = client->loop,
        .log = &member->log,
        .stats = &client->stats,
        .events = events,
        .modes = client->holds.modes,
        .prefix = client->holds.prefix,
        .prefix_length = client->holds.prefix_length,
        .request_timeout_ms = client->holds.request_timeout_ms,
        .claim_size = sizeof(struct lw__ballot),
        .hash_key = client->holds.hash_key,
    };
    memcpy(holds->uuid, client->holds.uuid, sizeof(holds->uuid));
    lw__random_seed(&holds->random, lw__random_next(&client->holds.random));
    lw__renewal_init(holds);
    lw__identity_init(&member->identity, client, holds);
}

static int start(struct lw__quorum_member *member, const struct lw__url_host *host,
                 const struct lw__claim_events *events)
{
    static const struct lw__route_events route_events = {
        link_changed, .node = {.up = node_up,
                               .down = node_down,
                               .bound = node_bound,
                               .guard_changed = guard_changed}};
    struct lw_client *client = member->client;
    struct lw__route_options options;

    if (lw__timer_reserve(client->loop, 2) != 0) {
        return LW_ENOMEM;
    }
    init_holds(member, events);
    lw__options_fill_route(client, &member->holds, &options);
    lw__credentials_ask(client, &options.node.config);
    options.node.config.host = host->name;
    options.node.config.port = host->port;
    return lw__route_new(&options, &route_events, member, &member->holds.route);
}

int lw__quorum_start(struct lw_client *client, const struct lw__claim_events *events)
{
    struct lw__quorum *quorum = client->quorum;
    int status = 0;

    for (unsigned i = 0; i < quorum->count && status == 0; i++) {
        status = start(&quorum->members[i], &client->url.hosts[i], events);
    }
    return status;
}

void lw__quorum_close(struct lw__quorum *quorum)
{
    for (unsigned i = 0; i < quorum->count; i++) {
        lw__claim_close(&quorum->members[i].holds);
        lw__identity_withdraw(&quorum->members[i].identity);
    }
}

bool lw__quorum_is_drained(const struct lw__quorum *quorum)
{
    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__quorum_member *member = &quorum->members[i];

        if (member->holds.open_claims > 0 ||
            member->identity.command.request.prev != NULL) {
            return false;
        }
    }
    return true;
}

static void end_member(struct lw__quorum_member *member)
{
    struct lw__holds *holds = &member->holds;

    if (holds->loop == NULL) {
        return; /* not started */
    }
    lw__ending_free_claims(holds);
    lw__timer_cancel(holds->loop, &holds->renewals.timer);
    lw__timer_cancel(holds->loop, &member->identity.timer);
    lw__route_free(holds->route);
    lw__claim_clear(holds);
    lw__renewal_clear(holds);
    lw__name_clear(holds);
    *holds = (struct lw__holds){0};
}

void lw__quorum_end(struct lw__quorum *quorum)
{
    for (unsigned i = 0; i < quorum->count; i++) {
        end_member(&quorum->members[i]);
    }
}

void lw__quorum_free(struct lw_client *client)
{
    free(client->quorum);
    client->quorum = NULL;
}

/* ---- statistics ---- */

int lw__quorum_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void lw__quorum_fill_stats(const struct lw__quorum *quorum, struct lw_stats *stats)
{
    unsigned subscribed = 0, guards = 0;
    uint64_t left[LW__QUORUM_MOST];

    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__route *route = quorum->members[i].holds.route;
        uint64_t server_guard_ms;

        if (route != NULL) {
            stats->degraded |= lw__route_degraded(route);
        }
        if (route == NULL || quorum->members[i].error != LW_OK) {
            continue;
        }
        server_guard_ms = (uint64_t)lw__route_server_guard_ms(route);
        if (server_guard_ms > stats->server_guard_ms) {
            stats->server_guard_ms = server_guard_ms;
        }
        subscribed += lw__route_is_subscribed(route);
        left[guards++] =
            (uint64_t)((lw__route_guard_left_us(route) + LW__MS - 1) / LW__MS);
    }
    stats->subscription_up = subscribed >= quorum->majority;
    if (guards >= quorum->majority) {
        qsort(left, guards, sizeof(left[0]), lw__quorum_compare);
        stats->guard_left_ms = left[quorum->majority - 1];
    }
}
