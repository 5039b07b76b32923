/* SPDX-License-Identifier: MIT */
/* See job.h. Children are reaped when SIGCHLD arrives. Changes without a SIGCHLD (a
 * process whose parent lives on elsewhere, a system without subreapers) are found at
 * intervals, once the command itself has ended.
 *
 * The watchdog regularly gets an order with the time until which the job may run. If the
 * job stops, the terminal is taken back and lockwire stops itself, so that its shell
 * continues; later the job continues with the terminal as it was. A job that is refused
 * the terminal although it is lockwire's (SIGTTIN, SIGTTOU) gets it, and continues at
 * once. */
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

#define LOOK_MS 100
#define REPORT_AFTER_MS 1000
#define REAPS 1000 /* at a time; processes may start and end without limit */
#define LOOKS 8
#define BEATS 8 /* orders at least, while the watchdog's last order is valid */
#define LONGEST_BEAT_MS 1000
#define SHORTEST_BEAT_MS 5

static void arm(struct event *timer, int64_t ms)
{
    struct timeval time = {(time_t)(ms / 1000), (ms % 1000) * 1000};

    event_add(timer, &time);
}

/* ---- orders to the watchdog ---- */

/* The watchdog acts a little after lockwire would, and before the lease expires. */
static struct watchdog_order current_order(const struct job *job)
{
    struct watchdog_order order = {.group = job->tree.group, .phase = WATCHDOG_RUN};

    if (job->ending) {
        order.phase = WATCHDOG_END;
        order.until_ms = job->kill_at_ms;
        return order;
    }
    if (job->stopped) {
        order.phase = WATCHDOG_STOPPED;
    }
    order.until_ms = system_now_ms() + job->plan.left_ms(job->plan.arg) +
                     job->plan.kill_ms / 4;
    return order;
}

static bool order_watchdog(const struct job *job)
{
    struct watchdog_order order = current_order(job);

    return watchdog_send(&job->watchdog, &order);
}

static void arm_beat(struct job *job)
{
    int64_t ms = job->plan.left_ms(job->plan.arg) / BEATS;

    if (ms > LONGEST_BEAT_MS) {
        ms = LONGEST_BEAT_MS;
    }
    arm(job->beat_timer, ms < SHORTEST_BEAT_MS ? SHORTEST_BEAT_MS : ms);
}

static bool restart_watchdog(struct job *job)
{
    watchdog_stop(&job->watchdog);
    if (watchdog_start(&job->watchdog, &job->tree, job->plan.grace_ms) < 0) {
        return false;
    }
    order_watchdog(job);
    return true;
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
    struct job *job = arg;

    (void)fd, (void)what;
    if (!order_watchdog(job)) {
        restart_watchdog(job);
    }
    arm_beat(job);
}

/* ---- signals to the command ---- */

static void signal_all(struct job *job, int number)
{
    if (job->plan.direct && job->child > 0) {
        kill(job->child, number);
    } else if (!job->plan.direct) {
        process_tree_signal(&job->tree, number);
    }
}

/* Like a terminal: to the group, which exists as long as its first process. */
static void forward(struct job *job, int number)
{
    if (!job->plan.direct && job->child > 0) {
        kill(-job->tree.group, number);
    } else {
        signal_all(job, number);
    }
}

static void start_killing(struct job *job)
{
    job->killing = true;
    signal_all(job, SIGKILL);
}

static void on_grace_end(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    start_killing(arg);
}

void job_end(struct job *job)
{
    if (!job->running || job->ending) {
        return;
    }
    job->ending = true;
    job->kill_at_ms = system_now_ms() + (job->stopped ? 0 : job->plan.grace_ms);
    order_watchdog(job);
    if (job->stopped) {
        start_killing(job);
        return;
    }
    signal_all(job, SIGTERM);
    arm(job->grace_timer, job->plan.grace_ms);
}

/* ---- stops ---- */

static bool wants_terminal(int number)
{
    return number == SIGTTIN || number == SIGTTOU;
}

