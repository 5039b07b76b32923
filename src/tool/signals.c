/* SPDX-License-Identifier: MIT */
/* See signals.h. Handlers belong to the whole process, hence the static state. A handler
 * writes a record to a pipe, and the loop reads it. */
#include "signals.h"

#include "report.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const int caught[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
#define CAUGHT (sizeof(caught) / sizeof(*caught))
static const int job_signals[] = {SIGTSTP, SIGTTIN, SIGTTOU};
#define JOB_SIGNALS (sizeof(job_signals) / sizeof(*job_signals))

struct record {
    int number;
    bool from_terminal;
};

static struct {
    int pipe[2];
    struct sigaction saved[CAUGHT], pipe_saved, job_saved[JOB_SIGNALS];
    sigset_t saved_mask;
    bool job_control;
    volatile sig_atomic_t continued;
    struct event *readable;
    signals_fn *fn;
    void *arg;
} state = {.pipe = {-1, -1}};

static void on_signal(int number, siginfo_t *info, void *context)
{
    struct record record = {number, false};
    int error = errno;

    (void)context, (void)info;
#ifdef SI_KERNEL
    record.from_terminal = info->si_code == SI_KERNEL &&
                           (number == SIGINT || number == SIGQUIT);
#endif
    /* a full pipe has hundreds of records: one more can be dropped */
    ssize_t ignored = write(state.pipe[1], &record, sizeof(record));
    (void)ignored;
    errno = error;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct record record;

    (void)what, (void)arg;
    while (state.fn != NULL &&
           read(fd, &record, sizeof(record)) == (ssize_t)sizeof(record)) {
        state.fn(record.number, record.from_terminal, state.arg);
    }
}

static struct sigaction recording(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};

    action.sa_sigaction = on_signal;
    sigfillset(&action.sa_mask);
    return action;
}

/* The parent may have blocked signals that are needed. */
static void unblock(void)
{
    sigset_t needed;

    sigemptyset(&needed);
    for (size_t i = 0; i < CAUGHT; i++) {
        sigaddset(&needed, caught[i]);
    }
    for (size_t i = 0; i < JOB_SIGNALS; i++) {
        sigaddset(&needed, job_signals[i]);
    }
    sigaddset(&needed, SIGCONT);
    sigprocmask(SIG_UNBLOCK, &needed, &state.saved_mask);
}

int signals_catch(void)
{
    struct sigaction action = recording();
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (pipe(state.pipe) < 0) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        fcntl(state.pipe[i], F_SETFD, FD_CLOEXEC);
        fcntl(state.pipe[i], F_SETFL, O_NONBLOCK);
    }
    for (size_t i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], NULL, &state.saved[i]);
        if (state.saved[i].sa_handler != SIG_IGN || caught[i] == SIGCHLD) {
            sigaction(caught[i], &action, NULL);
        }
    }
    unblock();
    return sigaction(SIGPIPE, &ignore, &state.pipe_saved);
}

int signals_watch(struct event_base *base, signals_fn *fn, void *arg)
{
    state.fn = fn;
    state.arg = arg;
    state.readable =
        event_new(base, state.pipe[0], EV_READ | EV_PERSIST, on_readable, NULL);
    return state.readable != NULL ? event_add(state.readable, NULL) : -1;
}

void signals_unwatch(void)
{
    if (state.readable != NULL) {
        event_free(state.readable);
    }
    state.readable = NULL;
    state.fn = NULL;
}

void signals_enable_job_control(void)
{
    struct sigaction action = recording();
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    if (state.job_control) {
        return;
    }
    for (size_t i = 0; i < JOB_SIGNALS; i++) {
        sigaction(job_signals[i], NULL, &state.job_saved[i]);
        if (state.job_saved[i].sa_handler != SIG_IGN) {
            sigaction(job_signals[i], job_signals[i] == SIGTTOU ? &ignore : &action,
                      NULL);
        }
    }
    state.job_control = true;
}

static void on_continued(int number)
{
    (void)number;
    state.continued = 1;
}

bool signals_stop(int number, bool whole_group)
{
    struct sigaction stop = {.sa_handler = SIG_DFL}, saved;
    struct sigaction watch = {.sa_handler = on_continued}, continue_before;

    state.continued = 0;
    sigaction(SIGCONT, &watch, &continue_before);
    sigaction(number, &stop, &saved);
    kill(whole_group ? 0 : getpid(), number); /* returns when continued */
    sigaction(number, &saved, NULL);
    sigaction(SIGCONT, &continue_before, NULL);
    return state.continued;
}

_Noreturn void signals_terminate_by(int number)
{
    struct sigaction end = {.sa_handler = SIG_DFL};

    sigaction(number, &end, NULL);
    (void)raise(number);
    _exit(EXIT_SIGNAL + number);
}

void signals_restore(void)
{
    for (size_t i = 0; state.job_control && i < JOB_SIGNALS; i++) {
        sigaction(job_signals[i], &state.job_saved[i], NULL);
    }
    for (size_t i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], &state.saved[i], NULL);
    }
    sigaction(SIGPIPE, &state.pipe_saved, NULL);
    sigprocmask(SIG_SETMASK, &state.saved_mask, NULL);
}
