/* SPDX-License-Identifier: MIT */
/* release: releases a lock by its token, such as one of take.
 *
 * lw_break is called with the token when the link is up. A token that does not hold the
 * lock, of whichever library, has no effect. */
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "report.h"
#include "subcommands.h"

#include <stdlib.h>

static void on_released(struct lw_client *client, int status, const char *why, void *arg)
{
    struct query *query = arg;

    (void)client;
    if (query->ending) {
        return;
    }
    if (status == LW_OK) {
        query_end(query, EXIT_SUCCESS);
    } else if (status == LW_ENOTHELD) {
        report("cannot release '%s': not held by the given TOKEN; `lockwire status '%s' "
               "--wide` shows the tokens",
               query->options->name, query->options->name);
        query_end(query, EXIT_LOST);
    } else {
        query_fail(query, status, why);
    }
}

static void on_up(struct query *query)
{
    int error = lw_break(query->client, query->options->name, query->options->token,
                         on_released, query);

    if (error != 0) {
        query_fail(query, error, "");
    }
}

int release(const struct options *options)
{
    static const struct query_events events = {.up = on_up};
    struct query release = {.options = options, .events = &events};

    return query(&release, "lockwire-release");
}
