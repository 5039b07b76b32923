/* SPDX-License-Identifier: MIT */
/* Messages for the operator, to the host's function alone. What a message quotes may be
 * anybody's words: so all of it is told as those are (told.h). What is too long is
 * cut. */
#include "base/log.h"

#include "base/told.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_US ((int64_t)60 * 1000000)
#define ROOM_FOR_COUNT 32

static void deliver(const struct lw__log *log, int level, const char *message)
{
    char told[LW__TOLD];

    lw__told(message, told, sizeof(told));
    log->fn(level, told, log->arg);
}

static bool is_wanted(const struct lw__log *log, int level)
{
    return log->fn != NULL && level <= log->level;
}

void lw__log(const struct lw__log *log, int level, const char *format, ...)
{
    char message[LW__TOLD];
    va_list args;

    if (!is_wanted(log, level)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    deliver(log, level, message);
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

/* The entry of this text, or else the one that was not seen for the longest time. */
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

/* Returns true if it is to be logged now; `times` becomes how often it was not. */
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
    char message[LW__TOLD + ROOM_FOR_COUNT];
    unsigned times = 0;
    size_t length;
    va_list args;

    if (!is_wanted(log, level)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, LW__TOLD - ROOM_FOR_COUNT, format, args);
    va_end(args);
    if (log->causes != NULL && !is_due(log->causes, message, now_us, &times)) {
        return;
    }
    if (times > 0) {
        length = strlen(message);
        (void)snprintf(message + length, sizeof(message) - length,
                       " (%u times more in the last minute)", times + 1);
    }
    deliver(log, level, message);
}
