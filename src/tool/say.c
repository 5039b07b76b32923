/* SPDX-License-Identifier: MIT */
/*
 * See say.h. There is one standard error output: hence the one static state here, whether
 * a line that is to go away stands on it.
 */
#include "say.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PASSING 4096
#define PATIENCE_MS 200

static bool passing;

void say_passing(const char *line)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[PASSING];
    int length = snprintf(text, sizeof(text), "\r%s\033[K", line);

    if ((!passing && !*line) || length >= PASSING || poll(&out, 1, 0) != 1 ||
        (out.revents & POLLOUT) == 0) {
        return;
    }
    passing = write(STDERR_FILENO, text, (size_t)length) > 0 && *line;
}

bool say_is_no_connection(const char *message)
{
    static const char begin[] = "no connection: ";

    return strncmp(message, begin, sizeof(begin) - 1) == 0;
}

void say(const char *format, ...)
{
    static const char begin[] = "lockwire: ";
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[PIPE_BUF] = "lockwire: "; /* so much is written at once, or nothing */
    size_t length;
    va_list args;

    say_passing("");
    va_start(args, format);
    (void)vsnprintf(text + sizeof(begin) - 1, sizeof(text) - sizeof(begin), format, args);
    va_end(args);
    length = strlen(text);
    text[length++] = '\n';
    if (poll(&out, 1, PATIENCE_MS) == 1) {
        passing = write(STDERR_FILENO, text, length) < 0 && passing;
    }
}
