/* SPDX-License-Identifier: MIT */
/*
 * See keeper.h. The keeper has a session of its own, where no terminal's signal reaches it,
 * blocks all others, and holds no descriptor of its parent's but the pipe: who waits for the
 * end of an output is not kept waiting by it.
 *
 * Happy path: it reads which group it is to watch, then reads for ever, and is killed.
 */
#include "keeper.h"

#include "descriptors.h"
#include "family.h"
#include "patience.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

struct order {
    pid_t group;
    bool ending;
};

static void end_family(struct family *family, struct patience grace)
{
    struct patience endless = patience_for(INT_MAX);

    family_signal(family, SIGTERM);
    while (family_signal(family, 0) > 0 && patience_pause(&grace))
        continue;
    while (family_signal(family, SIGKILL) > 0)
        patience_pause(&endless);
}

/* At each order it looks who belongs to the command: when lockwire is dead, those that it had
 * adopted cannot be told from others any more, unless they are known. */
static _Noreturn void keep(int pipe, struct family family, int64_t grace_ms)
{
    struct patience grace = {0};
    struct order order = {0};
    bool ending = false;

    while (read(pipe, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
        if (order.ending && !ending)
            grace = patience_for((int)grace_ms);
        ending = order.ending;
        family.group = order.group;
        family_signal(&family, 0);
    }
    if (!ending)
        grace = patience_for((int)grace_ms);
    family.root = 0;
    if (family.group > 0)
        end_family(&family, grace);
    _exit(0);
}

static _Noreturn void become_keeper(int pipe, const struct family *family,
                                    int64_t grace_ms)
{
    int null = open("/dev/null", O_RDWR);

    setsid();
#ifdef __linux__
    prctl(PR_SET_NAME, "lockwire-keeper"); /* `killall -9 lockwire` is not to find it */
#endif
    dup2(pipe, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    descriptors_close_above(STDERR_FILENO);
    keep(STDIN_FILENO, *family, grace_ms);
}

int keeper_start(struct keeper *keeper, const struct family *family, int64_t grace_ms)
{
    sigset_t all, before;
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    keeper->pid = fork();
    error = errno;
    if (keeper->pid == 0)
        become_keeper(ends[0], family, grace_ms);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    keeper->pipe = ends[1];
    if (keeper->pid > 0)
        return 0;
    keeper_died(keeper);
    errno = error;
    return -1;
}

void keeper_watch(struct keeper *keeper, pid_t group, bool ending)
{
    struct order order = {.group = group, .ending = ending};

    /* it fails only if the keeper is dead, which its SIGCHLD tells */
    if (keeper->pid > 0 && write(keeper->pipe, &order, sizeof(order)) < 0)
        return;
}

void keeper_died(struct keeper *keeper)
{
    close(keeper->pipe);
    keeper->pid = 0;
}

void keeper_stop(struct keeper *keeper)
{
    if (keeper->pid == 0)
        return;
    kill(keeper->pid, SIGKILL);
    waitpid(keeper->pid, NULL, 0);
    keeper_died(keeper);
}
