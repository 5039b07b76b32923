/* SPDX-License-Identifier: MIT */
/* The servers of a quorum as a whole: which of them are usable, whether they are a
 * majority, and why not. Each server is a member, with a client of its own, which
 * connects, renews and hands over as any other. Independent of single locks, and of when
 * a client is made or freed (client.c).
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

/* ---- its members ---- */

int lw__quorum_new(struct lw_client *client)
{
    struct lw__quorum *quorum = calloc(1, sizeof(*quorum));

    if (quorum == NULL) {
        return LW_ENOMEM;
    }
    client->quorum = quorum;
    quorum->count = (unsigned)client->url.host_count;
    quorum->majority = quorum->count / 2 + 1;
    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__url_host *host = &client->url.hosts[i];
        bool v6 = strchr(host->name, ':') != NULL;

        quorum->members[i].whole = client;
        quorum->members[i].index = i;
        (void)snprintf(quorum->members[i].server, sizeof(quorum->members[i].server),
                       "%s%s%s:%u", v6 ? "[" : "", host->name, v6 ? "]" : "",
                       (unsigned)host->port);
    }
    return 0;
}

void lw__quorum_free(struct lw_client *client)
{
    free(client->quorum);
    client->quorum = NULL;
}

/* Each message of a member says which server it is about. */
static void log_of_member(int level, const char *message, void *arg)
{
    const struct lw__quorum_member *member = arg;

    lw__log(&member->whole->log, level, "%s: %s", member->server, message);
}

/* The zone of an address follows a "%", which a URL writes as "%25". */
static char *url_of(const struct lw__quorum_member *member)
{
    const char *scheme = member->whole->url.tls ? "rediss://" : "redis://";
    const char *zone = strchr(member->server, '%');
    int before = zone != NULL ? (int)(zone - member->server)
                              : (int)strlen(member->server);
    size_t size = strlen(scheme) + strlen(member->server) + 3;
    char *url = malloc(size);

    if (url != NULL) {
        (void)snprintf(url, size, "%s%.*s%s%s", scheme, before, member->server,
                       zone != NULL ? "%25" : "", zone != NULL ? zone + 1 : "");
    }
    return url;
}

char *lw__quorum_describe(struct lw__quorum_member *member, struct lw_client_options *ret)
{
    const struct lw_client *whole = member->whole;

    *ret = whole->options;
    ret->size = sizeof(*ret);
    ret->local_turns = 1; /* handles share the whole client's claims */
    ret->link = NULL;
    ret->log = log_of_member;
    ret->arg = member;
    ret->sentinel_username = ret->sentinel_password = ret->sentinel_password_file = NULL;
    return url_of(member);
}

/* Claims with the same ticket are in the order of their tokens, which begin with the
 * client's id. So that all servers have them in one order, the ids of the members differ
 * in the last digit alone. */
void lw__quorum_identify(const struct lw__quorum_member *member, char ret[LW__UUID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    char *last = &ret[LW__UUID_SIZE - 2];

    memcpy(ret, member->whole->holds.uuid, LW__UUID_SIZE);
    *last = digits[(size_t)(strchr(digits, *last) - digits) ^ (member->index + 1)];
}

/* ---- which servers are usable ---- */

static struct lw__node *node_of(const struct lw__quorum_member *member)
{
    return lw__route_node(member->client->route, 0);
}

static bool is_up(const struct lw__quorum_member *member)
{
    return member->client != NULL && member->client->route != NULL &&
           lw__node_is_up(node_of(member));
}

/* Returns the member that is up and is the same server, or NULL. */
static const struct lw__quorum_member *find_same(const struct lw__quorum_member *member,
                                                 const struct lw__node *node)
{
    const struct lw__quorum *quorum = member->whole->quorum;
    const char *server = lw__node_server(node);

    for (unsigned i = 0; i < quorum->count; i++) {
        const struct lw__quorum_member *other = &quorum->members[i];

        if (other != member && *server && is_up(other) &&
            strcmp(lw__node_server(node_of(other)), server) == 0) {
            return other;
        }
    }
    return NULL;
}

bool lw__quorum_admit(struct lw__quorum_member *member, struct lw__node *node)
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

        if (is_up(member)) {
            continue;
        }
        if (member->client->error == LW_ESYSTEM || member->client->error == LW_ENOMEM) {
            return member->client->error;
        }
        refused += member->client->error == LW_EREDIS;
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

        if (is_up(member)) {
            reasons[i] = "connected";
            *up += 1;
        } else if (member->client != NULL && member->client->route != NULL) {
            reasons[i] = lw__node_reason(node_of(member));
            *failed += lw__node_has_failed(node_of(member));
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

bool lw__quorum_note(struct lw_client *client)
{
    struct lw__quorum *quorum = client->quorum;
    struct lw__node *node = lw__route_node(client->route, 0);
    bool was_up = quorum->up;
    unsigned up, failed;

    survey(quorum, &up, &failed);
    quorum->up = up >= quorum->majority;
    lw__node_set_up(node, quorum->up);
    if (quorum->up) {
        return !was_up;
    }
    if (!was_up && failed <= quorum->count - quorum->majority) {
        return false; /* others are still connecting */
    }
    lw__node_set_reason(node, lw__quorum_error(quorum), quorum->why);
    return true;
}

/* ---- statistics ---- */

int lw__quorum_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void lw__quorum_add_stats(const struct lw__quorum *quorum, const struct lw_stats *each,
                          struct lw_stats *stats)
{
    unsigned subscribed = 0, guards = 0;
    uint64_t left[LW__QUORUM_MOST];

    for (unsigned i = 0; i < quorum->count; i++) {
        stats->handed_over += each[i].handed_over;
        stats->renewed += each[i].renewed;
        stats->renewals_late += each[i].renewals_late;
        stats->commands += each[i].commands;
        stats->resent += each[i].resent;
        stats->reconnects += each[i].reconnects;
        stats->guarded += each[i].guarded;
        if (each[i].server_guard_ms > stats->server_guard_ms) {
            stats->server_guard_ms = each[i].server_guard_ms;
        }
        subscribed += each[i].subscription_up != 0;
        if (each[i].link_up) {
            left[guards++] = each[i].guard_left_ms;
        }
    }
    stats->subscription_up = subscribed >= quorum->majority;
    if (guards >= quorum->majority) {
        qsort(left, guards, sizeof(left[0]), lw__quorum_compare);
        stats->guard_left_ms = left[quorum->majority - 1];
    }
}
