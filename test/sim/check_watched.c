/* SPDX-License-Identifier: MIT
 *
 * Checks the hosts that ask sentinels for the master: which server they connect to; that
 * they leave a server that is not the master, at once if a sentinel announces the new
 * one; that both links end at the master; that a hold which the master does not know is
 * reported as lost as soon as the master was asked. Changes nothing in the world.
 *
 * Each function returns if all is well; a violation does not return. If packets or hosts
 * may be late, only what does not depend on that is checked.
 */
#include "look.h"
#include "network.h"
#include "sentinels.h"

#include "lock/lock_private.h"
#include "redis/route.h"

#include <stdio.h>
#include <string.h>

#define GATHER_US (200 * MS) /* the wait for others after the first sentinel's reply */
#define LATE_US (20 * MS)

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the time of a few round trips if nothing is late. */
static int64_t round_trips_us(void)
{
    return 8 * (world.plan.latency_us + world.plan.jitter_us) + LATE_US;
}

/* Checks that a host does not follow an outdated sentinel if a better informed one
 * replies in time. */
void check_way(const struct host *host, unsigned server)
{
    int64_t round_us = world.plan.request_timeout_ms * MS / 2 + GATHER_US;

    if (!world.plan.watched || !world.plan.clear || world.plan.listed < SENTINELS ||
        world.healed) {
        return;
    }
    if (!sentinels_lead_to(server, round_us + round_trips_us())) {
        violation("h%d connects to s%u, which a sentinel of an older epoch named",
                  host->id, server);
    }
}

static bool has(struct bytes data, const char *word)
{
    return memmem(data.data, data.len, word, strlen(word)) != NULL;
}

/* Checks that a host leaves a server that ROLE has reported to be a replica. */
void check_greeted(struct wire *wire, struct bytes data)
{
    if (!world.plan.watched || !wire->at_replica || wire->changes != servers_changes()) {
        return;
    }
    if (has(data, "SUBSCRIBE\r\n") || has(data, "EVAL") || has(data, "COMMAND\r\n")) {
        violation("h%d stays at s%u, which is a replica", wire->host->id, wire->server);
    }
}

/* ---- a switch that a sentinel announces ---- */

void check_told_turn(struct wire *wire, struct bytes data)
{
    char text[512], host[64], *at;
    struct host *to = wire->host;
    int port;

    look_copy(text, sizeof(text), data);
    at = strstr(text, "+switch-master\r\n$");
    /* a discovered sentinel is not believed at once */
    if (!world.plan.clear || wire->server < SERVERS ||
        wire->server >= SERVERS + world.plan.listed || at == NULL ||
        sscanf(at, "+switch-master\r\n$%*d\r\n%*s %*s %*s %63s %d", host, &port) != 2) {
        return;
    }
    to->turn.at_us = world.now_us;
    to->turn.to = sentinels_place(host, port);
    to->turn.last_wire = wires->id;
    to->turn.told_by = wire->id;
}

static bool still_stands(const struct host *host, int id)
{
    const struct wire *wire = wires;

    while (wire != NULL && (wire->id != id || wire->fd < 0)) {
        wire = wire->next;
    }
    return wire != NULL && wire->host == host;
}

/* Checks that both links have left the former master. */
static void check_turn(struct host *host)
{
    if (!host_can_run(host) ||
        world.now_us <= latest(host->turn.at_us, host->stall_end_us) + LATE_US) {
        return;
    }
    if (!still_stands(host, host->turn.told_by)) {
        host->turn.at_us = 0; /* the wire may have ended before the message was read */
        return;
    }
    for (const struct wire *wire = wires; wire != NULL; wire = wire->next) {
        if (wire->host == host && wire->id <= host->turn.last_wire && wire->fd >= 0 &&
            wire->server < SERVERS && wire->server != host->turn.to) {
            violation("h%d was told that s%u is the master, and stays at s%u", host->id,
                      host->turn.to, wire->server);
        }
    }
    host->turn.at_us = 0;
}

/* ---- at the master ---- */

/* Compares servers as the library names them, by the beginning of the run id. */
bool check_is_at_master(const struct host *host)
{
    const char *server = lw__node_server(lw__route_find(host->client->route, "", NULL)),
               *info = look_ask("INFO", NULL);
    const char *at = strstr(info, "run_id:");

    return at != NULL && *server != '\0' &&
           strncmp(at + strlen("run_id:"), server, strlen(server)) == 0;
}

static bool is_known(const struct op *op)
{
    char token[LW__TOKEN_SIZE];

    stray_token(op, token);
    return look_left_ms(op->name, token) >= 0;
}

bool check_is_unaware(const struct host *host)
{
    return world.plan.unkilled && host->up_us < servers_since_us();
}

/* Checks that the host knows of the last failover: from a message, or from asking at a
 * heartbeat. */
static void check_unaware(const struct host *host)
{
    int64_t round_us = world.plan.request_timeout_ms * MS * 3 / 2 + GATHER_US;

    if (host->link_up && !host->closing && check_is_unaware(host) && host_can_run(host) &&
        world.plan.listed == SENTINELS && sentinels_agree(round_us + round_trips_us())) {
        violation("h%d does not know of the last failover", host->id);
    }
}

/* Records since when the master has not known the hold; 0 if it knows it. */
static void note_unknown(struct op *op)
{
    if (op->state != OP_HELD || lw_lock_state(op->lock) != LW_HELD || !stray_is(op) ||
        is_known(op)) {
        op->unknown_us = 0;
    } else if (op->unknown_us == 0) {
        op->unknown_us = world.now_us;
    }
}

/* Checks that every hold is verified on a new connection, and reported as lost if the
 * master did not know it then. */
static void check_hold(struct op *op)
{
    const struct host *host = op->host;

    if (op->life != host->life || host->closing) {
        return;
    }
    note_unknown(op);
    if (op->unknown_us == 0 || op->unknown_us > host->up_us || !host->link_up ||
        !host_can_run(host) || check_is_unaware(host) || !check_is_at_master(host)) {
        return;
    }
    if (world.now_us > latest(host->up_us, op->granted_us) + round_trips_us()) {
        violation("op %u: the master was asked and does not know its hold, and that is "
                  "not told",
                  op->id);
    }
}

void check_watched(void)
{
    if (!world.plan.watched || !world.plan.clear) {
        return;
    }
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (world.hosts[i].turn.at_us > 0 && world.hosts[i].client != NULL) {
            check_turn(&world.hosts[i]);
        }
        if (world.hosts[i].client != NULL && !world.plan.nameless) {
            check_unaware(&world.hosts[i]);
        }
    }
    for (struct op *op = world.ops; op != NULL; op = op->next) {
        check_hold(op);
    }
}

/* Checks the links to the master, long after everything works again. */
void check_settled(void)
{
    for (unsigned i = 0; i < world.plan.hosts && world.plan.watched; i++) {
        const struct host *host = &world.hosts[i];

        if (host->client == NULL || host->closing || world.plan.nameless) {
            continue;
        }
        if (!check_is_at_master(host)) {
            violation("h%u's commands do not go to the master", i);
        }
        /* a client that was denied subscribing retries only on its next connection */
        if (!world.plan.every_us[FAULT_CHANNELS] &&
            !lw__node_is_bound(lw__route_find(host->client->route, "", NULL), 0)) {
            violation("h%u does not listen to the master", i);
        }
    }
}
