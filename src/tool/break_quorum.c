/* SPDX-License-Identifier: MIT */
/* break with the URL of a quorum: looks at each server by its own URL, then breaks the
 * votes of one client: of the one with the most votes, or of the one that --token names.
 * All votes are looked up before the first one is broken, so that a later holder keeps
 * its own.
 *
 * The lock is broken if a majority of the servers have no vote of that client, because no
 * other majority is left. The votes that it keeps, as far as that is known, are
 * reported. */
#include "ballot.h"
#include "break.h"
#include "options.h"
#include "report.h"
#include "subcommands.h"
#include "token.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Returns at how many servers the vote was broken. */
static unsigned break_each(struct ballot *ballot, const struct options *options,
                           const char *chosen)
{
    unsigned broken = 0;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
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

    for (unsigned i = 0; i < ballot->servers.count; i++) {
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

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        absent += ballot->votes[i].absent;
    }
    return absent;
}

static int judge(const struct ballot *ballot, unsigned broken, const char *reason)
{
    unsigned absent = count_absent(ballot);
    int code;

    if (absent < ballot->servers.majority) {
        code = report_rest(ballot, "");
        report("cannot break '%s': %u of %u servers are known to have no vote of its "
               "holder, which is no majority",
               ballot->name, absent, ballot->servers.count);
        return code;
    }
    if (broken == 0) {
        report("cannot break '%s': %s", ballot->name, reason);
        return EXIT_NOT_HELD;
    }
    (void)report_rest(ballot, "; a vote there is no hold, and expires with its lease");
    return EXIT_SUCCESS;
}

static int choose_and_break(struct ballot *ballot, const struct options *options)
{
    const char *chosen;
    unsigned broken, replied = ballot_replies(ballot);

    if (replied < ballot->servers.majority) {
        int code = report_rest(ballot, "");

        report("cannot break '%s': %u of %u servers replied, which is no majority",
               options->name, replied, ballot->servers.count);
        return code;
    }
    chosen = ballot_choose(ballot, options->token);
    broken = break_each(ballot, options, chosen != NULL ? chosen : "");
    return judge(ballot, broken,
                 chosen != NULL           ? "the holder changed in the meantime"
                 : options->token != NULL ? "not held by the given --token"
                                          : "the lock is not held");
}

int break_quorum(const struct options *options)
{
    struct ballot ballot;
    int code = ballot_look(&ballot, options, "lockwire-break");

    if (code == 0) {
        code = choose_and_break(&ballot, options);
    }
    ballot_clear(&ballot);
    return code;
}
