/* SPDX-License-Identifier: MIT */
/* hold: holds a lock until the standard input ends, for a script. It prints the fencing
 * token in `held`, and releases at the end of the input, on a signal, or when it is asked
 * to. A loss ends it at once. The session is lock_session.c's. */
#include "lock_session_private.h"
#include "options.h"
#include "report.h"
#include "subcommands.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_MS 500

struct hold {
    struct session session;
    int input;
    struct event *readable;
    struct event *retry; /* for a terminal in whose background this process is */
};

/* Returns true for a pipe, a socket or a terminal. The end of any other standard input (a
 * file, /dev/null, a closed descriptor) comes at once. */
static bool can_wait_for_input(void)
{
    struct stat about;

    return fstat(STDIN_FILENO, &about) == 0 &&
           (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) ||
            isatty(STDIN_FILENO) == 1);
}

static void on_input_end(struct hold *hold)
{
    struct session *session = &hold->session;

    if (session->stage == SESSION_HELD) {
        session_release(session, EXIT_SUCCESS);
    } else if (session->stage == SESSION_WAITING) {
        report("the standard input ended before '%s' was acquired",
               session->options->name);
        session_end(session, session->options->busy_code);
    }
}

/* Returns true if a read would stop this process. (A terminal that does not control this
 * session has no foreground group for it.) */
static bool is_in_background(int fd)
{
    pid_t group = isatty(fd) == 1 ? tcgetpgrp(fd) : -1;

    return group >= 0 && group != getpgrp();
}

static ssize_t discard_input(int fd)
{
    char bytes[4096];
    ssize_t length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    return length < 0 && errno == ENOTSOCK ? read(fd, bytes, sizeof(bytes)) : length;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct hold *hold = arg;
    ssize_t length;

    (void)what;
    if (is_in_background(fd)) {
        event_add(hold->retry, &(struct timeval){0, RETRY_MS * 1000L});
        return;
    }
    length = discard_input(fd);
    if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) {
        event_add(hold->readable, NULL);
    } else {
        on_input_end(hold); /* an error counts as the end */
    }
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    struct hold *hold = arg;

    (void)fd, (void)what;
    event_add(hold->readable, NULL);
}

/* Other processes may share the input, and read between poll and our read. So it is
 * opened again, as non-blocking, which does not affect them; a socket, which cannot be
 * opened, is read with MSG_DONTWAIT. */
static int hold_on_begin(struct session *session)
{
    struct hold *hold = session->arg;

    hold->input = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (hold->input < 0) {
        hold->input = STDIN_FILENO;
    }
    hold->readable = event_new(session->base, hold->input, EV_READ, on_readable, hold);
    hold->retry = event_new(session->base, -1, 0, on_retry, hold);
    if (hold->readable != NULL && hold->retry != NULL &&
        event_add(hold->readable, NULL) == 0) {
        return 0;
    }
    report("cannot wait for the end of the standard input");
    return -1;
}

static void close_input(struct hold *hold)
{
    if (hold->readable != NULL) {
        event_free(hold->readable);
    }
    if (hold->retry != NULL) {
        event_free(hold->retry);
    }
    if (hold->input > STDIN_FILENO) {
        close(hold->input);
    }
}

static void hold_on_held(struct session *session)
{
    if (session->fence > 0) {
        (void)printf("%" PRIu64 "\n", session->fence);
    } else {
        (void)puts("-");
    }
    if (!report_flush()) {
        session_release(session, EXIT_SYSTEM);
    }
}

static void hold_on_lost(struct session *session)
{
    session_abandon(session, session->lost_code);
}

static void hold_on_asked(struct session *session, const char *name)
{
    report("asked to release '%s'", name);
    session_release(session, EXIT_SUCCESS);
}

static void hold_on_signal(struct session *session, int number, bool from_terminal)
{
    (void)from_terminal;
    if (number != SIGCHLD) {
        session_release(session, EXIT_SUCCESS);
    }
}

int hold(const struct options *options)
{
    static const struct session_events events = {
        hold_on_begin, hold_on_held, hold_on_lost, hold_on_asked, hold_on_signal};
    struct hold hold = {.session = {.options = options, .events = &events},
                        .input = STDIN_FILENO};
    int code;

    if (!can_wait_for_input()) {
        report("hold: the standard input must be a pipe, a socket or a terminal; a file, "
               "/dev/null or a closed input ends at once");
        return EXIT_USAGE;
    }
    hold.session.arg = &hold;
    code = session_run(&hold.session, "lockwire-hold");
    close_input(&hold);
    session_close(&hold.session);
    return hold.session.interrupted && code == EXIT_SIGNAL + SIGINT ? -SIGINT : code;
}
