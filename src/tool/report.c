/* SPDX-License-Identifier: MIT */
/* See report.h. Whether a transient line is displayed, and which messages are kept, is
 * static: there is one standard error output. */
#include "report.h"

#include "lockwire.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRANSIENT_MAX 4096
#define WRITE_LIMIT_MS 200
#define KEPT_US 100000

static bool transient_displayed;

void report_transient(const char *line)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[TRANSIENT_MAX];
    int length = snprintf(text, sizeof(text), "\r%s\033[K", line);

    if ((!transient_displayed && !*line) || length >= TRANSIENT_MAX ||
        poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) {
        return;
    }
    transient_displayed = write(STDERR_FILENO, text, (size_t)length) > 0 && *line;
}

/* At most PIPE_BUF bytes are written as a whole. */
static void write_line(const char *message)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[PIPE_BUF];
    size_t length;

    report_transient("");
    (void)snprintf(text, sizeof(text) - 1, "lockwire: %s", message);
    length = strlen(text);
    text[length++] = '\n';
    if (poll(&out, 1, WRITE_LIMIT_MS) == 1) {
        transient_displayed = write(STDERR_FILENO, text, length) < 0 &&
                              transient_displayed;
    }
}

void report(const char *format, ...)
{
    char message[PIPE_BUF];
    va_list args;

    report_kept();
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    write_line(message);
}

/* ---- messages that may be repeated by the next report ---- */

static struct {
    char text[4][LW_WHY_SIZE];
    size_t count;
    bool is_due_soon; /* an event calls report_kept */
} kept;

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    report_kept();
}

void report_later(struct event_base *base, const char *message)
{
    if (kept.count == sizeof(kept.text) / sizeof(*kept.text)) {
        report_kept();
    }
    (void)snprintf(kept.text[kept.count++], LW_WHY_SIZE, "%s", message);
    if (!kept.is_due_soon) {
        kept.is_due_soon = event_base_once(base, -1, EV_TIMEOUT, on_due, NULL,
                                           &(struct timeval){0, KEPT_US}) == 0;
    }
}

void report_drop(const char *cause)
{
    size_t count = 0;

    for (size_t i = 0; *cause && i < kept.count; i++) {
        if (strstr(kept.text[i], cause) == NULL) {
            memmove(kept.text[count++], kept.text[i], LW_WHY_SIZE);
        }
    }
    kept.count = *cause ? count : kept.count;
}

void report_kept(void)
{
    for (size_t i = 0; i < kept.count; i++) {
        write_line(kept.text[i]);
    }
    kept.count = 0;
    kept.is_due_soon = false;
}

/* ---- failures ---- */

static const char *reason_of(int error, bool link_up)
{
    switch (error) {
    case LW_EREDIS:
        return link_up ? "refused by the server" : "the server rejected the connection";
    case LW_ECONN:
        return link_up ? "the server cannot process the request now"
                       : "no connection to the server";
    default:
        return lw_strerror(error);
    }
}

void report_failure(const char *action, const char *name, int error, bool link_up,
                    const char *why)
{
    const char *reason = reason_of(error, link_up), *colon = *why ? ": " : "";

    report_drop(why);
    if (name != NULL) {
        report("cannot %s '%s': %s%s%s", action, name, reason, colon, why);
    } else {
        report("cannot %s: %s%s%s", action, reason, colon, why);
    }
}

static bool no_output;

void report_no_output(void)
{
    no_output = true;
}

bool report_flush(void)
{
    if (no_output) {
        errno = EBADF;
    } else if (fflush(stdout) == 0 && !ferror(stdout)) {
        return true;
    }
    report("cannot write to the standard output: %s", strerror(errno));
    return false;
}

bool report_is_no_connection(const char *message)
{
    static const char begin[] = "no connection: ";

    return strncmp(message, begin, sizeof(begin) - 1) == 0;
}

static int code_of_cause(int cause, int otherwise)
{
    switch (cause) {
    case LW_ECONN:
        return EXIT_NO_SERVER;
    case LW_EREDIS:
        return EXIT_REFUSED;
    case LW_ESYSTEM:
    case LW_ENOMEM:
        return EXIT_SYSTEM;
    default:
        return otherwise;
    }
}

int exit_code_for(int status, int cause, int busy)
{
    switch (status) {
    case LW_EINVAL:
        return EXIT_USAGE;
    case LW_EBUSY:
    case LW_EDEADLOCK:
        return busy;
    case LW_ETIMEOUT: /* busy until the end, or never requested successfully */
        return code_of_cause(cause, busy);
    case LW_ELOST:
    case LW_ENOTHELD:
        return code_of_cause(cause == LW_EREDIS ? cause : LW_OK, EXIT_LOST);
    case LW_ECONN:
        return code_of_cause(cause, EXIT_NO_SERVER);
    case LW_EREDIS: /* or a cluster without the slot, a server that is loading */
        return code_of_cause(cause, EXIT_REFUSED);
    default:
        return EXIT_SYSTEM;
    }
}
