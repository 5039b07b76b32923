/* SPDX-License-Identifier: MIT */
/* The master that is followed, and what it takes to follow another one. Must not know who
 * is led there, nor when anybody is asked. Happy path: what is said is convincing, so it
 * is taken; where that is another master, or the same one anew, why is told.
 *
 * What is not later than what is followed, and somewhere else, is of one that lags or was
 * cut off, is another name of the same server, or is of sentinels that were set up anew
 * and count anew. Most of those that were listed must agree; where a connection stands,
 * most of all that are known, again and again.
 *
 * A learnt sentinel was never chosen by the user, and may have been removed from the
 * installation. What it says counts if it agrees with the master that is followed. If it
 * names a later master, a probe connects to that server first: it is followed only if its
 * replication id shows that it was a replica of the present master. Without that proof a
 * listed sentinel has to name it. */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "base/container_of.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define DOUBTS 3 /* rounds */

bool lw__sentinel_master_known(const struct lw__followed *followed)
{
    return followed->master.place.host[0] != '\0';
}

bool lw__sentinel_master_is(const struct lw__followed *followed,
                            const struct lw__endpoint *place)
{
    return lw__endpoint_equal(&followed->master.place, place);
}

bool lw__sentinel_master_convinces(struct lw__followed *followed,
                                   const struct lw__sentinel_answer *said,
                                   const struct lw__sentinel *all, bool stands)
{
    if (!lw__sentinel_master_known(followed) ||
        lw__sentinel_is_later(said, &followed->master)) {
        return true;
    }
    if (!lw__sentinel_believe_most(all, false)) {
        return false;
    }
    followed->doubts =
        lw__sentinel_master_is(followed, &said->place) ? 0 : followed->doubts + 1;
    return followed->doubts == 0 || !stands ||
           (followed->doubts >= DOUBTS && lw__sentinel_believe_most(all, true));
}

void lw__sentinel_master_tell_unconvinced(struct lw__followed *followed,
                                          const struct lw__log *log,
                                          const struct lw__endpoint *named)
{
    const struct lw__endpoint *place = &followed->master.place;

    if (followed->unconvinced_told) {
        return;
    }
    followed->unconvinced_told = true;
    lw__log(log, LOG_WARNING,
            "too few of the listed sentinels answer to believe that the master is "
            "%.60s:%u by no later configuration than that of %.60s:%u",
            named->host, (unsigned)named->port, place->host, (unsigned)place->port);
}

/* A later configuration with the same master: another one was it meanwhile, of which
 * nothing was heard, and this one has what that one had, or less. */
static bool was_another(const struct lw__followed *followed, int64_t told_epoch)
{
    return followed->told_epoch >= 0 && told_epoch > followed->told_epoch;
}

/* Where it is not said for how long that has been the master, what was known of the same
 * one goes on. */
static void keep_time(struct lw__followed *followed,
                      const struct lw__sentinel_answer *said, int64_t now_us)
{
    if (said->for_ms >= 0) {
        followed->since_us = now_us - said->for_ms * LW__MS;
        followed->since_known = true;
    } else if (!lw__sentinel_master_is(followed, &said->place)) {
        followed->since_known = false;
    }
}

bool lw__sentinel_master_take(struct lw__followed *followed,
                              const struct lw__sentinel_answer *said, int64_t told_epoch,
                              int64_t now_us, char why[LW__WHY_MAX])
{
    const struct lw__endpoint to = said->place, from = followed->master.place;
    bool known = lw__sentinel_master_known(followed);
    bool moves = known && !lw__sentinel_master_is(followed, &to);
    bool again = known && !moves && was_another(followed, told_epoch);

    if (moves) {
        (void)snprintf(why, LW__WHY_MAX, "the master is %.60s:%u now, it was %.60s:%u",
                       to.host, (unsigned)to.port, from.host, (unsigned)from.port);
    } else if (again) {
        (void)snprintf(why, LW__WHY_MAX,
                       "the master is %.60s:%u again, another one was it meanwhile",
                       to.host, (unsigned)to.port);
    }
    if (moves || again) {
        *followed->replication_id = '\0';
    }
    if (moves || !known || told_epoch > followed->told_epoch) {
        followed->told_epoch = told_epoch;
    }
    keep_time(followed, said, now_us);
    followed->master = *said;
    followed->doubts = 0;
    followed->unconvinced_told = false;
    return moves || again;
}

