/* SPDX-License-Identifier: MIT */
/* See job.h. Children are reaped when SIGCHLD arrives. Changes without a SIGCHLD (a
 * process whose parent lives on elsewhere, a system without subreapers) are found at
 * intervals, once the command itself has ended.
 *
 * The watchdog is told again and again until when the job may run. If the job stops, the
 * terminal is taken back and lockwire stops itself, so that its shell continues; later
 * the job continues with the terminal as it was. A job that is refused the terminal
 * although it is lockwire's (SIGTTIN, SIGTTOU) gets it, and continues at once. */
#include "job.h"

#include "embedded.h"
#include "report.h"
#include "signals.h"
#include "system.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    if (!child->group) {
        system_die_with_parent(SIGTERM);
    }
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

/* Starts the command. Returns its pid, or -1 with errno set. A command that cannot be
 * executed ends as with a shell, with a message: code 126, or 127 if it does not exist. */
static pid_t child_start(const struct child *child)
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

/* Returns the exit code of a process that has ended: 128 + n after signal n. */
static int child_code(int status)
{
    return WIFSIGNALED(status) ? STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

#define LOOK_MS 100
#define SAY_AFTER_MS 1000
#define REAPS 1000 /* at a time; processes that follow each other fast may never end */
#define LOOKS 8
#define BEATS 8 /* at least, in the time for which the keeper knows it may work */
#define LONGEST_BEAT_MS 1000
#define SHORTEST_BEAT_MS 5

static void arm(struct event *timer, int64_t ms)
{
    struct timeval time = {(time_t)(ms / 1000), (ms % 1000) * 1000};

    event_add(timer, &time);
}

/* ---- what the keeper knows ---- */

/* A little after lockwire itself would act, and before the lock is over. */
static struct order order_of(const struct work *work)
{
    struct order order = {.group = work->family.group, .phase = ORDER_RUN};

    if (work->ending) {
        order.phase = ORDER_END;
        order.until_ms = work->kill_at_ms;
        return order;
    }
    if (work->stopped) {
        order.phase = ORDER_STOPPED;
    }
    order.until_ms = system_now_ms() + work->plan.left_ms(work->plan.arg) +
                     work->plan.kill_ms / 4;
    return order;
}

static bool tell(const struct work *work)
{
    struct order order = order_of(work);

    return keeper_tell(&work->keeper, &order);
}

static void arm_beat(struct work *work)
{
    int64_t ms = work->plan.left_ms(work->plan.arg) / BEATS;

    if (ms > LONGEST_BEAT_MS) {
        ms = LONGEST_BEAT_MS;
    }
    arm(work->beat, ms < SHORTEST_BEAT_MS ? SHORTEST_BEAT_MS : ms);
}

static bool new_keeper(struct work *work)
{
    keeper_stop(&work->keeper);
    if (keeper_start(&work->keeper, &work->family, work->plan.grace_ms) < 0) {
        return false;
    }
    tell(work);
    return true;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    struct work *work = arg;

    (void)fd, (void)what;
    if (!tell(work)) {
        new_keeper(work);
    }
    arm_beat(work);
}

/* ---- signals to the command ---- */

static void send_all(struct work *work, int number)
{
    if (work->plan.direct && work->child > 0) {
        kill(work->child, number);
    } else if (!work->plan.direct) {
        family_signal(&work->family, number);
    }
}

/* As a terminal would: to the group, which is there as long as its first process is. */
static void pass_on(struct work *work, int number)
{
    if (!work->plan.direct && work->child > 0) {
        kill(-work->family.group, number);
    } else {
        send_all(work, number);
    }
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
    if (!work->working || work->ending) {
        return;
    }
    work->ending = true;
    work->kill_at_ms = system_now_ms() + (work->stopped ? 0 : work->plan.grace_ms);
    tell(work);
    if (work->stopped) {
        start_killing(work);
        return;
    }
    send_all(work, SIGTERM);
    arm(work->grace, work->plan.grace_ms);
}

/* ---- stops ---- */

static bool wants_terminal(int number)
{
    return number == SIGTTIN || number == SIGTTOU;
}

static void continued(struct work *work)
{
    work->stopped = false;
    family_resume(&work->family);
    tell(work);
}

static void go_on(struct work *work, bool with_terminal)
{
    continued(work);
    if (with_terminal) {
        terminal_give(&work->terminal, work->family.group);
    }
    pass_on(work, SIGCONT);
    if (work->stop_asked) { /* which that has wiped out, if it was on its way */
        pass_on(work, SIGTSTP);
    }
}

/* It wants the terminal, and nobody is there who could ever give it. */
static void hang_up(struct work *work)
{
    if (work->hung_up) {
        work_end(work);
        return;
    }
    work->hung_up = true;
    pass_on(work, SIGHUP);
    go_on(work, false);
}

/* SIGSTOP would stop this process for ever where no shell is. */
static void stop_along(struct work *work, int number)
{
    bool had_terminal = terminal_take(&work->terminal);
    bool was_stopped;

    work->stopped = true;
    work->stop_asked = false;
    family_halt(&work->family);
    tell(work);
    was_stopped = signals_stop(number == SIGSTOP ? SIGTSTP : number, had_terminal);
    if (work->plan.left_ms(work->plan.arg) <= 0) {
        work_end(work);
    } else if (was_stopped || terminal_is_ours(&work->terminal)) {
        go_on(work, had_terminal || wants_terminal(number));
    } else if (wants_terminal(number)) {
        hang_up(work);
    } else if (number != SIGSTOP) { /* else whoever stopped it continues it */
        go_on(work, had_terminal);
    }
}

static void on_stopped(struct work *work, int number)
{
    bool follow = number != SIGSTOP || work->terminal.given ||
                  terminal_is_ours(&work->terminal);

    work->stopped = true;
    if (wants_terminal(number) && terminal_is_ours(&work->terminal)) {
        go_on(work, true);
    } else if (follow) {
        stop_along(work, number);
    } else {
        tell(work);
    }
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
    bool had_terminal = terminal_take(&work->terminal);

    work->child = 0;
    work->ended_ms = system_now_ms();
    work->code = child_code(status);
    work->stopped = false;
    if (had_terminal && interrupted(status)) {
        work->interrupted = WTERMSIG(status) == SIGINT;
        kill(0, WTERMSIG(status));
    }
    if (had_terminal && (work->ending || WIFSIGNALED(status))) {
        terminal_restore(&work->terminal);
    }
    tell(work);
}

static void on_keeper_end(struct work *work)
{
    keeper_died(&work->keeper);
    if (!new_keeper(work)) {
        say("cannot start another keeper: %s", strerror(errno));
    }
}

/* Of those that the command has left behind only what this process has adopted. */
static void on_relative(struct work *work, pid_t pid, int status)
{
    bool is_job = pid == work->child || work->child == 0;

    if (WIFSTOPPED(status) && is_job) {
        on_stopped(work, WSTOPSIG(status));
    } else if (WIFCONTINUED(status) && is_job) {
        continued(work);
    } else if (pid == work->child && !WIFSTOPPED(status) && !WIFCONTINUED(status)) {
        on_child(work, status);
    }
}

static void on_change(struct work *work, pid_t pid, int status)
{
    bool ended = WIFEXITED(status) || WIFSIGNALED(status);

    if (pid == work->keeper.pid) {
        if (ended) {
            on_keeper_end(work);
        }
    } else if (work->plan.server != NULL && pid == work->plan.server->pid) {
        if (ended) {
            embedded_reaped(work->plan.server, pid);
        }
    } else {
        on_relative(work, pid, status);
    }
}

/* One change of a child of this process. Was there any? */
static bool reap_one(struct work *work)
{
    int how = work->plan.direct ? WNOHANG : WNOHANG | WUNTRACED | WCONTINUED, status;
    pid_t pid = 0;

    if (!work->plan.direct) {
        pid = waitpid(-1, &status, how);
    } else if (work->child > 0) {
        pid = waitpid(work->child, &status, how);
    }
    if (pid > 0) {
        on_change(work, pid, status);
    }
    return pid > 0;
}

/* How many changes there were; REAPS: there may be more. */
static int reap_some(struct work *work)
{
    int reaped = 0;

    while (reaped < REAPS && reap_one(work)) {
        reaped++;
    }
    return reaped;
}

/* ---- its end ---- */

static void finish(struct work *work)
{
    work->working = false;
    event_del(work->grace);
    event_del(work->look);
    event_del(work->beat);
    keeper_stop(&work->keeper);
    work->plan.over(work->code, work->plan.arg);
}

/* A look that finds nobody is right if nobody ended during it: each of the command's
 * processes has one above it that is a child of this process. All who did are reaped
 * before the next look, which would read of each of them once more. */
static bool anything_is_left(struct work *work)
{
    if (work->plan.direct) {
        return false;
    }
    for (int looks = 0; looks < LOOKS; looks++) {
        if (work->killing) {
            send_all(work, SIGKILL);
        }
        if (family_look(&work->family) > 0) {
            return true;
        }
        if (reap_some(work) == 0) {
            return false;
        }
    }
    return true;
}

static void tell_what_is_awaited(struct work *work)
{
    if (work->ended_ms == 0 || system_now_ms() < work->ended_ms + SAY_AFTER_MS) {
        return;
    }
    say("%s has ended, but '%s' is held until the processes that it left behind end",
        work->plan.child.argv[0], work->plan.child.name);
    work->ended_ms = 0;
}

static void reap(struct work *work)
{
    int reaped = reap_some(work);

    if (work->child == 0 && !anything_is_left(work)) {
        finish(work);
        return;
    }
    if (work->child == 0) {
        tell_what_is_awaited(work);
    }
    if (work->child == 0 || reaped == REAPS) {
        arm(work->look, reaped == REAPS ? 0 : LOOK_MS);
    }
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    reap(arg);
}

static void on_stop_signal(struct work *work)
{
    work->stop_asked = true;
    pass_on(work, SIGTSTP);
    if (work->child == 0 || work->stopped) {
        stop_along(work, SIGTSTP); /* no stop that would tell */
    }
}

void work_signal(struct work *work, int number, bool from_terminal)
{
    if (!work->working) {
        return;
    }
    if (number == SIGINT && from_terminal) {
        work->interrupted = true;
    }
    if (number == SIGCHLD) {
        /* one look for all that came; those that come meanwhile do not put it off */
        event_active(work->look, EV_TIMEOUT, 0);
    } else if (number == SIGTSTP || number == SIGTTIN) {
        reap(work); /* who ended before it cannot stop */
        if (work->working) {
            on_stop_signal(work);
        }
    } else if (!work->plan.direct || !from_terminal) {
        pass_on(work, number);
    }
}

/* ---- its beginning ---- */

static int start_job(struct work *work)
{
    struct child *child = &work->plan.child;

    terminal_open(&work->terminal);
    signals_job();
    family_begin(&work->family);
    if (keeper_start(&work->keeper, &work->family, work->plan.grace_ms) < 0) {
        return -1;
    }
    child->group = true;
    child->keeper = &work->keeper;
    child->order = order_of(work);
    if (terminal_is_ours_alone(&work->terminal)) {
        child->terminal = work->terminal.fd;
    }
    work->child = child_start(child);
    if (work->child < 0) {
        return -1;
    }
    work->terminal.given = child->terminal >= 0;
    work->family.group = work->child;
    arm_beat(work);
    return 0;
}

int work_start(struct work *work, struct event_base *base, const struct work_plan *plan)
{
    *work = (struct work){.plan = *plan, .terminal.fd = -1};
    work->plan.child.terminal = -1;
    work->grace = event_new(base, -1, 0, on_grace_over, work);
    work->look = event_new(base, -1, 0, on_look, work);
    work->beat = event_new(base, -1, 0, on_beat, work);
    if (work->grace == NULL || work->look == NULL || work->beat == NULL) {
        errno = ENOMEM;
        return -1;
    }
    if (plan->direct) {
        work->child = child_start(&work->plan.child);
    } else if (start_job(work) < 0) {
        return -1;
    }
    work->working = work->child > 0;
    return work->working ? 0 : -1;
}

void work_free(struct work *work)
{
    if (work->grace == NULL) {
        return; /* work_start had no more than this */
    }
    event_free(work->grace);
    if (work->look != NULL) {
        event_free(work->look);
    }
    if (work->beat != NULL) {
        event_free(work->beat);
    }
    keeper_stop(&work->keeper);
    family_free(&work->family);
    terminal_close(&work->terminal);
}
