/* SPDX-License-Identifier: MIT */
/* A query at each server of a quorum, by that server's own URL. Independent of the
 * question.
 *
 * quorum_query_servers, then quorum_query for each server. A server that does not reply,
 * or refuses, is left to the caller to report. */
#ifndef LW_TOOL_QUORUM_QUERY_H
#define LW_TOOL_QUORUM_QUERY_H
#include "quorum_url.h"

struct options;
struct query;

/* The servers of a URL. */
struct quorum_servers {
    struct quorum_member at[QUORUM_MOST];
    unsigned count, majority;
};

/* Checks the URL and the options, and takes the URL apart. Returns 0, or the exit code;
 * failures are reported. In any case quorum_query_clear frees it. */
int quorum_query_servers(const struct options *options, struct quorum_servers *ret);
void quorum_query_clear(struct quorum_servers *servers);
/* query() at this server, with these options. The caller has set the events and the
 * argument. Failures are not reported: query->error has the reason. */
int quorum_query(struct query *ret, const struct options *options,
                 const struct quorum_member *at, const char *client_name);

#endif
