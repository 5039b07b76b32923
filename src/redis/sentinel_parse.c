/* SPDX-License-Identifier: MIT */
/* What sentinels reply and publish: see sentinel_parse.h. Reads the fields that it needs,
 * each within its limits, and skips all others. */
#include "redis/sentinel_parse.h"

#include "base/check.h"
#include "base/escape.h"
#include "redis/explain.h"
#include "redis/reply.h"
#include "lockwire.h"

#include <stdio.h>
#include <string.h>

#define EPOCH_MAX ((int64_t)1 << 62)  /* so that one more can be counted */
#define FOR_MS_MAX ((int64_t)1 << 53) /* so that what passes can be added */

static bool read_host(const char *text, size_t length, char ret[LW__HOST_SIZE])
{
    return length > 0 && lw__endpoint_read_host(text, length, ret);
}

static bool read_port(const char *text, size_t length, uint16_t *ret)
{
    int64_t port = lw__check_number(text, length, UINT16_MAX);

    *ret = (uint16_t)port;
    return port > 0;
}

static bool read_endpoint(const struct lw__reply *reply, struct lw__endpoint *ret,
                          const char **wrong)
{
    size_t length;
    const char *text = lw__reply_field(reply, "ip", &length);

    *wrong = "ip";
    if (text == NULL || !read_host(text, length, ret->host)) {
        return false;
    }
    *wrong = "port";
    text = lw__reply_field(reply, "port", &length);
    return text != NULL && read_port(text, length, &ret->port);
}

/* `flags` are words separated by commas. */
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

/* Returns -1 if it is unknown, without which the reply is usable. If the server reports
 * to be a replica by now, the time is how long it has been that. */
static int64_t read_time(const struct lw__reply *reply)
{
    size_t length;
    const char *role = lw__reply_field(reply, "role-reported", &length), *text;

    if (role == NULL || strcmp(role, "master") != 0) {
        return -1;
    }
    text = lw__reply_field(reply, "role-reported-time", &length);
    return text != NULL ? lw__check_number(text, length, FOR_MS_MAX) : -1;
}

/* The id is missing while the sentinel knows the other process by configuration alone. */
static bool read_id(const struct lw__reply *reply, char ret[LW__SENTINEL_ID_SIZE])
{
    size_t length;
    const char *text = lw__reply_field(reply, "runid", &length);

    if (text == NULL || length == 0 || length >= LW__SENTINEL_ID_SIZE ||
        strspn(text, "0123456789abcdef") != length) {
        return false;
    }
    memcpy(ret, text, length + 1);
    return true;
}

/* Returns the age of the sentinel's last INFO of this server, the highest one if it is
 * unknown. */
static int64_t read_info_age(const struct lw__reply *reply)
{
    size_t length;
    const char *text = lw__reply_field(reply, "info-refresh", &length);
    int64_t age_ms = text != NULL ? lw__check_number(text, length, FOR_MS_MAX) : -1;

    return age_ms >= 0 ? age_ms : FOR_MS_MAX;
}

/* Returns the name of the field that makes the reply unusable, or NULL. */
static const char *read_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret)
{
    size_t length;
    const char *text, *wrong;

    if (!read_endpoint(reply, &ret->endpoint, &wrong)) {
        return wrong;
    }
    text = lw__reply_field(reply, "config-epoch", &length);
    ret->epoch = text != NULL ? lw__check_number(text, length, EPOCH_MAX) : -1;
    if (ret->epoch < 0) {
        return "config-epoch";
    }
    text = lw__reply_field(reply, "flags", &length);
    ret->down = text != NULL && is_down(text);
    ret->moving = text != NULL && has_flag(text, "failover_in_progress");
    ret->for_ms = read_time(reply);
    ret->info_ms = read_info_age(reply);
    if (!read_id(reply, ret->run_id)) {
        ret->run_id[0] = '\0';
    }
    return text != NULL ? NULL : "flags";
}

bool lw__sentinel_parse_master(const struct lw__reply *reply,
                               struct lw__sentinel_answer *ret, char *why)
{
    struct lw__sentinel_answer master;
    const char *wrong;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        char text[LW_WHY_SIZE];

        lw__escape(lw__explain(lw__reply_text(reply, NULL), text), why, LW_WHY_SIZE);
        return false;
    }
    wrong = read_master(reply, &master);
    if (wrong != NULL) {
        (void)snprintf(why, LW_WHY_SIZE, "invalid reply to SENTINEL MASTER: no valid %s",
                       wrong);
        return false;
    }
    *ret = master;
    return true;
}

bool lw__sentinel_parse_peer(const struct lw__reply *reply, size_t *at,
                             struct lw__sentinel_peer *ret)
{
    struct lw__sentinel_peer peer;
    const char *wrong;
    size_t length;

    while (*at < lw__reply_count(reply)) {
        const struct lw__reply *entry = lw__reply_at(reply, (*at)++);
        const char *flags = lw__reply_field(entry, "flags", &length);

        if (flags != NULL && read_endpoint(entry, &peer.endpoint, &wrong) &&
            read_id(entry, peer.id)) {
            peer.down = is_down(flags);
            peer.info_ms = read_info_age(entry);
            *ret = peer;
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
    struct lw__endpoint old, new;

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
        !read_host(words[OLD_HOST], lengths[OLD_HOST], old.host) ||
        !read_port(words[OLD_PORT], lengths[OLD_PORT], &old.port) ||
        !read_host(words[HOST], lengths[HOST], new.host) ||
        !read_port(words[PORT], lengths[PORT], &new.port)) {
        return false;
    }
    *from = old;
    *to = new;
    return true;
}
