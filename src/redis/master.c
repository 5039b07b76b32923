/* SPDX-License-Identifier: MIT */
/* The present master of a service, and which answer replaces it: see master.h.
 * No sentinel is asked here. */
#include "redis/master.h"

#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/address_map.h"

#include <stdio.h>
#include <syslog.h>

bool lw__master_is_later(const struct lw__sentinel_answer *a,
                         const struct lw__sentinel_answer *b)
{
    return a->epoch != b->epoch ? a->epoch > b->epoch : b->moving && !a->moving;
}

bool lw__master_is_known(const struct lw__master *master)
{
    return master->answer.endpoint.host[0] != '\0';
}

bool lw__master_is_at(const struct lw__master *master,
                      const struct lw__endpoint *endpoint)
{
    return lw__endpoint_equal(&master->answer.endpoint, endpoint);
}

bool lw__master_is_better(const struct lw__sentinel_answer *a,
                          const struct lw__sentinel_answer *b,
                          const struct lw__master *master)
{
    if (lw__master_is_later(a, b) || lw__master_is_later(b, a)) {
        return lw__master_is_later(a, b);
    }
    if (a->down != b->down) {
        return b->down;
    }
    /* a name and an address of one server must not alternate */
    return lw__master_is_at(master, &a->endpoint) &&
           !lw__master_is_at(master, &b->endpoint);
}

/* A later configuration with the same master means that another server was the master in
 * between: the present one has what that one had, or less. */
static bool was_another(const struct lw__master *master, int64_t announced_epoch)
{
    return master->announced_epoch >= 0 && announced_epoch > master->announced_epoch;
}

/* An answer without that time changes nothing if it names the same master. */
static void note_since(struct lw__master *master,
                       const struct lw__sentinel_answer *answer, int64_t now_us)
{
    if (answer->for_ms >= 0) {
        master->since_us = now_us - answer->for_ms * LW__MS;
        master->since_known = true;
    } else if (!lw__master_is_at(master, &answer->endpoint)) {
        master->since_known = false;
    }
}

bool lw__master_take(struct lw__master *master, const struct lw__sentinel_answer *answer,
                     int64_t announced_epoch, int64_t now_us,
                     const struct lw__address_map *map, char why[LW_WHY_SIZE])
{
    const struct lw__endpoint to = answer->endpoint, from = master->answer.endpoint;
    bool known = lw__master_is_known(master);
    bool moves = known && !lw__master_is_at(master, &to);
    bool again = known && !moves && was_another(master, announced_epoch);
    char note[LW__ADDRESS_MAP_NOTE_SIZE];

    if (moves) {
        lw__address_map_note_target(map, &to, note);
        (void)snprintf(why, LW_WHY_SIZE, "the master is now %.60s:%u%.100s, was %.60s:%u",
                       to.host, (unsigned)to.port, note, from.host, (unsigned)from.port);
    } else if (again) {
        (void)snprintf(why, LW_WHY_SIZE,
                       "%.60s:%u is the master again after another failover; locks "
                       "granted in between may be lost",
                       to.host, (unsigned)to.port);
    }
    if (moves || !known || announced_epoch > master->announced_epoch) {
        master->announced_epoch = announced_epoch;
    }
    note_since(master, answer, now_us);
    master->answer = *answer;
    master->stale_rounds = 0;
    master->rejected_logged = false;
    return moves || again;
}

void lw__master_log_rejected(struct lw__master *master, const struct lw__log *log,
                             const struct lw__endpoint *named)
{
    const struct lw__endpoint *present = &master->answer.endpoint;

    lw__log_once(log, &master->rejected_logged, LOG_WARNING,
                 "sentinels report %.60s:%u as master, but with a config-epoch no later "
                 "than that of %.60s:%u, and a majority of the listed sentinels has not "
                 "answered: still trying %.60s:%u",
                 named->host, (unsigned)named->port, present->host,
                 (unsigned)present->port, present->host, (unsigned)present->port);
}

void lw__master_tell(const struct lw__master *master, struct lw_master *ret)
{
    const struct lw__endpoint *endpoint = &master->answer.endpoint;

    _Static_assert(sizeof(ret->host) == sizeof(endpoint->host), "a public size");
    (void)snprintf(ret->host, sizeof(ret->host), "%s", endpoint->host);
    ret->port = endpoint->port;
    ret->for_ms = master->since_known ? (lw__now_us() - master->since_us) / LW__MS : -1;
}
