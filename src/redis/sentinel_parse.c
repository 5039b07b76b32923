/* SPDX-License-Identifier: MIT */
/* What a sentinel may say: see sentinel_says.h. Must not know who said it, nor what is
 * made of it. Happy path: the fields that matter, each once and within its limits; all
 * others are skipped. */
#include "redis/sentinel_parse.h"

#include "base/escape.h"
#include "redis/reply.h"

#include <stdio.h>
#include <string.h>

#define EPOCH_MAX ((int64_t)1 << 62)  /* so that one more can be counted */
#define FOR_MS_MAX ((int64_t)1 << 53) /* so that what passes can be added */

/* Decimal digits alone; -1: not a number from `low` to `high`. */
static int64_t number(const char *text, size_t length, int64_t low, int64_t high)
{
    int64_t value = 0;

    if (length == 0 || length > 19) {
        return -1;
    }
    for (size_t i = 0; i < length; i++) {
        int digit = text[i] - '0';

        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10) {
            return -1;
        }
        value = value * 10 + digit;
    }
    return value >= low && value <= high ? value : -1;
}

static bool take_host(const char *text, size_t length, char ret[LW__HOST_SIZE])
{
    return length > 0 && lw__endpoint_read_host(text, length, ret);
}

static bool take_port(const char *text, size_t length, uint16_t *ret)
{
    int64_t port = number(text, length, 1, UINT16_MAX);

    *ret = (uint16_t)port;
    return port > 0;
}

/* The value of a field in an array of fields and values; NULL: there is none. */
static const char *field(const struct lw__reply *reply, const char *name, size_t *length)
{
    size_t count = lw__reply_count(reply);

    for (size_t i = 0; i + 1 < count; i += 2) {
        const struct lw__reply *value = lw__reply_at(reply, i + 1);

        if (strcmp(lw__reply_text(lw__reply_at(reply, i), NULL), name) == 0 &&
            lw__reply_type(value) == LW__REPLY_STRING) {
            return lw__reply_text(value, length);
        }
    }
    *length = 0;
    return NULL;
}

static bool take_place(const struct lw__reply *reply, struct lw__endpoint *ret,
                       const char **wrong)
{
    size_t length;
    const char *text = field(reply, "ip", &length);

    *wrong = "ip";
    if (text == NULL || !take_host(text, length, ret->host)) {
        return false;
    }
    *wrong = "port";
    text = field(reply, "port", &length);
    return text != NULL && take_port(text, length, &ret->port);
}

/* Of words with commas between them. */
static bool has_flag(const char *flags, const char *flag)
{
    size_t length = strlen(flag);

    for (const char *at = flags; *at != '\0'; at += *at == ',') {
        size_t word = strcspn(at, ",");

        if (word == length && strncmp(at, flag, length) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

static bool is_down(const char *flags)
{
    return has_flag(flags, "s_down") || has_flag(flags, "o_down");
}

/* The answer is of use without. Of a server that calls itself a replica meanwhile it is
 * how long it has been that. */
static int64_t take_time(const struct lw__reply *reply)
{
    size_t length;
    const char *role = field(reply, "role-reported", &length), *text;

    if (role == NULL || strcmp(role, "master") != 0) {
        return -1;
    }
    text = field(reply, "role-reported-time", &length);
    return text != NULL ? number(text, length, 0, FOR_MS_MAX) : -1;
}

/* The field that makes it useless; NULL: none does. */
static const char *take_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret)
{
    size_t length;
    const char *text, *wrong;

    if (!take_place(reply, &ret->place, &wrong)) {
        return wrong;
    }
    text = field(reply, "config-epoch", &length);
    ret->epoch = text != NULL ? number(text, length, 0, EPOCH_MAX) : -1;
    if (ret->epoch < 0) {
        return "config-epoch";
    }
    text = field(reply, "flags", &length);
    ret->down = text != NULL && is_down(text);
    ret->moving = text != NULL && has_flag(text, "failover_in_progress");
    ret->for_ms = take_time(reply);
    return text != NULL ? NULL : "flags";
}

bool lw__sentinel_parse_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret, char *why)
{
    struct lw__sentinel_answer master;
    const char *wrong;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        lw__escape(lw__reply_text(reply, NULL), why, LW__WHY_MAX);
        return false;
    }
    wrong = take_master(reply, &master);
    if (wrong != NULL) {
        (void)snprintf(why, LW__WHY_MAX, "its answer has no %s that could be used",
                       wrong);
        return false;
    }
    *ret = master;
    return true;
}

/* A sentinel that another one has not heard of yet, except from its configuration, has
 * none. */
static bool take_id(const struct lw__reply *reply, char ret[LW__SENTINEL_ID_SIZE])
{
    size_t length;
    const char *text = field(reply, "runid", &length);

    if (text == NULL || length == 0 || length >= LW__SENTINEL_ID_SIZE ||
        strspn(text, "0123456789abcdef") != length) {
        return false;
    }
    memcpy(ret, text, length + 1);
    return true;
}

bool lw__sentinel_parse_other(const struct lw__reply *reply, size_t *at,
                              struct lw__sentinel_peer *ret)
{
    struct lw__sentinel_peer other;
    const char *wrong;
    size_t length;

    while (*at < lw__reply_count(reply)) {
        const struct lw__reply *entry = lw__reply_at(reply, (*at)++);
        const char *flags = field(entry, "flags", &length);

        if (flags != NULL && take_place(entry, &other.place, &wrong) &&
            take_id(entry, other.id)) {
            other.down = is_down(flags);
            *ret = other;
            return true;
        }
    }
    return false;
}

/* service, old host, old port, new host, new port */
bool lw__sentinel_parse_switch(const char *text, size_t length, const char *service,
                               struct lw__endpoint *from, struct lw__endpoint *to)
{
    enum { SERVICE, OLD_HOST, OLD_PORT, HOST, PORT, WORDS };
    const char *words[WORDS], *end = text + length;
    size_t lengths[WORDS];
    struct lw__endpoint old, place;

    for (int i = 0; i < WORDS; i++) {
        const char *blank = text < end ? memchr(text, ' ', (size_t)(end - text)) : NULL;

        if (text >= end || *text == ' ' || (blank == NULL) != (i == PORT)) {
            return false;
        }
        words[i] = text;
        lengths[i] = (size_t)((blank != NULL ? blank : end) - text);
        text += lengths[i] + 1;
    }
    if (lengths[SERVICE] != strlen(service) ||
        memcmp(words[SERVICE], service, lengths[SERVICE]) != 0 ||
        !take_host(words[OLD_HOST], lengths[OLD_HOST], old.host) ||
        !take_port(words[OLD_PORT], lengths[OLD_PORT], &old.port) ||
        !take_host(words[HOST], lengths[HOST], place.host) ||
        !take_port(words[PORT], lengths[PORT], &place.port)) {
        return false;
    }
    *from = old;
    *to = place;
    return true;
}
