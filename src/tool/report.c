/* SPDX-License-Identifier: MIT */
/* See report.h. Whether a transient line is displayed is static: there is one standard
 * error output. */
#include "report.h"

#include "lockwire.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRANSIENT_MAX 4096
#define WRITE_LIMIT_MS 200

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

void report(const char *format, ...)
{
    static const char begin[] = "lockwire: ";
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[PIPE_BUF] = "lockwire: "; /* at most this is written as a whole */
    size_t length;
    va_list args;

    report_transient("");
    va_start(args, format);
    (void)vsnprintf(text + sizeof(begin) - 1, sizeof(text) - sizeof(begin), format, args);
    va_end(args);
    length = strlen(text);
    text[length++] = '\n';
    if (poll(&out, 1, WRITE_LIMIT_MS) == 1) {
        transient_displayed = write(STDERR_FILENO, text, length) < 0 &&
                              transient_displayed;
    }
}

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
