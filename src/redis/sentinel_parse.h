/* SPDX-License-Identifier: MIT */
/* Parses what sentinels reply and publish. Pure functions. A sentinel is trusted to know,
 * but not to be well-formed: counts, lengths, ports and bytes are checked here. */
#ifndef LW_SENTINEL_PARSE_H
#define LW_SENTINEL_PARSE_H
#include "lockwire.h"
#include "redis/endpoint.h"

struct lw__reply;

#define LW__SENTINEL_ID_SIZE 41 /* as SENTINEL MYID has it, in hexadecimal */

/* A sentinel's reply about the master. */
struct lw__sentinel_answer {
    struct lw__endpoint endpoint;
    int64_t epoch;  /* config-epoch: the highest one is the latest configuration */
    int64_t for_ms; /* how long the server has reported to be a master; -1 if unknown */
    bool down;      /* as far as the sentinel can see */
    bool moving;    /* a failover is in progress: `epoch` may be the new master's */
    /* The master's run id at the sentinel's last INFO, which was so long ago. "" from a
     * switch until the first INFO after it. */
    char run_id[LW__SENTINEL_ID_SIZE];
    int64_t info_ms;
    struct lw__endpoint by; /* the sentinel; filled in by the caller */
};

/* A sentinel or a replica that a sentinel knows. */
struct lw__sentinel_peer {
    struct lw__endpoint endpoint;
    char id[LW__SENTINEL_ID_SIZE]; /* a replica's: its run id */
    int64_t info_ms; /* a replica's: the time since the sentinel's last INFO */
    bool down;       /* as far as the sentinel can see */
};

/* Parses the reply to SENTINEL MASTER. Returns false if it is unusable, and the reason in
 * `why`, of size LW_WHY_SIZE. */
bool lw__sentinel_parse_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret, char *why);
/* Finds the next entry with an endpoint and an id in the reply to SENTINEL SENTINELS or
 * SENTINEL REPLICAS, from the element *at on, and moves *at behind it. Returns false if
 * there is none. */
bool lw__sentinel_parse_peer(const struct lw__reply *reply, size_t *at,
                             struct lw__sentinel_peer *ret);
/* Parses a message of +switch-master. Returns false if it is about another service, or
 * invalid. */
bool lw__sentinel_parse_switch(const char *text, size_t length, const char *service,
                               struct lw__endpoint *from, struct lw__endpoint *to);
#endif
