/* SPDX-License-Identifier: MIT */
/* The ways that are guided: those of all sessions that have asked for one and were not
 * stopped since. Must not know whom they lead to. Happy path: known, wanted, led; turned
 * at a switch, which has them wanted again. */
#include "redis/sentinel_inside.h"

void lw__sentinel_ways_know(struct lw__way **ways, struct lw__way *way)
{
    if (way->prev != NULL) {
        return;
    }
    way->next = *ways;
    way->prev = ways;
    if (way->next != NULL) {
        way->next->prev = &way->next;
    }
    *ways = way;
}

void lw__sentinel_ways_forget(void *arg, struct lw__way *way)
{
    (void)arg;
    *way->prev = way->next;
    if (way->next != NULL) {
        way->next->prev = way->prev;
    }
    way->prev = NULL;
}

static struct lw__way *first_wanted(struct lw__way *way)
{
    while (way != NULL && !way->wanted) {
        way = way->next;
    }
    return way;
}

bool lw__sentinel_ways_wanted(struct lw__way *ways)
{
    return first_wanted(ways) != NULL;
}

bool lw__sentinel_ways_stand(const struct lw__way *ways)
{
    while (ways != NULL && lw__session_stands(ways)) {
        ways = ways->next;
    }
    return ways == NULL;
}

void lw__sentinel_ways_lead(struct lw__way **ways, const struct lw__endpoint *place)
{
    struct lw__way *way;

    while ((way = first_wanted(*ways)) != NULL) {
        lw__session_go(way, place->host, place->port);
    }
}

void lw__sentinel_ways_leave(struct lw__way **ways, int status, const char *why)
{
    struct lw__way *way;

    while ((way = first_wanted(*ways)) != NULL) {
        lw__session_astray(way, status, why);
    }
}

void lw__sentinel_ways_turn(struct lw__way *ways, const char *why)
{
    for (; ways != NULL; ways = ways->next) {
        lw__session_turn(ways, why);
    }
}
