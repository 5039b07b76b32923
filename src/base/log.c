/* SPDX-License-Identifier: MIT */
/* Messages for the operator, to the host's function alone. What a message quotes may be
 * anybody's words: so all of it is told as those are (told.h). What is too long is
 * cut. */
#include "base/log.h"

#include "base/told.h"

#include <stdarg.h>
#include <stdio.h>

void lw__log(const struct lw__log *log, int level, const char *format, ...)
{
    char message[LW__TOLD], told[LW__TOLD];
    va_list args;

    if (log->fn == NULL || level > log->level) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    lw__told(message, told, sizeof(told));
    log->fn(level, told, log->arg);
}
