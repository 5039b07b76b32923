/* SPDX-License-Identifier: MIT */
/* The watchdog, lw-keeper: a small process that ends the command if lockwire cannot,
 * because lockwire was killed, or is stopped for longer than the lock is certainly held.
 * A parent-death signal would reach only the command's first process, not its children.
 *
 * Its orders come through a pipe whose other end only lockwire has. If it dies, lockwire
 * learns that by SIGCHLD, and starts another.
 *
 * watchdog_start starts it; watchdog_send sends the first order when the command starts,
 * and further ones while the lock is renewed; watchdog_stop ends it when nothing of the
 * command is left. */
#ifndef LW_TOOL_WATCHDOG_H
#define LW_TOOL_WATCHDOG_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_tree;

enum watchdog_phase {
    WATCHDOG_RUN,     /* at until_ms SIGTERM, and after the grace time SIGKILL */
    WATCHDOG_STOPPED, /* the command is stopped; at until_ms SIGKILL */
    WATCHDOG_END      /* SIGTERM was sent; at until_ms SIGKILL */
};

struct watchdog_order {
    pid_t group; /* the command's */
    enum watchdog_phase phase;
    int64_t until_ms;
};

struct watchdog {
    pid_t pid; /* 0: not running */
    int pipe;
};

/* Returns 0, or -1 with errno set. */
int watchdog_start(struct watchdog *watchdog, const struct process_tree *tree,
                   int64_t grace_ms);
/* Replaces the previous order, which is carried out at once if lockwire dies: a running
 * command gets SIGTERM and its grace time, a stopped one SIGKILL. At each order the
 * watchdog finds the command's processes, because after lockwire's death it cannot tell
 * adopted ones from others. Returns false if it is not running, or does not read. */
bool watchdog_send(const struct watchdog *watchdog, const struct watchdog_order *order);
/* To be called when another waitpid has reaped it. */
void watchdog_reaped(struct watchdog *watchdog);
/* Kills and reaps it. A second call has no effect. */
void watchdog_stop(struct watchdog *watchdog);

#endif
