/* SPDX-License-Identifier: MIT */
/* Takes the URL of a quorum apart into the URLs of its servers. The library has checked
 * it before. Independent of what the servers are asked. */
#ifndef LW_TOOL_QUORUM_URL_H
#define LW_TOOL_QUORUM_URL_H
#include <stdbool.h>
#include <stddef.h>

#define QUORUM_MOST 7         /* servers */
#define QUORUM_GUARD_MS 45000 /* the default guard time of a quorum's clients */

/* The parts of "rediss-quorum://user:password@host:1,host:2,host:3/0". */
struct quorum_url {
    const char *scheme, *user, *hosts, *rest; /* `hosts`: those not taken yet */
    size_t scheme_length;                     /* without "-quorum" */
    size_t user_length;                       /* with its "@" */
};

struct quorum_member {
    char *url; /* of this server alone; to be freed */
    char host[300];
};

struct quorum_url quorum_url_split(const char *url);
bool quorum_url_has_more(const struct quorum_url *parts);
/* Takes the next server. Returns 0, or -1 without memory; `url` is NULL then. */
int quorum_url_take(struct quorum_url *parts, struct quorum_member *ret);

#endif
