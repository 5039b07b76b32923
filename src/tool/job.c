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

    for (int i = 0; i < JOB_FENCES; i++) {
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
        _exit(EXIT_SYSTEM);
    }
}

static void enter_group(const struct child *child)
{
    struct watchdog_order order = child->order;

    setpgid(0, 0);
    if (child->terminal >= 0) {
        tcsetpgrp(child->terminal, getpid());
    }
    order.group = getpid();
    watchdog_send(child->watchdog, &order);
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

/* Starts the command. Returns its pid, or -1 with errno set. A command that cannot be
 * executed ends as with a shell, with a message: code 126, or 127 if it does not exist.
 */
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
            _exit(EXIT_SYSTEM);
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
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
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

/* As a terminal would: to the group, which is there as long as its first process is. */
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
    if (job->stop_asked) { /* which that has wiped out, if it was on its way */
        forward(job, SIGTSTP);
    }
}

/* It wants the terminal, and nobody is there who could ever give it. */
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

/* SIGSTOP would stop this process for ever where no shell is. */
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
    } else if (number != SIGSTOP) { /* else whoever stopped it continues it */
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

/* ---- what happens to its processes ---- */

/* By a key, which would have reached all, had lockwire's group had the terminal. */
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
    job->code = child_code(status);
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
        report("cannot start another keeper: %s", strerror(errno));
    }
}

/* Of those that the command has left behind only what this process has adopted. */
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
    } else {
        on_process(job, pid, status);
    }
}

/* One change of a child of this process. Was there any? */
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

/* How many changes there were; REAPS: there may be more. */
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

/* A look that finds nobody is right if nobody ended during it: each of the command's
 * processes has one above it that is a child of this process. All who did are reaped
 * before the next look, which would read of each of them once more. */
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
        system_now_ms() < job->leftovers_since_ms + SAY_AFTER_MS) {
        return;
    }
    report("%s has ended, but '%s' is held until the processes that it left behind end",
           job->plan.child.argv[0], job->plan.child.name);
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
        stop_with_job(job, SIGTSTP); /* no stop that would tell */
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
        /* one look for all that came; those that come meanwhile do not put it off */
        event_active(job->look_timer, EV_TIMEOUT, 0);
    } else if (number == SIGTSTP || number == SIGTTIN) {
        reap(job); /* who ended before it cannot stop */
        if (job->running) {
            on_stop_signal(job);
        }
    } else if (!job->plan.direct || !from_terminal) {
        forward(job, number);
    }
}

/* ---- its beginning ---- */

static int start_job(struct job *job)
{
    struct child *child = &job->plan.child;

    terminal_open(&job->terminal);
    signals_enable_job_control();
    process_tree_begin(&job->tree);
    if (watchdog_start(&job->watchdog, &job->tree, job->plan.grace_ms) < 0) {
        return -1;
    }
    child->group = true;
    child->watchdog = &job->watchdog;
    child->order = current_order(job);
    if (terminal_is_ours_alone(&job->terminal)) {
        child->terminal = job->terminal.fd;
    }
    job->child = child_start(child);
    if (job->child < 0) {
        return -1;
    }
    job->terminal.given = child->terminal >= 0;
    job->tree.group = job->child;
    arm_beat(job);
    return 0;
}

int job_start(struct job *job, struct event_base *base, const struct job_plan *plan)
{
    *job = (struct job){.plan = *plan, .terminal.fd = -1};
    job->plan.child.terminal = -1;
    job->grace_timer = event_new(base, -1, 0, on_grace_end, job);
    job->look_timer = event_new(base, -1, 0, on_look, job);
    job->beat_timer = event_new(base, -1, 0, on_beat, job);
    if (job->grace_timer == NULL || job->look_timer == NULL || job->beat_timer == NULL) {
        errno = ENOMEM;
        return -1;
    }
    if (plan->direct) {
        job->child = child_start(&job->plan.child);
    } else if (start_job(job) < 0) {
        return -1;
    }
    job->running = job->child > 0;
    return job->running ? 0 : -1;
}

void job_free(struct job *job)
{
    if (job->grace_timer == NULL) {
        return; /* job_start had no more than this */
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
