/* SPDX-License-Identifier: MIT */
/*
 * See run.h.
 *
 * Happy path: on_held starts the command; on_over releases; the exit code is the
 * command's.
 *
 * Lost: the command is ended, and its end awaited, since only then nobody works on what
 * the lock protects; the margin of the hold is the time that this takes, so that it is
 * over before the lease is. Then run ends; lead goes on, and starts the command again
 * once it holds the lock anew: never beside what is left of the one before. A signal
 * while the command runs: passed on. After a loss: passed on, and it ends lead as well.
 */
#include "run.h"

#include "codes.h"
#include "locked.h"
#include "lockwire.h"
#include "options.h"
#include "say.h"
#include "work.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

_Static_assert(CHILD_FENCES == MORE_NAMES, "a fencing token for each --and");

struct run {
    struct locked locked;
    struct embedded *server; /* or NULL */
    struct work work;
    int stop_code; /* lead: a signal came while the command was being ended; else 0 */
};

/* After a loss: none, whatever lead holds anew. */
static int64_t left_ms(void *arg)
{
    const struct run *run = arg;

    return run->locked.lost ? 0 : locked_left_ms(&run->locked);
}

static void on_over(int code, void *arg)
{
    struct run *run = arg;

    if (run->work.ending && !run->locked.lost && left_ms(run) <= 0) {
        say("the lock '%s' was lost while lockwire was stopped",
            run->locked.options->name);
        run->locked.lost = true;
        run->locked.lost_code = STATUS_LOST;
    }
    if (!run->locked.lost || run->locked.options->subcommand == RUN) {
        locked_release(&run->locked, code);
    } else if (run->stop_code != 0) {
        locked_end(&run->locked, run->stop_code);
    } else {
        work_free(&run->work);
        run->work = (struct work){.grace = NULL}; /* there may be no other one */
        locked_again(&run->locked);
    }
}

static void on_lost(struct locked *locked)
{
    struct run *run = locked->arg;

    work_end(&run->work);
}

static void on_held(struct locked *locked)
{
    struct run *run = locked->arg;
    const struct options *options = locked->options;
    struct work_plan plan = {.child = {.argv = options->command,
                                       .name = options->name,
                                       .fence = lw_lock_fence(locked_lock(locked)),
                                       .url = options->embedded ? options->url : NULL},
                             .direct = options->direct,
                             .grace_ms = options->grace_ms,
                             .kill_ms = options->margin_ms - options->grace_ms,
                             .server = run->server,
                             .over = on_over,
                             .left_ms = left_ms,
                             .arg = run};

    for (int i = 0; i < options->more_count; i++) {
        plan.child.more_fences[i] =
            lw_lock_fence(lw_all_lock(locked->all, (size_t)i + 1));
    }
    if (work_start(&run->work, locked->base, &plan) < 0) {
        say("cannot start %s: %s", options->command[0], strerror(errno));
        locked_release(locked, STATUS_SYSTEM);
    }
}

static void on_signal(struct locked *locked, int number, bool from_terminal)
{
    struct run *run = locked->arg;

    if (locked->lost && number != SIGCHLD && number != SIGTSTP && number != SIGTTIN &&
        !locked_is_for_command(locked, number, from_terminal)) {
        run->stop_code = STATUS_SIGNAL + number;
    }
    work_signal(&run->work, number, from_terminal);
}

int run(const struct options *options, struct embedded *server)
{
    static const struct locked_events events = {NULL, on_held, on_lost, on_signal};
    struct run run = {.locked = {.options = options, .events = &events},
                      .server = server};
    bool interrupted;
    int code;

    run.locked.arg = &run;
    code = locked_run(&run.locked,
                      options->subcommand == LEAD ? "lockwire-lead" : "lockwire-run");
    interrupted = run.locked.interrupted || run.work.interrupted;
    work_free(&run.work);
    locked_close(&run.locked);
    return interrupted && code == STATUS_SIGNAL + SIGINT ? -SIGINT : code;
}
