/* SPDX-License-Identifier: MIT */
/* The command of --on-lost, which runs when a lock is at risk or lost. Independent of
 * locks, and of the job: it is never waited for.
 *
 * lost_hook_run starts it, in a session of its own. lost_hook_reap is called for each
 * SIGCHLD, lost_hook_reaped if another waitpid has reaped a child. When lockwire exits, a
 * command that still runs is left alone. A command that cannot be started, or fails, is
 * reported. */
#ifndef LW_TOOL_LOST_HOOK_H
#define LW_TOOL_LOST_HOOK_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum lost_hook_state { LOST_HOOK_AT_RISK, LOST_HOOK_LOST, LOST_HOOK_STATES };

struct lost_hook {
    const char *command;          /* for /bin/sh -c; or NULL */
    pid_t pids[LOST_HOOK_STATES]; /* the one that runs for this state; 0: none */
};

struct lost_hook_event {
    enum lost_hook_state state; /* LOCKWIRE_LOST_STATE: "at-risk" or "lost" */
    const char *name;           /* LOCKWIRE_NAME */
    const char *reason;         /* LOCKWIRE_LOST_REASON */
    uint64_t fence;             /* LOCKWIRE_FENCE; 0: the variable is removed */
};

/* Starts the command, unless the one of an earlier event of the same state still runs,
 * which is reported. */
void lost_hook_run(struct lost_hook *hook, const struct lost_hook_event *event);
/* Reaps the commands that have ended. */
void lost_hook_reap(struct lost_hook *hook);
/* Returns true if the child is one of these commands; its status has changed. */
bool lost_hook_reaped(struct lost_hook *hook, pid_t pid, int status);

#endif
