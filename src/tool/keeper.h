/* SPDX-License-Identifier: MIT */
/*
 * The keeper: a small process that ends the command if lockwire cannot, because it was killed
 * itself. Nobody renews the lock of a dead process; a death signal from the kernel reaches
 * the command's first process alone, not its children. Owns that process and its end.
 *
 * It holds one end of a pipe whose other end only lockwire has. Its own death is seen by
 * SIGCHLD; then lockwire starts another.
 *
 * Happy path: keeper_start, keeper_watch when the command was started, keeper_stop when
 * nothing of it is left.
 */
#ifndef LW_TOOL_KEEPER_H
#define LW_TOOL_KEEPER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct family;

struct keeper {
    pid_t pid; /* 0: there is none */
    int pipe;
};

/* 0, or -1 and errno. If the pipe breaks later, the family gets SIGTERM, and SIGKILL grace_ms
 * after it. */
int keeper_start(struct keeper *keeper, const struct family *family, int64_t grace_ms);
/* This is the command's process group, and who belongs to it has changed. `ending`: it was
 * sent SIGTERM, so that its grace time runs already. */
void keeper_watch(struct keeper *keeper, pid_t group, bool ending);
/* After its waitpid by another. */
void keeper_died(struct keeper *keeper);
/* Ends it in peace, and reaps it. A second call has no effect. */
void keeper_stop(struct keeper *keeper);

#endif