int64_t lw__sentinel_master_for_ms(const struct lw__followed *followed, int64_t now_us)
{
    return followed->since_known ? (now_us - followed->since_us) / LW__MS : -1;
}

/* ---- what a learnt sentinel claims ---- */

void lw__sentinel_master_note(struct lw__followed *followed, const char *host,
                              uint16_t port, const char *replication_id)
{
    struct lw__endpoint place = {.port = port};

    (void)snprintf(place.host, sizeof(place.host), "%s", host);
    if (lw__sentinel_master_is(followed, &place)) {
        (void)snprintf(followed->replication_id, sizeof(followed->replication_id), "%s",
                       replication_id);
    }
}

/* A replica has its master's id. When it is promoted it takes a new one, and keeps that
 * as the former one. */
bool lw__sentinel_master_is_kin(const struct lw__followed *followed,
                                const char *replication_id,
                                const char *former_replication_id)
{
    const char *known = followed->replication_id;

    return *known != '\0' && (strcmp(known, replication_id) == 0 ||
                              strcmp(known, former_replication_id) == 0);
}

bool lw__sentinel_master_is_claim(const struct lw__followed *followed,
                                  const struct lw__sentinel *sentinel)
{
    const struct lw__sentinel_answer *said = &sentinel->said,
                                     *refuted = &sentinel->refuted;

    return sentinel->learnt && sentinel->useful && !said->down && !said->moving &&
           *followed->replication_id != '\0' &&
           lw__sentinel_is_later(said, &followed->master) &&
           !(refuted->epoch == said->epoch &&
             lw__endpoint_equal(&refuted->place, &said->place));
}

void lw__sentinel_master_refute(const struct lw__followed *followed,
                                struct lw__sentinel *sentinel)
{
    const struct lw__endpoint *claimed = &sentinel->said.place;
    const struct lw__endpoint *place = &followed->master.place;

    sentinel->refuted = sentinel->said;
    lw__log(sentinel->config.log, LOG_WARNING,
            "sentinel %.60s:%u, which was learnt, names %.60s:%u, which is no replica of "
            "%.60s:%u: not followed unless a listed sentinel names it",
            sentinel->place.host, (unsigned)sentinel->place.port, claimed->host,
            (unsigned)claimed->port, place->host, (unsigned)place->port);
}

static void probe_ready(void *arg)
{
    struct lw__probe *probe = arg;
    const struct lw__session *session = &probe->session;

    if (*session->replication_id != '\0' && session->is_master) {
        probe->answered(probe->arg, session->replication_id,
                        session->former_replication_id);
    } else { /* it is about to become the master, or busy */
        lw__session_fail(&probe->session, "it is not a master yet");
    }
}

static void probe_lost(void *arg, const char *why)
{
    struct lw__probe *probe = arg;

    (void)why;
    if (probe->first) {
        probe->first = false;
        probe->delayed(probe->arg);
    }
}

int lw__sentinel_master_probe_open(struct lw__probe *probe,
                                   const struct lw__session_config *servers, void *arg)
{
    static const struct lw__session_events events = {probe_ready, probe_lost, NULL, NULL,
                                                     NULL};

    if (lw__timer_reserve(servers->loop, 1) != 0) {
        return LW_ENOMEM;
    }
    *probe = (struct lw__probe){.arg = arg, .config = *servers};
    probe->config.guide = NULL;
    probe->config.db = 0;
    probe->config.replication = true;
    probe->config.connect_timeout_ms = servers->connect_timeout_ms / 2 + 1;
    lw__session_init(&probe->session, &probe->config, &events, probe);
    return 0;
}

void lw__sentinel_master_probe_close(struct lw__probe *probe)
{
    lw__sentinel_master_probe_stop(probe);
    lw__timer_unreserve(probe->config.loop, 1);
}

void lw__sentinel_master_probe_start(struct lw__probe *probe,
                                     const struct lw__endpoint *place)
{
    probe->place = *place;
    probe->open = probe->first = true;
    probe->config.host = probe->place.host;
    probe->config.port = probe->place.port;
    lw__session_start(&probe->session);
}

void lw__sentinel_master_probe_stop(struct lw__probe *probe)
{
    probe->open = probe->first = false;
    lw__session_stop(&probe->session);
}
