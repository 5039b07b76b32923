/* SPDX-License-Identifier: MIT */
/* See say.h. */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("lockwire: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
}