static void continued(struct job *job)
{
    job->stopped = false;
    process_tree_resume_outsiders(&job->tree);
    order_watchdog(job);
}

static void resume(struct job *job, bool with_terminal)
{
    continued(job);
    if (with_terminal) {
        terminal_give(&job->terminal, job->tree.group);
    }
    forward(job, SIGCONT);
    if (job->stop_asked) { /* SIGCONT discards one that is pending */
        forward(job, SIGTSTP);
    }
}

/* The job wants the terminal, and no shell is there to give it. */
static void hang_up(struct job *job)
{
    if (job->hung_up) {
        job_end(job);
        return;
    }
    job->hung_up = true;
    forward(job, SIGHUP);
    resume(job, false);
}

/* SIGTSTP in place of SIGSTOP, which would stop this process even without a shell to
 * continue it. */
static void stop_with_job(struct job *job, int number)
{
    bool had_terminal = terminal_take(&job->terminal);
    bool was_stopped;

    job->stopped = true;
    job->stop_asked = false;
    process_tree_stop_outsiders(&job->tree);
    order_watchdog(job);
    was_stopped = signals_stop(number == SIGSTOP ? SIGTSTP : number, had_terminal);
    if (job->plan.left_ms(job->plan.arg) <= 0) {
        job_end(job);
    } else if (was_stopped || terminal_is_ours(&job->terminal)) {
        resume(job, had_terminal || wants_terminal(number));
    } else if (wants_terminal(number)) {
        hang_up(job);
    } else if (number != SIGSTOP) { /* a SIGSTOP is for its sender to end */
        resume(job, had_terminal);
    }
}

static void on_stopped(struct job *job, int number)
{
    bool follow = number != SIGSTOP || job->terminal.given ||
                  terminal_is_ours(&job->terminal);

    job->stopped = true;
    if (wants_terminal(number) && terminal_is_ours(&job->terminal)) {
        resume(job, true);
    } else if (follow) {
        stop_with_job(job, number);
    } else {
        order_watchdog(job);
    }
}

/* ---- changes of its processes ---- */

