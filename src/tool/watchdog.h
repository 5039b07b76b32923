/* SPDX-License-Identifier: MIT */
/* The watchdog, lw-keeper: a small process that ends the command if lockwire cannot,
 * because lockwire was killed, or is stopped for longer than the lock is certainly held.
 * A parent-death signal would reach only the command's first process, not its children.
 *
 * Its orders come through a pipe whose other end only lockwire has. If it dies, lockwire
 * learns that by SIGCHLD, and starts another.
 *
 * watchdog_start starts it; watchdog_tell sends the first order when the command starts,
 * and further ones while the lock is renewed; watchdog_stop ends it when nothing of the
 * command is left. */
#ifndef LW_TOOL_WATCHDOG_H
#define LW_TOOL_WATCHDOG_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_tree;

enum watchdog_phase {
    WATCHDOG_RUN,     /* until then it may run; SIGTERM, after the grace time SIGKILL */
    WATCHDOG_STOPPED, /* it is stopped, and must not run on after that: SIGKILL */
    WATCHDOG_END      /* it was sent SIGTERM: SIGKILL then */
};

struct watchdog_order {
    pid_t group; /* the command's */
    enum watchdog_phase phase;
    int64_t until_ms; /* by keeper_now_ms */
};

struct watchdog {
    pid_t pid; /* 0: there is none */
    int pipe;
};

/* 0, or -1 and errno. */
int watchdog_start(struct watchdog *watchdog, const struct process_tree *tree,
                   int64_t grace_ms);
/* Replaces the order before. If lockwire dies, it holds as of then: a command that runs
 * gets SIGTERM and its grace time, one that is stopped SIGKILL. At each order the keeper
 * looks who belongs to the command: whom lockwire has adopted it cannot tell from others
 * later. False: there is none, or it has not read for long. */
bool watchdog_send(const struct watchdog *watchdog, const struct watchdog_order *order);
/* After its waitpid by another. */
void watchdog_reaped(struct watchdog *watchdog);
/* Ends it in peace, and reaps it. A second call has no effect. */
void watchdog_stop(struct watchdog *watchdog);

#endif
