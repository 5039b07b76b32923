/* SPDX-License-Identifier: MIT
 *
 * The trace of a run. A run prints nothing while it goes well, unless a trace is wanted;
 * at a violation it prints the seed and the reason. Independent of locks.
 *
 * Usual course: trace() is called at everything that happens. trace_mode decides where a
 * line goes: nowhere, to the output, into the last few lines, or into a sum over all
 * lines.
 */
#include "world.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHOWN 240 /* bytes of a packet */
#define LINE 512
#define LAST 60

enum trace_mode trace_mode;
uint64_t trace_sum;
static char lines[LAST][LINE];
static unsigned line_count;

static size_t stamp(char *line)
{
    double ms = (double)world.now_us / 1000;

    if (world.current != NULL) {
        return (size_t)snprintf(line, LINE, "%12.3f h%d ", ms, world.current->id);
    }
    return (size_t)snprintf(line, LINE, "%12.3f -- ", ms);
}

static void tell(const char *line)
{
    if (trace_mode == TRACE_ALL) {
        (void)puts(line);
    } else if (trace_mode == TRACE_LAST) {
        memcpy(lines[line_count++ % LAST], line, strlen(line) + 1);
    }
    for (; trace_mode == TRACE_SUM && *line; line++) { /* FNV-1a */
        trace_sum = (trace_sum ^ (unsigned char)*line) * UINT64_C(1099511628211);
    }
}

void trace(const char *format, ...)
{
    char line[LINE];
    size_t len;
    va_list args;

    if (trace_mode == TRACE_OFF) {
        return;
    }
    len = stamp(line);
    va_start(args, format);
    (void)vsnprintf(line + len, LINE - len, format, args);
    va_end(args);
    tell(line);
}

void trace_bytes(const char *what, int id, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    char text[SHOWN + 1];
    size_t used = 0;

    if (trace_mode == TRACE_OFF) {
        return;
    }
    for (size_t i = 0; i < len && i < SHOWN; i++) {
        if (bytes[i] != '\r') {
            text[used++] = (char)(isprint(bytes[i])  ? bytes[i]
                                  : bytes[i] == '\n' ? ' '
                                                     : '?');
        }
    }
    text[used] = '\0';
    if (len > SHOWN) {
        trace("%s%d: %s ... (%zu bytes)", what, id, text, len);
    } else {
        trace("%s%d: %s", what, id, text);
    }
}

static void tell_last(void)
{
    unsigned i = line_count > LAST ? line_count - LAST : 0;

    for (; i < line_count; i++) {
        (void)fprintf(stderr, "    %s\n", lines[i % LAST]);
    }
    (void)fprintf(stderr, "    all of it: sim --seed %llu%s%s\n",
                  (unsigned long long)world.seed, *plan_option ? " " : "", plan_option);
}

void violation(const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    if (trace_mode == TRACE_LAST) {
        tell_last(); /* the run before has printed the reason */
        _exit(1);
    }
    (void)fprintf(stderr, "seed %llu at %.3f ms: ", (unsigned long long)world.seed,
                  (double)world.now_us / 1000);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    _exit(1);
}