/* Returns the exit code of a process that has ended. */
static int code_of(int status)
{
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Returns true if a key ended it: the signal would have reached lockwire's group as well,
 * if that group had had the terminal. */
static bool interrupted(int status)
{
    return WIFSIGNALED(status) &&
           (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT);
}

static void on_child(struct job *job, int status)
{
    bool had_terminal = terminal_take(&job->terminal);

    job->child = 0;
    job->leftovers_since_ms = system_now_ms();
    job->code = code_of(status);
    job->stopped = false;
    if (had_terminal && interrupted(status)) {
        job->interrupted = WTERMSIG(status) == SIGINT;
        kill(0, WTERMSIG(status));
    }
    if (had_terminal && (job->ending || WIFSIGNALED(status))) {
        terminal_restore(&job->terminal);
    }
    order_watchdog(job);
}

static void on_watchdog_end(struct job *job)
{
    watchdog_reaped(&job->watchdog);
    if (!restart_watchdog(job)) {
        report(
            "cannot restart lw-keeper; retrying, and until then %s goes on if lockwire "
            "is killed: %s",
            job->plan.argv[0], strerror(errno));
    }
}

/* A child of this process: the command, or one that was adopted. */
static void on_process(struct job *job, pid_t pid, int status)
{
    bool is_job = pid == job->child || job->child == 0;

    if (WIFSTOPPED(status) && is_job) {
        on_stopped(job, WSTOPSIG(status));
    } else if (WIFCONTINUED(status) && is_job) {
        continued(job);
    } else if (pid == job->child && !WIFSTOPPED(status) && !WIFCONTINUED(status)) {
        on_child(job, status);
    }
}

static void on_change(struct job *job, pid_t pid, int status)
{
    bool ended = WIFEXITED(status) || WIFSIGNALED(status);

    if (pid == job->watchdog.pid) {
        if (ended) {
            on_watchdog_end(job);
        }
    } else if (job->plan.server != NULL && pid == job->plan.server->pid) {
        if (ended) {
            embedded_reaped(job->plan.server, pid);
        }
    } else if (job->plan.on_other_child == NULL ||
               !job->plan.on_other_child(pid, status, job->plan.arg)) {
        on_process(job, pid, status);
    }
}

/* Handles one change of a child. Returns true if there was one. */
static bool reap_one(struct job *job)
{
    int how = job->plan.direct ? WNOHANG : WNOHANG | WUNTRACED | WCONTINUED, status;
    pid_t pid = 0;

    if (!job->plan.direct) {
        pid = waitpid(-1, &status, how);
    } else if (job->child > 0) {
        pid = waitpid(job->child, &status, how);
    }
    if (pid > 0) {
        on_change(job, pid, status);
    }
    return pid > 0;
}

/* Returns the number of changes; with REAPS there may be more. */
static int reap_some(struct job *job)
{
    int reaped = 0;

    while (reaped < REAPS && reap_one(job)) {
        reaped++;
    }
    return reaped;
}

/* ---- its end ---- */

static void finish(struct job *job)
{
    job->running = false;
    event_del(job->grace_timer);
    event_del(job->look_timer);
    event_del(job->beat_timer);
    watchdog_stop(&job->watchdog);
    job->plan.on_end(job->code, job->plan.arg);
}

/* An update that finds no process is right if no process ended during it, since each of
 * the command's processes descends from a child of this process. Processes that did end
 * are reaped before the next update. */
static bool is_anything_left(struct job *job)
{
    if (job->plan.direct) {
        return false;
    }
    for (int looks = 0; looks < LOOKS; looks++) {
        if (job->killing) {
            signal_all(job, SIGKILL);
        }
        if (process_tree_update(&job->tree) > 0) {
            return true;
        }
        if (reap_some(job) == 0) {
            return false;
        }
    }
    return true;
}

static void report_leftovers(struct job *job)
{
    if (job->leftovers_since_ms == 0 ||
        system_now_ms() < job->leftovers_since_ms + REPORT_AFTER_MS) {
        return;
    }
    report(
        "%s has exited, but '%s' stays locked until the processes it started have exited",
        job->plan.argv[0], job->plan.name);
    job->leftovers_since_ms = 0;
}

static void reap(struct job *job)
{
    int reaped = reap_some(job);

    if (job->child == 0 && !is_anything_left(job)) {
        finish(job);
        return;
    }
    if (job->child == 0) {
        report_leftovers(job);
    }
    if (job->child == 0 || reaped == REAPS) {
        arm(job->look_timer, reaped == REAPS ? 0 : LOOK_MS);
    }
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    reap(arg);
}

static void on_stop_signal(struct job *job)
{
    job->stop_asked = true;
    forward(job, SIGTSTP);
    if (job->child == 0 || job->stopped) {
        stop_with_job(job, SIGTSTP); /* no stop of the job will follow */
    }
}

void job_signal(struct job *job, int number, bool from_terminal)
{
    if (!job->running) {
        return;
    }
    if (number == SIGINT && from_terminal) {
        job->interrupted = true;
    }
    if (number == SIGCHLD) {
        /* one look for all pending SIGCHLDs, not delayed by further ones */
        event_active(job->look_timer, EV_TIMEOUT, 0);
    } else if (number == SIGTSTP || number == SIGTTIN) {
        reap(job); /* a process that has ended cannot stop */
        if (job->running) {
            on_stop_signal(job);
        }
    } else if (!job->plan.direct || !from_terminal) {
        forward(job, number);
    }
}

/* ---- the command's process, before exec ---- */

/* Sets the variable to the fencing token, or removes it if that is 0. */
static bool set_fence(const char *variable, uint64_t fence)
{
    char number[32];

    (void)snprintf(number, sizeof(number), "%" PRIu64, fence);
    return (fence > 0 ? setenv(variable, number, 1) : unsetenv(variable)) == 0;
}

static bool set_environment(const struct job_plan *plan)
{
    char variable[32];

    for (int i = 0; i < JOB_MORE_FENCES; i++) {
        (void)snprintf(variable, sizeof(variable), "LOCKWIRE_FENCE_%d", i + 2);
        if (!set_fence(variable, plan->more_fences[i])) {
            return false;
        }
    }
    return set_fence("LOCKWIRE_FENCE", plan->fence) &&
           setenv("LOCKWIRE_NAME", plan->name, 1) == 0 &&
           (plan->token != NULL && *plan->token ? setenv("LOCKWIRE_TOKEN", plan->token, 1)
                                                : unsetenv("LOCKWIRE_TOKEN")) == 0 &&
           (plan->url == NULL || setenv("LOCKWIRE_URL", plan->url, 1) == 0);
}

/* The watchdog learns of the group before the command can do anything. */
static void enter_group(const struct job *job, struct watchdog_order order)
{
    setpgid(0, 0);
    if (job->terminal.given) {
        tcsetpgrp(job->terminal.fd, getpid());
    }
    order.group = getpid();
    watchdog_send(&job->watchdog, &order);
}

static _Noreturn void execute(char *const argv[])
{
    int error;

    signals_restore();
    execvp(argv[0], argv);
    error = errno;
    (void)fprintf(stderr, "lockwire: cannot execute %s: %s\n", argv[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

/* The lock of a parent that has ended is not renewed, so that the command must not run. A
 * group is the watchdog's to end, as a whole. */
static _Noreturn void become_command(const struct job *job, struct watchdog_order order,
                                     pid_t parent)
{
    if (job->plan.direct) {
        system_die_with_parent(SIGTERM);
    } else {
        enter_group(job, order);
    }
    if (getppid() != parent || !set_environment(&job->plan)) {
        _exit(EXIT_SYSTEM);
    }
    execute(job->plan.argv);
}

/* Returns true, or false with errno set. Signals are blocked across the fork, so that a
 * signal that arrives before exec meets the command, not the handlers of this process. A
 * command that cannot be executed ends as with a shell: code 126 or 127, and a message.
 */
static bool start_command(struct job *job)
{
    struct watchdog_order order = current_order(job);
    sigset_t all, before;
    pid_t parent = getpid(), pid;
    int error;

    (void)fflush(NULL);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        become_command(job, order, parent);
    }
    error = errno;
    if (pid > 0 && !job->plan.direct) {
        setpgid(pid, pid); /* in both processes: either may be first */
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    job->child = pid;
    return pid > 0;
}

/* ---- its start ---- */

static bool start_group(struct job *job)
{
    terminal_open(&job->terminal);
    signals_enable_job_control();
    process_tree_begin(&job->tree);
    if (watchdog_start(&job->watchdog, &job->tree, job->plan.grace_ms) < 0) {
        return false;
    }
    job->terminal.given = terminal_is_ours_alone(&job->terminal);
    if (!start_command(job)) {
        job->terminal.given = false;
        return false;
    }
    job->tree.group = job->child;
    arm_beat(job);
    return true;
}

int job_start(struct job *job, struct event_base *base, const struct job_plan *plan)
{
    *job = (struct job){.plan = *plan, .terminal.fd = -1};
    job->grace_timer = event_new(base, -1, 0, on_grace_end, job);
    job->look_timer = event_new(base, -1, 0, on_look, job);
    job->beat_timer = event_new(base, -1, 0, on_beat, job);
    if (job->grace_timer == NULL || job->look_timer == NULL || job->beat_timer == NULL) {
        errno = ENOMEM;
        return -1;
    }
    job->running = plan->direct ? start_command(job) : start_group(job);
    return job->running ? 0 : -1;
}

void job_free(struct job *job)
{
    if (job->grace_timer == NULL) {
        return; /* job_start was not called, or failed at once */
    }
    event_free(job->grace_timer);
    if (job->look_timer != NULL) {
        event_free(job->look_timer);
    }
    if (job->beat_timer != NULL) {
        event_free(job->beat_timer);
    }
    watchdog_stop(&job->watchdog);
    process_tree_free(&job->tree);
    terminal_close(&job->terminal);
}
