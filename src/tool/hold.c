/* SPDX-License-Identifier: MIT */
/*
 * See hold.h.
 *
 * Happy path: on_held writes the fence; the input ends; the lock is released.
 *
 * An input that ends before that: nobody wants the lock any more, and it is given up. One
 * that cannot be waited for is wrong usage, since the lock would never be held. A
 * signal while it is held is the same as the end of the input. Lost: it ends at once, so
 * that the script sees it; the margin of the hold is what the script then has left, so
 * nothing is given back before the lease ends by itself.
 */
#include "hold.h"

#include "codes.h"
#include "input.h"
#include "locked.h"
#include "lockwire.h"
#include "options.h"
#include "say.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hold {
    struct locked locked;
    struct input input;
};

static void on_ended(void *arg)
{
    struct hold *hold = arg;
    struct locked *locked = &hold->locked;

    if (locked->stage == LOCKED_HELD) {
        locked_release(locked, EXIT_SUCCESS);
    } else if (locked->stage == LOCKED_WAITING) {
        say("the standard input ended before '%s' was held", locked->options->name);
        locked_end(locked, locked->options->busy_code);
    }
}

static int on_begin(struct locked *locked)
{
    struct hold *hold = locked->arg;

    if (input_open(&hold->input, locked->base, on_ended, hold) == 0) {
        return 0;
    }
    say("cannot wait for the end of the standard input");
    return -1;
}

static void on_held(struct locked *locked)
{
    uint64_t fence = lw_lock_fence(locked_lock(locked));

    if (fence > 0) {
        (void)printf("%" PRIu64 "\n", fence);
    } else {
        (void)puts("-");
    }
    if (fflush(stdout) != 0) {
        say("cannot write: %s", strerror(errno));
        locked_release(locked, STATUS_SYSTEM);
    }
}

static void on_lost(struct locked *locked)
{
    locked_leave(locked, locked->lost_code);
}

static void on_signal(struct locked *locked, int number, bool from_terminal)
{
    (void)from_terminal;
    if (number != SIGCHLD) {
        locked_release(locked, EXIT_SUCCESS);
    }
}

int hold(const struct options *options)
{
    static const struct locked_events events = {on_begin, on_held, on_lost, on_signal};
    struct hold hold = {.locked = {.options = options, .events = &events}};
    int code;

    if (!input_can_be_awaited()) {
        say("hold needs a standard input whose end it can wait for, a pipe, a socket or "
            "a "
            "terminal: this one (a file, /dev/null, or closed) ends at once");
        return STATUS_USAGE;
    }
    hold.locked.arg = &hold;
    code = locked_run(&hold.locked, "lockwire-hold");
    input_close(&hold.input);
    locked_close(&hold.locked);
    return hold.locked.interrupted && code == STATUS_SIGNAL + SIGINT ? -SIGINT : code;
}
