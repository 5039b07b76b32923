/* SPDX-License-Identifier: MIT */
/* Around a write of somebody else's that would raise SIGPIPE where the peer has gone: the
 * host never sees it. */
#ifndef LW_SIGPIPE_H
#define LW_SIGPIPE_H
#include <signal.h>
#include <stdbool.h>

struct lw__sigpipe {
    sigset_t before;
    bool pending; /* the host's own */
};

void lw__sigpipe_hold(struct lw__sigpipe *held);
void lw__sigpipe_let_go(const struct lw__sigpipe *held);
#endif
