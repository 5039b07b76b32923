/* SPDX-License-Identifier: MIT */
/* The texts of the library's results, its version, and the log. A log entry may quote
 * foreign text, so each entry is escaped as a whole before the host's function gets it.
 */
#include "base/log.h"

#include "base/escape.h"
#include "lockwire.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_US ((int64_t)60 * 1000000)
#define ROOM_FOR_COUNT 32

const char *lw_strerror(int error)
{
    switch (error) {
#define LW_ERROR_CASE(name, value, text)                                                 \
    case value:                                                                          \
        return text;
        LW_ERROR_MAP(LW_ERROR_CASE)
#undef LW_ERROR_CASE
    default:
        return "unknown error";
    }
}

const char *lw_version(void)
{
    return LW_VERSION;
}

_Static_assert(LW__TEXT_MAX == LW_WHY_SIZE, "the header promises one size for all texts");

static void deliver(const struct lw__log *log, int level, const char *message)
{
    char escaped[LW__TEXT_MAX];

    lw__escape(message, escaped, sizeof(escaped));
    log->fn(level, escaped, log->arg);
}

static bool is_wanted(const struct lw__log *log, int level)
{
    return log->fn != NULL && level <= log->level;
}

/* Writes a message, at most `size` bytes with its NUL. */
static void compose(const struct lw__log *log, char *ret, size_t size, const char *format,
                    va_list args)
{
    size_t length = 0;

    if (log->about != NULL) {
        (void)snprintf(ret, size, "%s: ", log->about);
        length = strlen(ret);
    }
    (void)vsnprintf(ret + length, size - length, format, args);
}

void lw__log(const struct lw__log *log, int level, const char *format, ...)
{
    char message[LW__TEXT_MAX];
    va_list args;

    if (!is_wanted(log, level)) {
        return;
    }
    va_start(args, format);
    compose(log, message, sizeof(message), format, args);
    va_end(args);
    deliver(log, level, message);
}

void lw__log_once(const struct lw__log *log, bool *logged, int level, const char *format,
                  ...)
{
    char message[LW__TEXT_MAX];
    va_list args;

    if (*logged) {
        return;
    }
    *logged = true;
    va_start(args, format);
    compose(log, message, sizeof(message), format, args);
    va_end(args);
    if (is_wanted(log, level)) {
        deliver(log, level, message);
    }
}

/* FNV-1a. A collision only suppresses one log entry. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037U;

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 1099511628211U;
    }
    return hash;
}

/* Returns the entry of this text, or else the one that occurred longest ago. */
static struct lw__cause *find(struct lw__causes *causes, uint64_t hash)
{
    struct lw__cause *oldest = &causes->list[0];

    for (size_t i = 0; i < LW__CAUSES; i++) {
        struct lw__cause *cause = &causes->list[i];

        if (cause->hash == hash) {
            return cause;
        }
        if (cause->last_us < oldest->last_us) {
            oldest = cause;
        }
    }
    return oldest;
}

/* Returns true if the failure is to be logged now, with `times` repetitions since the
 * last time. */
static bool is_due(struct lw__causes *causes, const char *text, int64_t now_us,
                   unsigned *times)
{
    uint64_t hash = hash_of(text);
    struct lw__cause *cause = find(causes, hash);
    bool fresh = cause->hash != hash || now_us - cause->last_us >= MINUTE_US;

    *times = fresh ? 0 : cause->times;
    cause->hash = hash;
    cause->last_us = now_us;
    if (!fresh && now_us - cause->logged_us < MINUTE_US) {
        cause->times++;
        return false;
    }
    cause->logged_us = now_us;
    cause->times = 0;
    return true;
}

void lw__log_cause(const struct lw__log *log, int64_t now_us, int level,
                   const char *format, ...)
{
    char message[LW__TEXT_MAX + ROOM_FOR_COUNT];
    unsigned times = 0;
    size_t length;
    va_list args;

    if (!is_wanted(log, level)) {
        return;
    }
    va_start(args, format);
    compose(log, message, LW__TEXT_MAX - ROOM_FOR_COUNT, format, args);
    va_end(args);
    if (log->causes != NULL && !is_due(log->causes, message, now_us, &times)) {
        return;
    }
    if (times > 0) {
        length = strlen(message);
        (void)snprintf(message + length, sizeof(message) - length,
                       " (repeated %u times in the last minute)", times + 1);
    }
    deliver(log, level, message);
}
