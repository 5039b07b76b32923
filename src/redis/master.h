/* SPDX-License-Identifier: MIT */
/* The present master of a service, as sentinel.c knows it from sentinels' answers, and
 * which of two answers is the later one. No sentinel is asked here. */
#ifndef LW_MASTER_H
#define LW_MASTER_H
#include "lockwire.h"
#include "redis/sentinel_parse.h"

#include <stdbool.h>
#include <stdint.h>

struct lw__address_map;
struct lw__log;

struct lw__master {
    struct lw__sentinel_answer answer; /* no host until a sentinel has named it */
    int64_t announced_epoch;           /* the highest that was reported of it, or -1 */
    int64_t since_us;                  /* it has been the master, if that is known */
    bool since_known;
    int stale_rounds; /* in a row in which most named another one, of no later epoch */
    bool rejected_logged;
};

/* Returns true if `a` is of a later configuration than `b`. A sentinel that has promoted
 * a replica counts its epoch at once, but names the old master until the failover is
 * over; to others it already names the new one. */
bool lw__master_is_later(const struct lw__sentinel_answer *a,
                         const struct lw__sentinel_answer *b);
/* Returns true if `a` is later, or as late and its master is up, or the present one. */
bool lw__master_is_better(const struct lw__sentinel_answer *a,
                          const struct lw__sentinel_answer *b,
                          const struct lw__master *master);
bool lw__master_is_known(const struct lw__master *master);
bool lw__master_is_at(const struct lw__master *master,
                      const struct lw__endpoint *endpoint);
/* Makes this the present master. `announced_epoch`: as reported of this master, or -1 if
 * the answer's may be another one's. Returns true if that ends the connections to the
 * former one, and why in `why`. */
bool lw__master_take(struct lw__master *master, const struct lw__sentinel_answer *answer,
                     int64_t announced_epoch, int64_t now_us,
                     const struct lw__address_map *map, char why[LW_WHY_SIZE]);
/* Logs, once until lw__master_take, that the answer which names this endpoint is not
 * followed, and that sessions connect to the master that was known last. */
void lw__master_log_rejected(struct lw__master *master, const struct lw__log *log,
                             const struct lw__endpoint *named);
/* Fills in the endpoint and the time of a master that is known. */
void lw__master_tell(const struct lw__master *master, struct lw_master *ret);
#endif
