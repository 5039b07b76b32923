/* SPDX-License-Identifier: MIT */
/* Keeps SIGPIPE from the host for a moment, in this thread alone, to which a write that
 * fails sends it. Must not know what is written. One that the host had pending before
 * stays. */
#include "base/sigpipe.h"

#include <time.h>

static void only_broken_pipe(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGPIPE);
}

void lw__sigpipe_hold(struct lw__sigpipe *held)
{
    sigset_t broken_pipe, pending;

    only_broken_pipe(&broken_pipe);
    (void)sigpending(&pending);
    held->pending = sigismember(&pending, SIGPIPE) != 0;
    (void)pthread_sigmask(SIG_BLOCK, &broken_pipe, &held->before);
}

void lw__sigpipe_let_go(const struct lw__sigpipe *held)
{
    const struct timespec at_once = {0, 0};
    sigset_t broken_pipe;

    only_broken_pipe(&broken_pipe);
    if (!held->pending) {
        (void)sigtimedwait(&broken_pipe, NULL, &at_once);
    }
    (void)pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
