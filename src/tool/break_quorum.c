/* SPDX-License-Identifier: MIT */
/* break with the URL of a quorum: looks at each server by its own URL, then breaks the
 * votes of one client: of the one with the most votes, or of the one that --token names.
 * All votes are looked up before the first one is broken, so that a later holder keeps
 * its own.
 *
 * The lock is broken if a majority of the servers have no vote of that client, because no
 * other majority is left. The votes that it keeps, as far as that is known, are
 * reported. */
#include "break.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "quorum_query.h"
#include "report.h"
#include "subcommands.h"
#include "token.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A server, and its holder as far as that is known. */
struct vote {
    struct query query;
    const struct quorum_member *at;
    char *token; /* of the holder; NULL: none, or not known */
    bool replied;
    bool absent; /* that client has no vote there */
    int code;    /* if it did not reply, or could not be broken */
    char why[LW_WHY_SIZE];
};

struct ballot {
    struct vote *votes;
    unsigned count, majority;
    const char *name;
};

/* ---- the look ---- */

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct vote *vote = arg;
    const struct lw_inspected *holder;

    (void)client;
    if (vote->query.ending) {
        return;
    }
    if (result != LW_OK) {
        query_fail(&vote->query, result, why);
        return;
    }
    if (*seen->foreign) {
        query_fail(&vote->query, LW_ENOTHELD, "the key was not written by lockwire");
        return;
    }
    holder = lw_inspection_holder(seen, 0);
    if (holder != NULL && (vote->token = strdup(holder->token)) == NULL) {
        query_fail(&vote->query, LW_ENOMEM, "");
        return;
    }
    vote->replied = true;
    query_end(&vote->query, EXIT_SUCCESS);
}

static void on_up(struct query *query)
{
    query_inspect(query, on_inspected, query->arg);
}

static void look_at_each(struct ballot *ballot, const struct options *options)
{
    static const struct query_events events = {.up = on_up};

    for (unsigned i = 0; i < ballot->count; i++) {
        struct vote *vote = &ballot->votes[i];

        vote->query = (struct query){.events = &events, .arg = vote};
        vote->code = quorum_query(&vote->query, options, vote->at, "lockwire-break");
        if (!vote->replied) {
            (void)snprintf(vote->why, sizeof(vote->why), "%s",
                           *vote->query.error ? vote->query.error : "no reply");
        }
    }
}

/* ---- whose votes ---- */

static unsigned votes_of(const struct ballot *ballot, const char *token)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ballot->count; i++) {
        const char *other = ballot->votes[i].token;

        count += other != NULL && token_same_client(token, other);
    }
    return count;
}

/* Returns a token of the client whose votes are to be broken, or NULL without votes. */
static const char *choose(const struct ballot *ballot, const char *given)
{
    const char *best = NULL;

    for (unsigned i = 0; i < ballot->count; i++) {
        const char *token = ballot->votes[i].token;

        if (token == NULL || (given != NULL && !token_matches(given, token))) {
            continue;
        }
        if (best == NULL || votes_of(ballot, token) > votes_of(ballot, best)) {
            best = token;
        }
    }
    return best;
}

/* ---- the break ---- */

/* Returns at how many servers the vote was broken. */
static unsigned break_each(struct ballot *ballot, const struct options *options,
                           const char *chosen)
{
    unsigned broken = 0;

    for (unsigned i = 0; i < ballot->count; i++) {
        struct vote *vote = &ballot->votes[i];
        enum break_result result;

        if (vote->token == NULL || !token_same_client(chosen, vote->token)) {
            vote->absent = vote->replied;
        } else {
            result = break_vote(options, vote->token, vote->at, &vote->code, vote->why);
            vote->absent = result != BREAK_FAILED;
            broken += result == BREAK_DONE;
        }
    }
    return broken;
}

/* Reports the servers where that client has, or may have, a vote. Returns the exit code
 * of the first of them. */
static int report_rest(const struct ballot *ballot, const char *remark)
{
    int code = EXIT_SUCCESS;

    for (unsigned i = 0; i < ballot->count; i++) {
        const struct vote *vote = &ballot->votes[i];

        if (vote->absent || !*vote->why) {
            continue;
        }
        report("'%s' is not broken at %s: %s%s", ballot->name, vote->at->host, vote->why,
               remark);
        if (code == EXIT_SUCCESS) {
            code = vote->code;
        }
    }
    return code;
}

static unsigned count_absent(const struct ballot *ballot)
{
    unsigned absent = 0;

    for (unsigned i = 0; i < ballot->count; i++) {
        absent += ballot->votes[i].absent;
    }
    return absent;
}

static unsigned count_replies(const struct ballot *ballot)
{
    unsigned replied = 0;

    for (unsigned i = 0; i < ballot->count; i++) {
        replied += ballot->votes[i].replied;
    }
    return replied;
}

static int judge(const struct ballot *ballot, unsigned broken, const char *reason)
{
    unsigned absent = count_absent(ballot);
    int code;

    if (absent < ballot->majority) {
        code = report_rest(ballot, "");
        report("cannot break '%s': %u of %u servers are known to have no vote of its "
               "holder, which is no majority",
               ballot->name, absent, ballot->count);
        return code;
    }
    if (broken == 0) {
        report("cannot break '%s': %s", ballot->name, reason);
        return EXIT_NOT_HELD;
    }
    (void)report_rest(ballot, "; a vote there is no hold, and expires with its lease");
    return EXIT_SUCCESS;
}

static int look_and_break(struct ballot *ballot, const struct options *options)
{
    const char *chosen;
    unsigned broken;

    look_at_each(ballot, options);
    if (count_replies(ballot) < ballot->majority) {
        int code = report_rest(ballot, "");

        report("cannot break '%s': %u of %u servers replied, which is no majority",
               ballot->name, count_replies(ballot), ballot->count);
        return code;
    }
    chosen = choose(ballot, options->token);
    broken = break_each(ballot, options, chosen != NULL ? chosen : "");
    return judge(ballot, broken,
                 chosen != NULL           ? "the holder changed in the meantime"
                 : options->token != NULL ? "not held by the given --token"
                                          : "the lock is not held");
}

int break_quorum(const struct options *options)
{
    struct quorum_servers servers;
    struct ballot ballot = {.name = options->name};
    int code = quorum_query_servers(options, &servers);

    if (code == 0 &&
        (ballot.votes = calloc(servers.count, sizeof(*ballot.votes))) == NULL) {
        report("%s", lw_strerror(LW_ENOMEM));
        code = EXIT_SYSTEM;
    }
    if (code == 0) {
        ballot.count = servers.count;
        ballot.majority = servers.majority;
        for (unsigned i = 0; i < ballot.count; i++) {
            ballot.votes[i].at = &servers.at[i];
        }
        code = look_and_break(&ballot, options);
    }
    for (unsigned i = 0; i < ballot.count; i++) {
        free(ballot.votes[i].token);
    }
    free(ballot.votes);
    quorum_query_clear(&servers);
    return code;
}
