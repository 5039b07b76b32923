/* SPDX-License-Identifier: MIT */
/*
 * `lockwire status`: who holds a lock, who waits for it. Must not know how that is drawn.
 *
 * Happy path: the link comes up, lw_inspect answers, the picture is written; the exit
 * code tells held from free.
 */
#include "codes.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "patience.h"
#include "picture.h"
#include "reach.h"
#include "say.h"
#include "screen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 0, or -1: no memory. */
static int write_picture(const struct reach *reach, const struct lw_inspection *seen,
                         const struct lw_master *master)
{
    int width = reach->options->wide ? 0 : screen_size(STDOUT_FILENO).ws_col;
    struct picture picture = {0};

    if (picture_take(&picture, seen, master, width) < 0) {
        return -1;
    }
    picture_show(stdout, &picture, patience_now_ms() - reach->asked_ms, "", "", width);
    picture_forget(&picture);
    return 0;
}

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
    if ((reach->options->json ? picture_json(stdout, seen, master)
                              : write_picture(reach, seen, master)) < 0) {
        reach_fail(reach, LW_ENOMEM, "");
        return;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say("cannot write: %s", strerror(errno));
        reach_end(reach, STATUS_SYSTEM);
        return;
    }
    reach_end(reach,
              seen->holder_total > 0 || *seen->stranger ? EXIT_SUCCESS : STATUS_NOT_HELD);
}

static void on_up(struct reach *reach)
{
    reach_look(reach, on_inspected, reach);
}

int status(const struct options *options)
{
    static const struct reach_events events = {.up = on_up};

    return reach(options, &events, "lockwire-status", NULL);
}
