/* SPDX-License-Identifier: MIT */
/*
 * See work.h. Whatever changes is looked at when SIGCHLD comes; what is not told that way
 * (a process whose own parent lives on elsewhere, a system that has no subreapers) at
 * intervals, once the command itself has ended.
 *
 * Happy path: the keeper, the child, its end; nothing is left; the keeper's end; `over`.
 *
 * A stop: the terminal is taken back, lockwire stops itself, so that its shell goes on; later
 * the job goes on with the terminal as it was. A job that is refused the terminal although it
 * is lockwire's to give (SIGTTIN, SIGTTOU) is given it, and goes on at once.
 */
#include "work.h"

#include "embedded.h"
#include "say.h"
#include "signals.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 100
#define LOOKS_BEFORE_SAYING 10

static void arm(struct event *timer, int64_t ms)
{
    struct timeval time = {(time_t)(ms / 1000), (ms % 1000) * 1000};

    event_add(timer, &time);
}

/* ---- signals to the command ---- */

static void send_all(struct work *work, int number)
{
    if (work->plan.direct && work->child > 0)
        kill(work->child, number);
    else if (!work->plan.direct)
        family_signal(&work->family, number);
}

/* As a terminal would: to the group, which is there as long as its first process is. */
static void pass_on(struct work *work, int number)
{
    if (!work->plan.direct && work->child > 0)
        kill(-work->family.group, number);
    else
        send_all(work, number);
}

static void start_killing(struct work *work)
{
    work->killing = true;
    send_all(work, SIGKILL);
}

static void on_grace_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    start_killing(arg);
}

void work_end(struct work *work)
{
    if (!work->working || work->ending)
        return;
    work->ending = true;
    keeper_watch(&work->keeper, work->family.group, true);
    if (work->stopped) {
        start_killing(work);
        return;
    }
    send_all(work, SIGTERM);
    arm(work->grace, work->plan.grace_ms);
}

/* ---- its end ---- */

static void look_for_the_rest(struct work *work)
{
    const struct work_plan *plan = &work->plan;

    if (!plan->direct) {
        if (work->killing)
            send_all(work, SIGKILL);
        if (family_signal(&work->family, 0) > 0) {
            arm(work->look, LOOK_MS);
            return;
        }
    }
    work->working = false;
    event_del(work->grace);
    event_del(work->look);
    keeper_stop(&work->keeper);
    if (work->killing)
        terminal_restore(&work->terminal);
    plan->over(work->code, plan->arg);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct work *work = arg;

    (void)fd, (void)what;
    if (++work->looks == LOOKS_BEFORE_SAYING)
        say("%s has ended, but '%s' is held until the processes that it left behind end",
            work->plan.child.argv[0], work->plan.child.name);
    look_for_the_rest(work);
}

/* ---- stops ---- */

static void go_on(struct work *work, bool with_terminal)
{
    work->stopped = false;
    if (with_terminal)
        terminal_give(&work->terminal, work->family.group);
    pass_on(work, SIGCONT);
}

/* It wants the terminal, and nobody is there who could ever give it. */
static void hang_up(struct work *work)
{
    if (work->hung_up)
        work_end(work);
    work->hung_up = true;
    pass_on(work, SIGHUP);
}

static void stop_along(struct work *work, int number)
{
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;
    bool had_terminal = terminal_take(&work->terminal);
    bool was_stopped = signals_stop(number, had_terminal);

    if (!work->plan.may_go_on(work->plan.arg))
        return; /* it stays stopped until work_end */
    if (wants_terminal && !was_stopped && !terminal_is_ours(&work->terminal))
        hang_up(work);
    go_on(work, had_terminal || wants_terminal);
}

static void on_stopped(struct work *work, int number)
{
    bool wants_terminal = number == SIGTTIN || number == SIGTTOU;

    if (work->plan.direct)
        return;
    work->stopped = true;
    if (wants_terminal && terminal_is_ours(&work->terminal))
        go_on(work, true);
    else if (number != SIGSTOP || work->terminal.given)
        stop_along(work, number);
}

/* ---- what happens to its processes ---- */

/* By a key, which would have reached all, had lockwire's group had the terminal. */
static bool interrupted(int status)
{
    return WIFSIGNALED(status) &&
           (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
}

static void on_child(struct work *work, int status)
{
    if (WIFSTOPPED(status)) {
        on_stopped(work, WSTOPSIG(status));
    } else if (WIFCONTINUED(status)) {
        work->stopped = false;
    } else {
        work->child = 0;
        work->code = child_code(status);
        keeper_watch(&work->keeper, work->family.group, work->ending);
        if (terminal_take(&work->terminal) && interrupted(status))
            kill(0, WTERMSIG(status));
    }
}

static void new_keeper(struct work *work)
{
    keeper_died(&work->keeper);
    if (keeper_start(&work->keeper, &work->family, work->plan.grace_ms) == 0)
        keeper_watch(&work->keeper, work->family.group, work->ending);
    else
        say("cannot start another keeper: %s", strerror(errno));
}

static void on_ended_or_stopped(struct work *work, pid_t pid, int status)
{
    if (pid == work->child)
        on_child(work, status);
    else if (pid == work->keeper.pid)
        new_keeper(work);
    else if (work->plan.server)
        embedded_reaped(work->plan.server, pid);
}

static void reap(struct work *work)
{
    pid_t who = work->plan.direct ? work->child : -1, pid;
    int how = work->plan.direct ? WNOHANG : WNOHANG | WUNTRACED | WCONTINUED, status;

    while (work->working && (pid = waitpid(who, &status, how)) > 0)
        on_ended_or_stopped(work, pid, status);
    if (work->working && work->child == 0)
        look_for_the_rest(work);
}

void work_signal(struct work *work, int number, bool from_terminal)
{
    if (!work->working)
        return;
    if (number == SIGCHLD) {
        reap(work);
    } else if (!work->plan.direct || !from_terminal) {
        pass_on(work, number);
        if (number == SIGTSTP && work->child == 0)
            stop_along(work, number); /* no child whose stop would tell */
    }
}

/* ---- its beginning ---- */

static int start_job(struct work *work)
{
    struct child *child = &work->plan.child;

    terminal_open(&work->terminal);
    signals_job();
    family_begin(&work->family);
    if (keeper_start(&work->keeper, &work->family, work->plan.grace_ms) < 0)
        return -1;
    child->group = true;
    if (terminal_is_ours_alone(&work->terminal))
        child->terminal = work->terminal.fd;
    work->child = child_start(child);
    if (work->child < 0)
        return -1;
    work->terminal.given = child->terminal >= 0;
    work->family.group = work->child;
    keeper_watch(&work->keeper, work->child, false);
    return 0;
}

int work_start(struct work *work, struct event_base *base, const struct work_plan *plan)
{
    *work = (struct work){.plan = *plan, .terminal.fd = -1};
    work->plan.child.terminal = -1;
    work->grace = event_new(base, -1, 0, on_grace_over, work);
    work->look = event_new(base, -1, 0, on_look, work);
    if (!work->grace || !work->look) {
        errno = ENOMEM;
        return -1;
    }
    if (plan->direct)
        work->child = child_start(&work->plan.child);
    else if (start_job(work) < 0)
        return -1;
    work->working = work->child > 0;
    return work->working ? 0 : -1;
}

void work_free(struct work *work)
{
    if (!work->grace)
        return; /* work_start had no more than this */
    event_free(work->grace);
    if (work->look)
        event_free(work->look);
    keeper_stop(&work->keeper);
    family_free(&work->family);
    terminal_close(&work->terminal);
}
