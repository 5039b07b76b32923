/* SPDX-License-Identifier: MIT */
/* See why.h. */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

int why_set(struct why why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (why.size > 0) {
        (void)vsnprintf(why.text, why.size, format, args);
    }
    va_end(args);
    return -1;
}
