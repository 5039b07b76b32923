/* SPDX-License-Identifier: MIT */
/*
 * See child.h. Signals are blocked across the fork, so that one that comes before exec is
 * met by the program and not by the handlers of this process.
 *
 * Happy path: fork, group, environment, signals as they were, exec.
 */
#include "child.h"

#include "codes.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

/* Sets the variable to the fencing token, or removes it if that is 0. */
static bool set_fence(const char *variable, uint64_t fence)
{
    char number[32];

    (void)snprintf(number, sizeof(number), "%" PRIu64, fence);
    return (fence > 0 ? setenv(variable, number, 1) : unsetenv(variable)) == 0;
}

static bool set_environment(const struct child *child)
{
    char variable[32];

    for (int i = 0; i < CHILD_FENCES; i++) {
        (void)snprintf(variable, sizeof(variable), "LOCKWIRE_FENCE_%d", i + 2);
        if (!set_fence(variable, child->more_fences[i])) {
            return false;
        }
    }
    return set_fence("LOCKWIRE_FENCE", child->fence) &&
           setenv("LOCKWIRE_NAME", child->name, 1) == 0 &&
           (child->url == NULL || setenv("LOCKWIRE_URL", child->url, 1) == 0);
}

/* Nobody renews the lock of a dead parent: the program must not go on as if it had it. Of
 * a group the keeper sees to that, which has to find it whole. */
static void die_with(pid_t parent, const struct child *child)
{
#ifdef __linux__
    if (!child->group) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    }
#endif
    if (getppid() != parent) {
        _exit(STATUS_SYSTEM);
    }
}

static void enter_group(const struct child *child)
{
    struct order order = child->order;

    setpgid(0, 0);
    if (child->terminal >= 0) {
        tcsetpgrp(child->terminal, getpid());
    }
    order.group = getpid();
    keeper_tell(child->keeper, &order);
}

static _Noreturn void execute(char *const argv[])
{
    int error;

    signals_restore();
    execvp(argv[0], argv);
    error = errno;
    (void)fprintf(stderr, "lockwire: cannot execute %s: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

pid_t child_start(const struct child *child)
{
    sigset_t all, before;
    pid_t parent = getpid(), pid;
    int error;

    (void)fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        if (child->group) {
            enter_group(child);
        }
        die_with(parent, child);
        if (!set_environment(child)) {
            _exit(STATUS_SYSTEM);
        }
        execute(child->argv);
    }
    error = errno;
    if (pid > 0 && child->group) {
        setpgid(pid, pid); /* whichever of the two comes first */
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

int child_code(int status)
{
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
