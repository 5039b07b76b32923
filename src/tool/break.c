/* SPDX-License-Identifier: MIT */
/*
 * `lockwire break`: takes a lock away from its holder. Must not know how.
 *
 * Happy path: the link comes up, lw_break answers LW_OK, the next who waits has the lock.
 */
#include "codes.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "reach.h"
#include "say.h"

#include <stdlib.h>

static void on_broken(struct lw_client *client, int result, const char *why, void *arg)
{
    struct reach *reach = arg;

    (void)client;
    if (reach->ending)
        return;
    if (result == LW_OK) {
        reach_end(reach, EXIT_SUCCESS);
    } else if (result == LW_ENOTHELD) {
        say("'%s' is not broken: %s", reach->options->name, why);
        reach_end(reach, STATUS_NOT_HELD);
    } else {
        reach_fail(reach, result, why);
    }
}

static void on_up(struct reach *reach)
{
    int error = lw_break(reach->client, reach->options->name, reach->options->token,
                         on_broken, reach);

    if (error != 0)
        reach_fail(reach, error, "");
}

int break_lock(const struct options *options)
{
    static const struct reach_events events = {.up = on_up};

    return reach(options, &events, "lockwire-break", NULL);
}
