/* SPDX-License-Identifier: MIT */
/* See watchdog.h. The watchdog runs in a session of its own, so that no signal of a
 * terminal reaches it, blocks all signals, and keeps no descriptor of its parent's except
 * the pipe: a process that waits for the end of an output does not wait for it. */
#include "watchdog.h"

#include "process_tree.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONGEST_WAIT_MS 1000 /* poll's time stands still while the machine sleeps */
#define PAUSE_MS 20
/* In a row, that find nobody: who is not the parent may miss some. */
#define LAST_LOOKS 5

static void end_family(struct family *family, int64_t kill_at_ms)
{
    int quiet = 0;

    while (quiet < LAST_LOOKS && system_now_ms() < kill_at_ms) {
        quiet = family_look(family) > 0 ? 0 : quiet + 1;
        system_sleep_ms(PAUSE_MS);
    }
    for (quiet = 0; quiet < LAST_LOOKS; system_sleep_ms(PAUSE_MS)) {
        quiet = family_signal(family, SIGKILL) > 0 ? 0 : quiet + 1;
    }
}

/* False: the order's time has come, or lockwire is dead. */
static bool wait_for_order(int pipe, const struct order *order)
{
    struct pollfd readable = {.fd = pipe, .events = POLLIN};
    int64_t left;

    do {
        left = order->until_ms - system_now_ms();
        if (left > LONGEST_WAIT_MS) {
            left = LONGEST_WAIT_MS;
        }
        if (poll(&readable, 1, left > 0 ? (int)left : 0) > 0) {
            return true;
        }
    } while (left > 0);
    return false;
}

static _Noreturn void keep(int pipe, struct family family, int64_t grace_ms)
{
    struct order order = {.until_ms = INT64_MAX};
    bool lives = true, told = false;

    while (wait_for_order(pipe, &order)) {
        lives = read(pipe, &order, sizeof(order)) == (ssize_t)sizeof(order);
        if (!lives) {
            break;
        }
        told = true;
        family.group = order.group;
        family_look(&family);
    }
    if (!told) {
        _exit(0);
    }
    if (!lives) {
        family.root = 0;
    }
    if (order.phase == ORDER_RUN) {
        family_signal(&family, SIGTERM);
        order.until_ms = system_now_ms() + grace_ms;
    } else if (order.phase == ORDER_STOPPED) {
        order.until_ms = 0;
    }
    end_family(&family, order.until_ms);
    _exit(0);
}

static _Noreturn void become_keeper(int pipe, const struct family *family,
                                    int64_t grace_ms)
{
    setsid();
    system_set_name("lw-keeper"); /* `pkill -9 lockwire` is not to find it */
    dup2(pipe, STDIN_FILENO);
    system_close_descriptors_above(STDIN_FILENO);
    if (open("/dev/null", O_RDWR) == STDOUT_FILENO) {
        dup2(STDOUT_FILENO, STDERR_FILENO);
    }
    keep(STDIN_FILENO, *family, grace_ms);
}

int keeper_start(struct keeper *keeper, const struct family *family, int64_t grace_ms)
{
    sigset_t all, before;
    int ends[2], error;

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    keeper->pid = fork();
    error = errno;
    if (keeper->pid == 0) {
        become_keeper(ends[0], family, grace_ms);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    keeper->pipe = ends[1];
    fcntl(ends[1], F_SETFL, O_NONBLOCK); /* a keeper that is stopped holds up nobody */
    if (keeper->pid > 0) {
        return 0;
    }
    keeper_died(keeper);
    errno = error;
    return -1;
}

bool keeper_tell(const struct keeper *keeper, const struct order *order)
{
    return keeper->pid > 0 &&
           write(keeper->pipe, order, sizeof(*order)) == (ssize_t)sizeof(*order);
}

void keeper_died(struct keeper *keeper)
{
    close(keeper->pipe);
    keeper->pid = 0;
}

void keeper_stop(struct keeper *keeper)
{
    if (keeper->pid == 0) {
        return;
    }
    kill(keeper->pid, SIGKILL);
    waitpid(keeper->pid, NULL, 0);
    keeper_died(keeper);
}
