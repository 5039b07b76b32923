/* SPDX-License-Identifier: MIT */
/*
 * `lockwire status`: who holds a lock, who waits for it. Must not know how that is drawn.
 *
 * Happy path: the link comes up, lw_inspect answers, the picture is written; the exit
 * code tells held from free. It then waits for the connection for messages, for a moment:
 * if this account or server does not allow it, or PUBLISH, the library's warning is
 * written, since waiting for a lock is slow then.
 */
#include "report.h"
#include "lockwire.h"
#include "subcommands.h"
#include "options.h"
#include "system.h"
#include "status_format.h"
#include "query.h"
#include "terminal.h"

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2
#define MESSAGES_MS 500 /* for the second connection, once the first is there */

struct looking {
    struct reach reach;
    int code; /* to end with */
    int shown;
    int64_t messages_until_ms;
};

static void on_look(evutil_socket_t fd, short what, void *arg);

/* 0, or -1: no memory. */
static int write_picture(const struct reach *reach, const struct lw_inspection *seen,
                         const struct lw_master *master)
{
    int width = reach->options->wide ? 0 : screen_size(STDOUT_FILENO).ws_col;
    struct picture picture = {0};

    if (picture_take(&picture, seen, master, width) < 0) {
        return -1;
    }
    picture_show(stdout, &picture, system_now_ms() - reach->asked_ms, "", "", width);
    picture_forget(&picture);
    return 0;
}

/* Ends once it is known whether messages arrive: if not, the library has logged why. */
static void await_messages(struct looking *looking)
{
    struct lw_stats stats = LW_STATS_INIT;
    struct timeval soon = {0, LOOK_MS * 1000};

    (void)lw_client_stats(looking->reach.client, &stats);
    if (stats.subscription_up || looking->reach.warned ||
        system_now_ms() >= looking->messages_until_ms ||
        event_base_once(looking->reach.base, -1, EV_TIMEOUT, on_look, looking, &soon) <
            0) {
        reach_end(&looking->reach, looking->code);
    }
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct looking *looking = arg;

    (void)fd, (void)what;
    if (!looking->reach.ending) {
        await_messages(looking);
    }
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct looking *looking = arg;
    struct reach *reach = &looking->reach;
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
    looking->shown = 1;
    looking->code = seen->holder_total > 0 || *seen->stranger ? EXIT_SUCCESS
                                                              : STATUS_NOT_HELD;
    looking->messages_until_ms = system_now_ms() + MESSAGES_MS;
    await_messages(looking);
}

static void on_up(struct reach *reach)
{
    const struct looking *looking = reach->arg;

    if (!looking->shown) {
        reach_look(reach, on_inspected, reach->arg);
    }
}

/* A connection that is lost after the picture was written does not make it untrue. */
static void on_down(struct reach *reach, const char *why)
{
    const struct looking *looking = reach->arg;

    if (looking->shown) {
        reach_end(reach, looking->code);
    } else {
        reach_fail(reach, LW_ECONN, why);
    }
}

int status(const struct options *options)
{
    static const struct reach_events events = {.up = on_up, .down = on_down};
    struct looking looking = {
        .reach = {.options = options, .events = &events, .warns = 1}};
    int code;

    looking.reach.arg = &looking;
    code = reach_open(&looking.reach, "lockwire-status");
    if (code == 0) {
        code = reach_run(&looking.reach);
    }
    reach_close(&looking.reach);
    return code;
}
