/* SPDX-License-Identifier: MIT */
/* See hooks.h. A command has no standard input, its output goes to the standard
 * error output, and it has no other descriptor of lockwire's. It has a session of its
 * own, so that it does not belong to the job (process_tree.h), and no key of a terminal
 * reaches it. lockwire continues once that session exists. */
#include "hooks.h"

#include "report.h"
#include "signals.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *option;
    const char *state; /* LOCKWIRE_LOST_STATE, or NULL */
} hook_texts[HOOKS] = {
    [HOOK_AT_RISK] = {"--on-lost", "at-risk"},
    [HOOK_LOST] = {"--on-lost", "lost"},
    [HOOK_ASKED] = {"--on-yield", NULL},
};

/* Sets the variable. If `value` is NULL, removes it: another lockwire around this one may
 * have set it. Returns true if that succeeded. */
static bool set_variable(const char *variable, const char *value)
{
    return (value != NULL ? setenv(variable, value, 1) : unsetenv(variable)) == 0;
}

static bool set_environment(const struct hook_event *event)
{
    char fence[32];

    (void)snprintf(fence, sizeof(fence), "%" PRIu64, event->fence);
    return set_variable("LOCKWIRE_NAME", event->name) &&
           set_variable("LOCKWIRE_LOST_REASON", event->reason) &&
           set_variable("LOCKWIRE_LOST_STATE", hook_texts[event->hook].state) &&
           set_variable("LOCKWIRE_FENCE", event->fence > 0 ? fence : NULL) &&
           set_variable("LOCKWIRE_TOKEN", NULL);
}

static _Noreturn void become_command(const char *command, const struct hook_event *event)
{
    int null = open("/dev/null", O_RDONLY);

    setsid();
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !set_environment(event)) {
        _exit(EXIT_SYSTEM);
    }
    system_close_descriptors_above(STDERR_FILENO); /* lockwire continues */
    signals_restore();
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(EXIT_NOT_FOUND);
}

/* Returns the child, or -1 with errno set. Waits until the child has closed its end of
 * the pipe. */
static pid_t start(const char *command, const struct hook_event *event)
{
    sigset_t all, before;
    int ends[2], error;
    pid_t pid;
    char byte;

    if (system_pipe(ends) < 0) {
        return -1;
    }
    (void)fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        become_command(command, event);
    }
    error = errno;
    close(ends[1]);
    while (pid > 0 && read(ends[0], &byte, 1) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

void hooks_run(struct hooks *hooks, const struct hook_event *event)
{
    const char *command = hooks->commands[event->hook];
    pid_t *pid = &hooks->pids[event->hook];

    if (command == NULL) {
        return;
    }
    hooks_reap(hooks);
    if (*pid > 0) {
        report("the %s command of an earlier event is still running; it is not started "
               "again",
               hook_texts[event->hook].option);
        return;
    }
    *pid = start(command, event);
    if (*pid < 0) {
        report("cannot start the %s command: %s", hook_texts[event->hook].option,
               strerror(errno));
        *pid = 0;
    }
}

bool hooks_reaped(struct hooks *hooks, pid_t pid, int status)
{
    for (int i = 0; i < HOOKS; i++) {
        if (pid != hooks->pids[i]) {
            continue;
        }
        if (WIFSIGNALED(status)) {
            report("the %s command was terminated by signal %d", hook_texts[i].option,
                   WTERMSIG(status));
        } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
            report("the %s command exited with %d", hook_texts[i].option,
                   WEXITSTATUS(status));
        }
        if (WIFSIGNALED(status) || WIFEXITED(status)) {
            hooks->pids[i] = 0;
        }
        return true;
    }
    return false;
}

void hooks_reap(struct hooks *hooks)
{
    int status;

    for (int i = 0; i < HOOKS; i++) {
        pid_t pid = hooks->pids[i];

        if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
            (void)hooks_reaped(hooks, pid, status);
        }
    }
}
