/* SPDX-License-Identifier: MIT */
/*
 * See child.h. Signals are blocked across the fork, so that one that comes before exec is
 * met by the program and not by the handlers of this process.
 *
 * Happy path: fork, environment, signals as they were, exec.
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

static bool set_environment(const char *name, uint64_t fence, const char *url)
{
    char number[32];

    snprintf(number, sizeof(number), "%" PRIu64, fence);
    return setenv("LOCKWIRE_NAME", name, 1) == 0 &&
           setenv("LOCKWIRE_FENCE", number, 1) == 0 &&
           (!url || setenv("LOCKWIRE_URL", url, 1) == 0);
}

/* Nobody renews the lock of a dead parent: the program must not go on as if it had it. */
static void die_with(pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent)
        _exit(STATUS_SYSTEM);
}

static _Noreturn void execute(char *const argv[], const sigset_t *mask)
{
    int error;

    signals_restore();
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    error = errno;
    fprintf(stderr, "lockwire: cannot execute %s: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_EXECUTE);
}

pid_t child_start(char *const argv[], const char *name, uint64_t fence, const char *url)
{
    sigset_t all, before;
    pid_t parent = getpid(), pid;
    int error;

    fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        die_with(parent);
        if (!set_environment(name, fence, url))
            _exit(STATUS_SYSTEM);
        execute(argv, &before);
    }
    error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

bool child_ended(pid_t pid, int *code)
{
    int status;

    if (waitpid(pid, &status, WNOHANG) != pid)
        return false;
    *code = WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}
