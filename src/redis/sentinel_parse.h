/* SPDX-License-Identifier: MIT */
/* What a sentinel may say, and what of it can be used. Pure: replies and texts in, values
 * out. Who says it is trusted to know, not to be well-formed: counts, lengths, ports and
 * bytes have their limits here. */
#ifndef LW_SENTINEL_PARSE_H
#define LW_SENTINEL_PARSE_H
#include "redis/endpoint.h"

struct lw__reply;

#define LW__SENTINEL_ID_SIZE 41 /* as SENTINEL MYID has it, in hexadecimal */

struct lw__sentinel_answer {
    struct lw__endpoint place;
    int64_t epoch;  /* of the configuration that made it so: the highest is the latest */
    int64_t for_ms; /* it has called itself a master so long; -1: that is not said */
    bool down;      /* as far as who says this can see */
    bool moving;    /* a failover is under way: that epoch may be the new place's */
};

/* The answer to SENTINEL MASTER. false: it is of no use, `why` (size LW__WHY_MAX) tells.
 */
bool lw__sentinel_parse_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret, char *why);
struct lw__sentinel_peer {
    struct lw__endpoint place;
    char id[LW__SENTINEL_ID_SIZE];
    bool down; /* in the opinion of the sentinel that names it */
};

/* Finds the next sentinel with an endpoint and an id in the reply to SENTINEL SENTINELS,
 * from the element *at on, and moves *at behind it. Returns false if there is none. */
bool lw__sentinel_parse_other(const struct lw__reply *reply, size_t *at,
                              struct lw__sentinel_peer *ret);
/* A message of +switch-master. false: it is about another service, or it is none. */
bool lw__sentinel_parse_switch(const char *text, size_t length, const char *service,
                               struct lw__endpoint *from, struct lw__endpoint *to);
#endif
