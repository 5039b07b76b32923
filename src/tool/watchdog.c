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

#define LONGEST_WAIT_MS 1000 /* poll's clock excludes suspend */
#define PAUSE_MS 20
#define LAST_LOOKS 5 /* successive empty ones: only a parent can rely on a single one */

static void end_tree(struct process_tree *tree, int64_t kill_at_ms)
{
    int empty_looks = 0;

    while (empty_looks < LAST_LOOKS && system_now_ms() < kill_at_ms) {
        empty_looks = process_tree_update(tree) > 0 ? 0 : empty_looks + 1;
        system_sleep_ms(PAUSE_MS);
    }
    for (empty_looks = 0; empty_looks < LAST_LOOKS; system_sleep_ms(PAUSE_MS)) {
        empty_looks = process_tree_signal(tree, SIGKILL) > 0 ? 0 : empty_looks + 1;
    }
}

/* Returns false when the order is due. */
static bool await_order(int pipe, const struct watchdog_order *order)
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

static _Noreturn void run_watchdog(int pipe, struct process_tree tree, int64_t grace_ms)
{
    struct watchdog_order order = {.until_ms = INT64_MAX};
    bool lockwire_alive = true, ordered = false;

    while (await_order(pipe, &order)) {
        lockwire_alive = read(pipe, &order, sizeof(order)) == (ssize_t)sizeof(order);
        if (!lockwire_alive) {
            break;
        }
        ordered = true;
        tree.group = order.group;
        process_tree_update(&tree);
    }
    if (!ordered) {
        _exit(0);
    }
    if (!lockwire_alive) {
        tree.root = 0;
    }
    if (order.phase == WATCHDOG_RUN) {
        process_tree_signal(&tree, SIGTERM);
        order.until_ms = system_now_ms() + grace_ms;
    } else if (order.phase == WATCHDOG_STOPPED) {
        order.until_ms = 0;
    }
    end_tree(&tree, order.until_ms);
    _exit(0);
}

static _Noreturn void become_watchdog(int pipe, const struct process_tree *tree,
                                      int64_t grace_ms)
{
    setsid();
    system_set_name("lw-keeper"); /* not to be found by `pkill -9 lockwire` */
    dup2(pipe, STDIN_FILENO);
    system_close_descriptors_above(STDIN_FILENO);
    if (open("/dev/null", O_RDWR) == STDOUT_FILENO) {
        dup2(STDOUT_FILENO, STDERR_FILENO);
    }
    run_watchdog(STDIN_FILENO, *tree, grace_ms);
}

int watchdog_start(struct watchdog *watchdog, const struct process_tree *tree,
                   int64_t grace_ms)
{
    sigset_t all, before;
    int ends[2], error;

    if (system_pipe(ends) < 0) {
        return -1;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    watchdog->pid = fork();
    error = errno;
    if (watchdog->pid == 0) {
        become_watchdog(ends[0], tree, grace_ms);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    watchdog->pipe = ends[1];
    fcntl(ends[1], F_SETFL,
          O_NONBLOCK); /* never blocks, also if the watchdog is stopped */
    if (watchdog->pid > 0) {
        return 0;
    }
    watchdog_reaped(watchdog);
    errno = error;
    return -1;
}

bool watchdog_send(const struct watchdog *watchdog, const struct watchdog_order *order)
{
    return watchdog->pid > 0 &&
           write(watchdog->pipe, order, sizeof(*order)) == (ssize_t)sizeof(*order);
}

void watchdog_reaped(struct watchdog *watchdog)
{
    close(watchdog->pipe);
    watchdog->pid = 0;
}

void watchdog_stop(struct watchdog *watchdog)
{
    if (watchdog->pid == 0) {
        return;
    }
    kill(watchdog->pid, SIGKILL);
    waitpid(watchdog->pid, NULL, 0);
    watchdog_reaped(watchdog);
}
