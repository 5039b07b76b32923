/* SPDX-License-Identifier: MIT */
/* See options.h. The client that the options describe: its server, credentials and guard,
 * and the limit of its first connection. */
#include "options_private.h"

#include "base/check.h"
#include "base/escape.h"
#include "password.h"

#include <event2/event.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the values of all --map, joined by commas, to be freed; NULL without memory. */
static char *join_maps(const struct options *options)
{
    size_t size = 1;
    char *ret;

    for (int i = 0; i < options->map_count; i++) {
        size += strlen(options->maps[i]) + 1;
    }
    ret = calloc(1, size);
    for (int i = 0; ret != NULL && i < options->map_count; i++) {
        (void)snprintf(ret + strlen(ret), size - strlen(ret), "%s%s", i > 0 ? "," : "",
                       options->maps[i]);
    }
    return ret;
}

/* Returns the URL without its guard, to be freed; NULL without memory. (Nor has it the
 * prefix, which is in `options`.) */
static char *make_unguarded(const char *url)
{
    char *copy = strdup(url), *query = copy != NULL ? strchr(copy, '?') : NULL;
    const char *item = query;

    while (item != NULL && strncmp(item + 1, "db=", 3) != 0) {
        item = strchr(item + 1, '&');
    }
    if (item != NULL) {
        size_t length = strcspn(item + 1, "&");

        memmove(query + 1, item + 1, length);
        query[length + 1] = '\0';
    } else if (query != NULL) {
        *query = '\0';
    }
    return copy;
}

/* A client that acquires nothing must not begin or change a guard. (A quorum's clients
 * always have one: see query_check.) */
static bool needs_guard(const struct options *options)
{
    return (IN(options->subcommand) & TAKERS) != 0 || options->quorum;
}

/* Returns the name of the effective user; NULL if it is unknown, or no single word. */
static const char *user_name(void)
{
    static struct passwd user;
    static char texts[1024];
    struct passwd *found = NULL;
    char why[LW_WHY_SIZE];

    (void)getpwuid_r(geteuid(), &user, texts, sizeof(texts), &found);
    if (found == NULL || lw__check_word(user.pw_name, "user", why, sizeof(why)) != NULL) {
        return NULL;
    }
    return user.pw_name;
}

/* Returns the guard_ms of a client that must not write the record: with 0 it reads it.
 * (doctor acquires locks of its own, and reads the record before.) */
static uint32_t unused_guard(const struct options *options)
{
    bool reads = options->subcommand == STATUS ||
                 (options->subcommand == DOCTOR && options->guard_ms != LW_GUARD_NONE);

    return reads ? 0 : LW_GUARD_NONE;
}

int options_new_client(const struct options *options, struct event_base *base,
                       struct lw_client_options *client, struct lw_client **ret)
{
    char *map = join_maps(options);
    char *url = needs_guard(options) ? strdup(options->url)
                                     : make_unguarded(options->url);
    int error;

    client->address_map = options->map_count > 0 ? map : NULL;
    client->guard_ms = needs_guard(options) ? (uint32_t)options->guard_ms
                                            : unused_guard(options);
    client->prefix = *options->prefix != '\0' ? options->prefix : NULL;
    client->password = options->password;
    client->password_file = options->password_file;
    client->no_identity = options->no_identity;
    if (IN(options->subcommand) & TAKERS) {
        client->user = user_name();
    }
    client->sentinel_username = options->sentinel_user;
    client->sentinel_password = options->sentinel_password;
    client->sentinel_password_file = options->sentinel_password_file;
    client->tls_ca = options->tls_ca;
    client->tls_cert = options->tls_cert;
    client->tls_key = options->tls_key;
    client->tls_server_name = options->tls_server_name;
    error = map != NULL && url != NULL ? lw_client_new(base, url, client, ret)
                                       : LW_ENOMEM;
    free(map);
    free(url);
    password_wipe(options->password);
    password_wipe(options->sentinel_password);
    return error;
}

int options_limit_connecting(const struct options *options, struct event_base *base,
                             void (*passed)(int fd, short what, void *arg), void *arg)
{
    int64_t ms = options->connect_ms;
    struct timeval time = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};

    return ms == 0 || event_base_once(base, -1, EV_TIMEOUT, passed, arg, &time) == 0
               ? 0
               : LW_ENOMEM;
}

void options_explain_timeout(const struct options *options, const char *why, char *text,
                             size_t size)
{
    const char *url = options->url, *authority = strstr(url, "://") + 3;
    const char *host = authority, *end = url + strcspn(url, "?");
    bool seconds = options->connect_ms % 1000 == 0;
    char tried[LW_WHY_SIZE], shown[sizeof(tried)];

    for (const char *at = authority; at < end && strncmp(url, "unix:", 5) != 0; at++) {
        host = *at == '@' ? at + 1 : host; /* in a path it is an "@" */
    }
    (void)snprintf(tried, sizeof(tried), "%.*s%.*s", (int)(authority - url), url,
                   (int)(end - host), host);
    lw__escape(tried, shown, sizeof(shown));
    (void)snprintf(text, size, "%s; %s was tried for %" PRId64 "%s (--connect-timeout)",
                   *why ? why : "no reply", shown,
                   seconds ? options->connect_ms / 1000 : options->connect_ms,
                   seconds ? "s" : "ms");
}
