/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a small process that ends the command where lockwire cannot, because it was
 * killed itself, or is stopped beyond the time for which the lock is surely held. Nobody
 * renews the lock of a dead process; a death signal from the kernel reaches the command's
 * first process alone, not its children. Owns that process and its end.
 *
 * It holds one end of a pipe whose other end only lockwire has, and which carries its
 * orders. Its own death is seen by SIGCHLD; then lockwire starts another.
 *
 * Happy path: keeper_start; keeper_tell when the command was started, and again and again
 * while the lock is renewed; keeper_stop when nothing of the command is left.
 */
#ifndef LW_TOOL_KEEPER_H
#define LW_TOOL_KEEPER_H
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

/* A clock that goes on while the machine sleeps, as the lock's does. */
int64_t keeper_now_ms(void);
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
