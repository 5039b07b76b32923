/* SPDX-License-Identifier: MIT */
/* See ballot.h. */
#include "ballot.h"

#include "options.h"
#include "query.h"
#include "report.h"
#include "token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The question to one server. */
struct look {
    struct query query;
    struct vote *vote;
};

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct look *look = arg;
    const struct lw_inspected *holder;

    (void)client;
    if (look->query.ending) {
        return;
    }
    if (result != LW_OK) {
        query_fail(&look->query, result, why);
        return;
    }
    if (*seen->foreign) {
        query_fail(&look->query, LW_ENOTHELD, "the key was not written by lockwire");
        return;
    }
    holder = lw_inspection_holder(seen, 0);
    if (holder != NULL && (look->vote->token = strdup(holder->token)) == NULL) {
        query_fail(&look->query, LW_ENOMEM, "");
        return;
    }
    look->vote->replied = true;
    query_end(&look->query, EXIT_SUCCESS);
}

static void on_up(struct query *query)
{
    query_inspect(query, on_inspected, query->arg);
}

int ballot_look(struct ballot *ret, const struct options *options,
                const char *client_name)
{
    static const struct query_events events = {.up = on_up};
    int code;

    *ret = (struct ballot){.name = options->name};
    code = quorum_query_servers(options, &ret->servers);
    for (unsigned i = 0; code == 0 && i < ret->servers.count; i++) {
        struct vote *vote = &ret->votes[i];
        struct look look = {.query = {.events = &events}, .vote = vote};

        look.query.arg = &look;
        vote->at = &ret->servers.at[i];
        vote->code = quorum_query(&look.query, options, vote->at, client_name);
        if (!vote->replied) {
            (void)snprintf(vote->why, sizeof(vote->why), "%s",
                           *look.query.error ? look.query.error : "no reply");
        }
    }
    return code;
}

void ballot_clear(struct ballot *ballot)
{
    for (unsigned i = 0; i < ballot->servers.count; i++) {
        free(ballot->votes[i].token);
    }
    quorum_query_clear(&ballot->servers);
}

unsigned ballot_replies(const struct ballot *ballot)
{
    unsigned replied = 0;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        replied += ballot->votes[i].replied;
    }
    return replied;
}

unsigned ballot_votes_of(const struct ballot *ballot, const char *token)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        const char *other = ballot->votes[i].token;

        count += other != NULL && token_same_client(token, other);
    }
    return count;
}

const char *ballot_choose(const struct ballot *ballot, const char *given)
{
    const char *best = NULL;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        const char *token = ballot->votes[i].token;

        if (token == NULL || (given != NULL && !token_matches(given, token))) {
            continue;
        }
        if (best == NULL ||
            ballot_votes_of(ballot, token) > ballot_votes_of(ballot, best)) {
            best = token;
        }
    }
    return best;
}
