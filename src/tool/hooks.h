/* SPDX-License-Identifier: MIT */
/* The commands of --on-lost and --on-yield, which run when a lock is at risk or lost, and
 * when its holder is asked to release it. Independent of locks, and of the job: they are
 * never waited for.
 *
 * hooks_run starts one, in a session of its own. hooks_reap is called for each SIGCHLD,
 * hooks_reaped if another waitpid has reaped a child. When lockwire exits, a command that
 * still runs is left alone. A command that cannot be started, or fails, is reported. */
#ifndef LW_TOOL_HOOKS_H
#define LW_TOOL_HOOKS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum hook { HOOK_AT_RISK, HOOK_LOST, HOOK_ASKED, HOOKS };

struct hooks {
    const char *commands[HOOKS]; /* for /bin/sh -c; or NULL */
    pid_t pids[HOOKS];           /* the one that runs; 0: none */
};

struct hook_event {
    enum hook hook;   /* LOCKWIRE_LOST_STATE: "at-risk" or "lost"; HOOK_ASKED: removed */
    const char *name; /* LOCKWIRE_NAME */
    const char *reason; /* LOCKWIRE_LOST_REASON; NULL: the variable is removed */
    uint64_t fence;     /* LOCKWIRE_FENCE; 0: the variable is removed */
};

/* Starts the command of this hook, if there is one, unless the one of an earlier event
 * still runs, which is reported. */
void hooks_run(struct hooks *hooks, const struct hook_event *event);
/* Reaps the commands that have ended. */
void hooks_reap(struct hooks *hooks);
/* Returns true if the child is one of these commands; its status has changed. */
bool hooks_reaped(struct hooks *hooks, pid_t pid, int status);

#endif
