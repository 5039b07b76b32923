/* SPDX-License-Identifier: MIT */
/* The master that is followed, and what it takes to follow another one. Must not know who
 * is led there, nor when anybody is asked. Happy path: what is said is convincing, so it
 * is taken; where that is another master, or the same one anew, why is told.
 *
 * What is not later than what is followed, and somewhere else, is of one that lags or was
 * cut off, is another name of the same server, or is of sentinels that were set up anew
 * and count anew. Most of those that were listed must agree; where a connection stands,
 * most of all that are known, again and again. */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "loop/now.h"

#include <stdio.h>
#include <syslog.h>

#define DOUBTS 3 /* rounds */

bool lw__sentinel_master_known(const struct lw__followed *followed)
{
    return followed->master.place.host[0] != '\0';
}

bool lw__sentinel_master_is(const struct lw__followed *followed,
                            const struct lw__place *place)
{
    return lw__place_same(&followed->master.place, place);
}

bool lw__sentinel_master_convinces(struct lw__followed *followed,
                                   const struct lw__master *said,
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
                                          const struct lw__place *named)
{
    const struct lw__place *place = &followed->master.place;

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
static void keep_time(struct lw__followed *followed, const struct lw__master *said,
                      int64_t now_us)
{
    if (said->for_ms >= 0) {
        followed->since_us = now_us - said->for_ms * LW__MS;
        followed->since_known = true;
    } else if (!lw__sentinel_master_is(followed, &said->place)) {
        followed->since_known = false;
    }
}

bool lw__sentinel_master_take(struct lw__followed *followed,
                              const struct lw__master *said, int64_t told_epoch,
                              int64_t now_us, char why[LW__WHY])
{
    const struct lw__place to = said->place, from = followed->master.place;
    bool known = lw__sentinel_master_known(followed);
    bool moves = known && !lw__sentinel_master_is(followed, &to);
    bool again = known && !moves && was_another(followed, told_epoch);

    if (moves) {
        (void)snprintf(why, LW__WHY, "the master is %.60s:%u now, it was %.60s:%u",
                       to.host, (unsigned)to.port, from.host, (unsigned)from.port);
    } else if (again) {
        (void)snprintf(why, LW__WHY,
                       "the master is %.60s:%u again, another one was it meanwhile",
                       to.host, (unsigned)to.port);
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
