/* SPDX-License-Identifier: MIT */
/* See lost_hook.h. The command has no standard input, its output goes to the standard
 * error output, and it has no other descriptor of lockwire's. It has a session of its
 * own, so that it does not belong to the job (process_tree.h), and no key of a terminal
 * reaches it. lockwire continues once that session exists. */
#include "lost_hook.h"

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

static bool set_environment(const struct lost_hook_event *event)
{
    char fence[32];

    (void)snprintf(fence, sizeof(fence), "%" PRIu64, event->fence);
    return setenv("LOCKWIRE_NAME", event->name, 1) == 0 &&
           setenv("LOCKWIRE_LOST_REASON", event->reason, 1) == 0 &&
           setenv("LOCKWIRE_LOST_STATE",
                  event->state == LOST_HOOK_LOST ? "lost" : "at-risk", 1) == 0 &&
           (event->fence > 0 ? setenv("LOCKWIRE_FENCE", fence, 1)
                             : unsetenv("LOCKWIRE_FENCE")) == 0 &&
           unsetenv("LOCKWIRE_TOKEN") == 0; /* of another lockwire, around this one */
}

static _Noreturn void become_command(const char *command,
                                     const struct lost_hook_event *event)
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
static pid_t start(const char *command, const struct lost_hook_event *event)
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

void lost_hook_run(struct lost_hook *hook, const struct lost_hook_event *event)
{
    pid_t *pid = &hook->pids[event->state];

    if (hook->command == NULL) {
        return;
    }
    lost_hook_reap(hook);
    if (*pid > 0) {
        report("the --on-lost command of an earlier event is still running; it is not "
               "started again");
        return;
    }
    *pid = start(hook->command, event);
    if (*pid < 0) {
        report("cannot start the --on-lost command: %s", strerror(errno));
        *pid = 0;
    }
}

bool lost_hook_reaped(struct lost_hook *hook, pid_t pid, int status)
{
    for (int i = 0; i < LOST_HOOK_STATES; i++) {
        if (pid != hook->pids[i]) {
            continue;
        }
        if (WIFSIGNALED(status)) {
            report("the --on-lost command was terminated by signal %d", WTERMSIG(status));
        } else if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
            report("the --on-lost command exited with %d", WEXITSTATUS(status));
        }
        if (WIFSIGNALED(status) || WIFEXITED(status)) {
            hook->pids[i] = 0;
        }
        return true;
    }
    return false;
}

void lost_hook_reap(struct lost_hook *hook)
{
    int status;

    for (int i = 0; i < LOST_HOOK_STATES; i++) {
        pid_t pid = hook->pids[i];

        if (pid > 0 && waitpid(pid, &status, WNOHANG) == pid) {
            (void)lost_hook_reaped(hook, pid, status);
        }
    }
}
