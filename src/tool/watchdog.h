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

struct family;

enum order_phase {
    ORDER_RUN,     /* until then it may run; SIGTERM, after the grace time SIGKILL */
    ORDER_STOPPED, /* it is stopped, and must not run on after that: SIGKILL */
    ORDER_END      /* it was sent SIGTERM: SIGKILL then */
};

struct order {
    pid_t group; /* the command's */
    enum order_phase phase;
    int64_t until_ms; /* by keeper_now_ms */
};

struct keeper {
    pid_t pid; /* 0: there is none */
    int pipe;
};

/* 0, or -1 and errno. */
int keeper_start(struct keeper *keeper, const struct family *family, int64_t grace_ms);
/* Replaces the order before. If lockwire dies, it holds as of then: a command that runs
 * gets SIGTERM and its grace time, one that is stopped SIGKILL. At each order the keeper
 * looks who belongs to the command: whom lockwire has adopted it cannot tell from others
 * later. False: there is none, or it has not read for long. */
bool keeper_tell(const struct keeper *keeper, const struct order *order);
/* After its waitpid by another. */
void keeper_died(struct keeper *keeper);
/* Ends it in peace, and reaps it. A second call has no effect. */
void keeper_stop(struct keeper *keeper);

#endif
