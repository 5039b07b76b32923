/* SPDX-License-Identifier: MIT */
/*
 * `lockwire status`: who holds a lock, who waits for it. Must not know how that is drawn.
 *
 * Happy path: the link comes up, lw_inspect answers, the table is written.
 */
#include "codes.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "picture.h"
#include "reach.h"
#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct reach *reach = arg;
    struct lw_master followed = LW_MASTER_INIT;
    const struct lw_master *master = reach_master(reach, &followed);

    (void)client;
    if (reach->ending) {
        return;
    }
    if (result != LW_OK) {
        reach_fail(reach, result, why);
        return;
    }
    if (!reach->options->json) {
        picture_table(stdout, seen, master);
    } else if (picture_json(stdout, seen, master) < 0) {
        reach_fail(reach, LW_ENOMEM, "");
        return;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say("cannot write: %s", strerror(errno));
        reach_end(reach, STATUS_SYSTEM);
        return;
    }
    reach_end(reach, EXIT_SUCCESS);
}

static void on_up(struct reach *reach)
{
    int error = lw_inspect(reach->client, reach->options->name, on_inspected, reach);

    if (error != 0) {
        reach_fail(reach, error, "");
    }
}

int status(const struct options *options)
{
    static const struct reach_events events = {.up = on_up};

    return reach(options, &events, "lockwire-status", NULL);
}
