/* SPDX-License-Identifier: MIT */
/* Finds the master of a service by its sentinels, and resolves the endpoint of every
 * session that connects to the master. When the sentinels name another master, all these
 * sessions are retargeted. Independent of what is sent on them.
 *
 * lw__sentinel_new, lw__sentinel_configure; a session asks for its endpoint; all
 * sentinels are asked at once, and the latest of their answers is chosen. From then on
 * each sentinel reports a switch by itself, and all are asked again at heartbeats. */
#ifndef LW_SENTINEL_H
#define LW_SENTINEL_H
#include "base/url.h"

#include <stddef.h>
#include <stdint.h>

struct lw__endpoint;
struct lw__session_config;
struct lw__sentinels;
struct lw_master;

/* Everything that is pointed at must live as long as the sentinels. */
struct lw__sentinel_options {
    const char *service; /* NULL if there are no sentinels */
    const struct lw__url_host *hosts;
    size_t host_count;
    /* for the sentinels themselves; or NULL */
    const char *username, *password, *password_file;
};

/* Connects to nothing before a session asks for its endpoint. `config`, which is copied,
 * says how connections are made; `failovers` counts the changes of the master. Returns 0,
 * or LW_ENOMEM. */
int lw__sentinel_new(const struct lw__sentinel_options *options,
                     const struct lw__session_config *config, uint64_t *failovers,
                     struct lw__sentinels **ret);
/* Has all sessions with this config connect to the master. */
void lw__sentinel_configure(struct lw__sentinels *sentinels,
                            struct lw__session_config *config);
/* Returns the present master in *ret, or LW_ECONN if none has been found yet. */
int lw__sentinel_master(const struct lw__sentinels *sentinels, struct lw_master *ret);
/* Returns what the connections to sentinels lack: bits of enum lw_degraded. */
unsigned lw__sentinel_degraded(const struct lw__sentinels *sentinels);
/* All sessions with their config must have been stopped. NULL is fine. */
void lw__sentinel_free(struct lw__sentinels *sentinels);
#endif
