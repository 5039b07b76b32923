/* SPDX-License-Identifier: MIT */
/* Which of the sentinels is to be believed, and what is told where none is. Must not know
 * when they are asked, nor what follows. Happy path: the latest configuration wins, among
 * the listed sentinels and the learnt ones that agree with what is followed; so one that
 * lags, or was cut off, does no harm while another one answers. An old configuration is
 * not believed beside a later one whose master is down: that one was left for a reason.
 */
#include "redis/sentinel_inside.h"

#include "base/log.h"
#include "lockwire.h"

#include <stdio.h>
#include <syslog.h>

/* Who has promoted a replica counts its epoch at once, but names the old master until the
 * failover is over; to others it has already told the new one. */
bool lw__sentinel_is_later(const struct lw__sentinel_answer *a,
                           const struct lw__sentinel_answer *b)
{
    return a->epoch != b->epoch ? a->epoch > b->epoch : b->moving && !a->moving;
}

static bool is_better(const struct lw__sentinel_answer *a,
                      const struct lw__sentinel_answer *b,
                      const struct lw__sentinel_answer *followed)
{
    if (lw__sentinel_is_later(a, b) || lw__sentinel_is_later(b, a)) {
        return lw__sentinel_is_later(a, b);
    }
    if (a->down != b->down) {
        return b->down;
    }
    /* a name and an address of one server must not take turns */
    return lw__endpoint_equal(&a->place, &followed->place) &&
           !lw__endpoint_equal(&b->place, &followed->place);
}

/* Returns true if this answer may be followed. A learnt sentinel counts only if it agrees
 * with the master that is followed. */
static bool counts(const struct lw__sentinel *sentinel,
                   const struct lw__sentinel_answer *followed)
{
    return !sentinel->open && sentinel->useful &&
           (!sentinel->learnt ||
            (lw__endpoint_equal(&sentinel->said.place, &followed->place) &&
             !lw__sentinel_is_later(&sentinel->said, followed)));
}

struct lw__sentinel *lw__sentinel_believe(struct lw__sentinel *all,
                                          const struct lw__sentinel_answer *followed)
{
    struct lw__sentinel *best = NULL, *one;

    for (one = all; one != NULL; one = one->next) {
        if (counts(one, followed) &&
            (best == NULL || is_better(&one->said, &best->said, followed))) {
            best = one;
        }
    }
    return best;
}

bool lw__sentinel_believe_most(const struct lw__sentinel *all, bool learnt_too)
{
    int count = 0, heard = 0;

    for (; all != NULL; all = all->next) {
        if (learnt_too || !all->learnt) {
            count++;
            heard += !all->open && all->useful;
        }
    }
    return heard * 2 > count;
}

bool lw__sentinel_believe_waits(const struct lw__sentinel *all)
{
    while (all != NULL && !all->open) {
        all = all->next;
    }
    return all != NULL;
}

static const char *useless_why(const struct lw__sentinel *sentinel)
{
    return sentinel->open        ? "no answer in time"
           : !sentinel->useful   ? sentinel->why
           : sentinel->said.down ? "says that the master is down"
           : sentinel->learnt    ? "no listed sentinel says the same"
                                 : "knows an older master than others";
}

static void tell(struct lw__sentinel *sentinel)
{
    if (!sentinel->useless_told) {
        lw__log(sentinel->config.log, LOG_WARNING, "sentinel %s:%u: %s",
                sentinel->place.host, (unsigned)sentinel->place.port,
                useless_why(sentinel));
    }
    sentinel->useless_told = true;
}

void lw__sentinel_believe_some(struct lw__sentinel *all)
{
    for (; all != NULL; all = all->next) {
        all->useless_told = all->useless_told && (!all->useful || all->said.down);
    }
}

int lw__sentinel_believe_none(struct lw__sentinel *all, char *why, size_t size)
{
    size_t length = (size_t)snprintf(why, size, "no sentinel leads to the master");
    int status = 0;

    for (struct lw__sentinel *one = all; one != NULL; one = one->next) {
        tell(one);
        status = lw__session_combine_status(
            status, one->open || one->useful ? LW_ECONN : one->status);
        if (length < size) {
            length += (size_t)snprintf(why + length, size - length, "; %s:%u: %s",
                                       one->place.host, (unsigned)one->place.port,
                                       useless_why(one));
        }
    }
    return status;
}
