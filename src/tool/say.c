/* SPDX-License-Identifier: MIT */
/*
 * See say.h. There is one standard error output: hence the one static state here, whether
 * a line that is to go away stands on it.
 */
#include "say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define PASSING 4096

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

void say(const char *format, ...)
{
    va_list args;

    say_passing("");
    va_start(args, format);
    (void)fputs("lockwire: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
}
