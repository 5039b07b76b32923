/* SPDX-License-Identifier: MIT */
/* Where the master of a service is, by those who watch over it. Guides every session that
 * is made with its config: tells where to connect, and turns all of them as soon as the
 * sentinels name another master. Must not know what is said on those connections.
 *
 * Happy path: lw__sentinel_new, lw__sentinel_guide; a session asks for the way; all
 * sentinels are asked at once, and the latest of what they say is believed; from then on
 * each of them tells of a switch, and all are asked from time to time. */
#ifndef LW_SENTINEL_H
#define LW_SENTINEL_H
#include "base/url.h"

#include <stddef.h>
#include <stdint.h>

struct lw__session_config;
struct lw__sentinels;
struct lw_master;

/* All that is pointed at lives as long as they. */
struct lw__sentinel_options {
    const char *service; /* NULL: there are none */
    const struct lw__url_host *hosts;
    size_t host_count;
    const char *username, *password; /* the sentinels' own; or NULL */
};

/* `config`, which is copied, says how connections are made; `failovers` is counted up
 * whenever the master is another than before. Nothing is asked before somebody wants to
 * know. 0, LW_ENOMEM. */
int lw__sentinel_new(const struct lw__sentinel_options *options,
                     const struct lw__session_config *config, uint64_t *failovers,
                     struct lw__sentinels **ret);
/* Sessions of this config are guided from now on. */
void lw__sentinel_guide(struct lw__sentinels *sentinels,
                        struct lw__session_config *config);
/* The master that is followed. LW_ECONN, and nothing is done: there was none yet. */
int lw__sentinel_master(const struct lw__sentinels *sentinels, struct lw_master *ret);
/* All that were guided must be stopped. NULL is fine. */
void lw__sentinel_free(struct lw__sentinels *sentinels);
#endif
