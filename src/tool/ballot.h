/* SPDX-License-Identifier: MIT */
/* The votes for a lock at each server of a quorum, as far as they are known, and which
 * client has the most of them. Independent of break and yield.
 *
 * ballot_look asks each server by its own URL, and reports nothing about those that do
 * not reply. ballot_clear follows in any case. */
#ifndef LW_TOOL_BALLOT_H
#define LW_TOOL_BALLOT_H
#include "lockwire.h"
#include "quorum_query.h"

#include <stdbool.h>

struct options;

/* A server, and its holder as far as that is known. */
struct vote {
    const struct quorum_member *at;
    char *token; /* of the holder; NULL: none, or not known */
    bool replied;
    bool absent; /* break: that client has no vote there */
    int code;    /* the exit code if it did not reply, or could not do it */
    char why[LW_WHY_SIZE];
};

struct ballot {
    const char *name;
    struct quorum_servers servers;
    struct vote votes[QUORUM_MOST];
};

/* Returns 0, or the exit code, which has been reported, if no server was asked. */
int ballot_look(struct ballot *ret, const struct options *options,
                const char *client_name);
void ballot_clear(struct ballot *ballot);
/* Returns how many servers replied. */
unsigned ballot_replies(const struct ballot *ballot);
/* Returns how many votes the client of this token has. */
unsigned ballot_votes_of(const struct ballot *ballot, const char *token);
/* Returns a token of the client with the most votes, or of the one with the token
 * `given`, if that is not NULL; NULL without votes. */
const char *ballot_choose(const struct ballot *ballot, const char *given);

#endif
