/* SPDX-License-Identifier: MIT */
/* See duration.h. Not strtod, which accepts hexadecimal, "inf" and the locale's decimal
 * point. */
#include "base/duration.h"

#include <stdio.h>
#include <string.h>

#define MOST_MS ((int64_t)1 << 52) /* 142,000 years; the arithmetic stays exact */
#define MOST_DECIMALS 9

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

static int64_t unit_ms(const char *name)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(units[i].name, name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Reads digits as a number, limited to `most`. Returns their end. */
static const char *read_digits(const char *at, int64_t most, int64_t *number)
{
    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        *number = *number > most / 10 ? most : *number * 10 + (*at - '0');
    }
    return at;
}

static int refuse(char *why, size_t size, const char *text, const char *at,
                  const char *expected)
{
    (void)snprintf(why, size, "'%s', at character %d: %s", text, (int)(at - text) + 1,
                   expected);
    return -1;
}

int lw__duration_parse(const char *text, int64_t *ms, char *why, size_t why_size)
{
    int64_t whole, decimals = 0, scale = 1, unit;
    const char *at = read_digits(text, MOST_MS, &whole), *start;

    if (at == text) {
        return refuse(why, why_size, text, at,
                      "expected a time such as 500ms, 30s, 5m or 1.5h");
    }
    if (*at == '.') {
        start = ++at;
        at = read_digits(at, MOST_MS, &decimals);
        if (at == start || at - start > MOST_DECIMALS) {
            return refuse(why, why_size, text, start, "expected 1 to 9 decimals");
        }
        for (; start < at; start++) {
            scale *= 10;
        }
    }
    unit = unit_ms(at);
    if (unit == 0) {
        return refuse(why, why_size, text, at, "expected ms, s, m or h as the unit");
    }
    if (whole >= MOST_MS / unit) {
        return refuse(why, why_size, text, text, "the time is too long");
    }
    *ms = whole * unit + (decimals * unit + scale - 1) / scale;
    return 0;
}
