/* SPDX-License-Identifier: MIT */
/*
 * Messages for the operator: filters by level, formats on the stack, hands them to the
 * host's function. Writes nowhere by itself.
 * Happy path: lw__log.
 */
#include "base.h"

#include <stdio.h>

void lw__log(const struct lw__log *log, int level, const char *format, ...)
{
    char message[512];
    va_list args;

    if (log->fn == NULL || level > log->level) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    log->fn(level, message, log->arg);
}
