/* SPDX-License-Identifier: MIT */
/* See say.h. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("lockwire: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
}
