/* SPDX-License-Identifier: MIT */
/* yield with the URL of a quorum: looks at each server by its own URL, then asks the
 * client with the most votes. Its servers are tried one after another until the request
 * has reached it at one of them, so that it gets a single request. A client whose votes
 * are no majority does not hold the lock, and is not asked. */
#include "ballot.h"
#include "options.h"
#include "report.h"
#include "subcommands.h"
#include "token.h"
#include "yield.h"

#include <stddef.h>
#include <stdlib.h>

/* Reports the servers that did not reply, and that they are too many. Returns the exit
 * code of the first of them. */
static int report_silent(const struct ballot *ballot)
{
    int code = EXIT_SUCCESS;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        const struct vote *vote = &ballot->votes[i];

        if (vote->replied) {
            continue;
        }
        report("no reply for '%s' from %s: %s", ballot->name, vote->at->host, vote->why);
        if (code == EXIT_SUCCESS) {
            code = vote->code;
        }
    }
    report(
        "cannot ask the holder of '%s': %u of %u servers replied, which is no majority",
        ballot->name, ballot_replies(ballot), ballot->servers.count);
    return code;
}

/* Returns the exit code. */
static int ask_by_each(struct ballot *ballot, const struct options *options,
                       const char *chosen)
{
    const struct vote *last = ballot->votes;

    for (unsigned i = 0; i < ballot->servers.count; i++) {
        struct vote *vote = &ballot->votes[i];

        if (vote->token == NULL || !token_same_client(chosen, vote->token)) {
            continue;
        }
        vote->code = yield_vote(options, vote->at, vote->why);
        if (vote->code == EXIT_SUCCESS) {
            return EXIT_SUCCESS;
        }
        last = vote;
    }
    report("cannot ask the holder of '%s': at %s: %s", ballot->name, last->at->host,
           last->why);
    return last->code;
}

static int choose_and_ask(struct ballot *ballot, const struct options *options)
{
    unsigned replied = ballot_replies(ballot), count = ballot->servers.count;
    const char *chosen = ballot_choose(ballot, NULL);

    if (replied < ballot->servers.majority) {
        return report_silent(ballot);
    }
    if (chosen == NULL ||
        ballot_votes_of(ballot, chosen) + count - replied < ballot->servers.majority) {
        report("cannot ask the holder of '%s': the lock is not held", ballot->name);
        return EXIT_NOT_HELD;
    }
    return ask_by_each(ballot, options, chosen);
}

int yield_quorum(const struct options *options)
{
    struct ballot ballot;
    int code = ballot_look(&ballot, options, "lockwire-yield");

    if (code == 0) {
        code = choose_and_ask(&ballot, options);
    }
    ballot_clear(&ballot);
    return code;
}
