/* SPDX-License-Identifier: MIT */
/* yield: asks the holders of a lock to release it. Nothing is released by force, and
 * nothing is waited for: the holders take their time, or ignore the request.
 *
 * lw_ask_to_yield, when the link is up, finds the holders and sends each of them the
 * request. on_asked reports if none or not all of them were reached. */
#include "yield.h"

#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "quorum_query.h"
#include "report.h"
#include "subcommands.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the query with this code, and reports why the holder was not asked; of a quorum's
 * server that is left to yield_quorum.c. */
static void end_unasked(struct query *query, int code, const char *why)
{
    if (query->silent) {
        (void)snprintf(query->error, sizeof(query->error), "%s", why);
    } else {
        report("cannot ask the holder of '%s': %s", query->options->name, why);
    }
    query_end(query, code);
}

static void on_asked(struct lw_client *client, int status, size_t holders, size_t reached,
                     const char *why, void *arg)
{
    struct query *query = arg;

    (void)client;
    if (query->ending) {
        return;
    }
    if (status == LW_ENOTHELD) {
        end_unasked(query, EXIT_NOT_HELD, *why ? why : "the lock is not held");
    } else if (status != LW_OK) {
        query_fail(query, status, why);
    } else if (reached == 0) {
        end_unasked(query, EXIT_BUSY,
                    "not reached; its client is gone, is another library's, has "
                    "detached the lock, or may not subscribe (`lockwire break` releases "
                    "the lock by force)");
    } else {
        if (reached < holders && !query->silent) {
            report("%zu of %zu holders of '%s' were reached", reached, holders,
                   query->options->name);
        }
        query_end(query, EXIT_SUCCESS);
    }
}

static void on_up(struct query *query)
{
    int error = lw_ask_to_yield(query->client, query->options->name, on_asked, query);

    if (error != 0) {
        query_fail(query, error, "");
    }
}

static const struct query_events events = {.up = on_up};

int yield_vote(const struct options *options, const struct quorum_member *at,
               char why[LW_WHY_SIZE])
{
    struct query asking = {.events = &events};
    int code;

    asking.arg = &asking;
    code = quorum_query(&asking, options, at, "lockwire-yield");
    (void)snprintf(why, LW_WHY_SIZE, "%s", *asking.error ? asking.error : "no reply");
    return code;
}

int yield_lock(const struct options *options)
{
    struct query asking = {.options = options, .events = &events};

    return options->quorum ? yield_quorum(options) : query(&asking, "lockwire-yield");
}
