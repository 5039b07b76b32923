/* SPDX-License-Identifier: MIT */
/*
 * What a single option's text means, and within which bounds. Must not know other
 * options, but that two modes exclude each other.
 *
 * Happy path: the text is a time, a number; the field is set. A failure says the option,
 * the text and what was expected.
 */
#include "options_inside.h"

#include "codes.h"
#include "duration.h"
#include "usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest lease has room for it. */
#define MAX_GRACE_MS (INT32_MAX / 2 - 2 * KILL_MS)
#define MIN_INTERVAL_MS 10

int options_refuse(enum subcommand subcommand, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("lockwire: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
    usage_brief(stderr, subcommand);
    return STATUS_USAGE;
}

static int parse_time(const struct options *options, const char *option, const char *text,
                      int64_t *ms)
{
    char why[200];

    if (duration_parse(text, ms, why, sizeof(why)) < 0) {
        return options_refuse(options->subcommand, "%s %s", option, why);
    }
    return GO_ON;
}

/* A number and nothing else, at most `most`. */
static bool parse_number(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    *number = strtoul(text, &end, 10);
    return *end == '\0' && *number <= most;
}

int options_wait(const char *text, struct options *options)
{
    if (strcmp(text, "forever") != 0) {
        return parse_time(options, "--wait", text, &options->wait_ms);
    }
    options->wait_ms = -1;
    return GO_ON;
}

int options_lease(const char *text, struct options *options)
{
    int64_t lease = 0;
    int result = parse_time(options, "--lease", text, &lease);

    if (result != GO_ON) {
        return result;
    }
    if (lease < MIN_LEASE_MS || lease > INT32_MAX) {
        return options_refuse(options->subcommand,
                              "--lease '%s': must be between 100ms and 596h", text);
    }
    options->lease_ms = (uint32_t)lease;
    return GO_ON;
}

int options_grace(const char *text, struct options *options)
{
    int result = parse_time(options, "--grace", text, &options->grace_ms);

    if (result == GO_ON && options->grace_ms > MAX_GRACE_MS) {
        return options_refuse(options->subcommand, "--grace '%s': must be at most 298h",
                              text);
    }
    return result;
}

int options_max_hold(const char *text, struct options *options)
{
    int result = parse_time(options, "--max-hold", text, &options->max_hold_ms);

    if (result == GO_ON && options->max_hold_ms < MIN_LEASE_MS) {
        return options_refuse(options->subcommand,
                              "--max-hold '%s': must be at least 100ms", text);
    }
    return result;
}

int options_mode(enum lw_mode mode, struct options *options)
{
    if (options->mode != LW_MUTEX && options->mode != mode) {
        return options_refuse(options->subcommand,
                              "--exclusive, --shared and --redisson exclude each other");
    }
    options->mode = mode;
    return GO_ON;
}

int options_permits(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, INT32_MAX, &number) || number < 1) {
        return options_refuse(options->subcommand,
                              "--permits '%s': must be a number from 1 to 2147483647",
                              text);
    }
    options->permits = (uint32_t)number;
    return GO_ON;
}

int options_busy_code(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, UINT8_MAX, &number)) {
        return options_refuse(options->subcommand,
                              "--conflict-exit-code '%s': must be a number from 0 to 255",
                              text);
    }
    options->busy_code = (int)number;
    return GO_ON;
}

int options_and(const char *text, struct options *options)
{
    if (options->more_count == MORE_NAMES) {
        return options_refuse(options->subcommand,
                              "--and '%s': at most %d locks are acquired together", text,
                              MORE_NAMES + 1);
    }
    options->more_names[options->more_count++] = text;
    return GO_ON;
}

int options_interval(const char *text, struct options *options)
{
    int result = parse_time(options, "--interval", text, &options->interval_ms);

    if (result == GO_ON &&
        (options->interval_ms < MIN_INTERVAL_MS || options->interval_ms > INT32_MAX)) {
        return options_refuse(options->subcommand,
                              "--interval '%s': must be between 10ms and 596h", text);
    }
    return result;
}
