/* SPDX-License-Identifier: MIT */
/* See query.h. */
#include "query.h"

#include "options.h"
#include "report.h"
#include "system.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static void on_closed(struct lw_client *client, void *arg)
{
    struct query *query = arg;

    (void)client;
    event_base_loopbreak(query->base);
}

void query_end(struct query *query, int code)
{
    if (query->ending) {
        return;
    }
    query->ending = true;
    query->code = code;
    if (lw_client_close(query->client, on_closed, query) < 0) {
        event_base_loopbreak(query->base);
    }
}

/* A longer time replaces the record's as long as that is waited for. Without a record the
 * first client waits for its whole time. */
struct query_guard query_guard(const struct query *query)
{
    struct lw_stats stats = LW_STATS_INIT;
    struct query_guard guard = {.own_ms = query->options->guard_ms};
    bool none = guard.own_ms == LW_GUARD_NONE;

    (void)lw_client_stats(query->client, &stats);
    guard.own_ms = none ? 0 : guard.own_ms;
    guard.time_ms = (int64_t)stats.server_guard_ms;
    if (none) {
        return guard;
    }
    if (guard.time_ms == 0) {
        guard.time_ms = guard.own_ms > 0 ? guard.own_ms : query->default_guard_ms;
        guard.left_ms = guard.time_ms;
        return guard;
    }
    guard.left_ms = stats.guard_left_ms > 1 ? (int64_t)stats.guard_left_ms : 0;
    if (guard.own_ms > guard.time_ms && guard.left_ms > 0) {
        guard.left_ms = guard.own_ms;
    } else {
        guard.refused = guard.own_ms > 0 && guard.own_ms != guard.time_ms;
    }
    return guard;
}

int query_free_code(const struct query_guard *guard)
{
    return guard->refused       ? EXIT_REFUSED
           : guard->left_ms > 0 ? EXIT_NO_SERVER
                                : EXIT_NOT_HELD;
}

static void report_query(const struct query *query, int error, bool link_up,
                         const char *why)
{
    bool list = query->options->subcommand == LIST;

    report_failure(list                                    ? "list the locks"
                   : query->options->subcommand == YIELD   ? "ask the holder of"
                   : query->options->subcommand == BREAK   ? "break"
                   : query->options->subcommand == RELEASE ? "release"
                                                           : "inspect",
                   list ? NULL : query->options->name, error, link_up, why);
}

void query_fail(struct query *query, int status, const char *why)
{
    if (query->silent) {
        if (*why || !*query->error) {
            (void)snprintf(query->error, sizeof(query->error), "%s",
                           *why ? why : lw_strerror(status));
        }
    } else if (status == LW_EINVAL) {
        report("%s", *query->error ? query->error : lw_strerror(status));
    } else {
        report_query(query, status,
                     status == LW_EREDIS || lw_client_is_up(query->client, NULL), why);
    }
    query_end(query, exit_code_for(status, LW_OK, EXIT_BUSY));
}

void query_fail_link(struct query *query, const char *why)
{
    int error = lw_client_error(query->client);

    query_fail(query, error != LW_OK ? error : LW_ECONN, why);
}

/* The time of --connect-timeout has passed. */
static void on_connect_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct query *query = arg;
    int error = lw_client_error(query->client);
    char text[2 * LW_WHY_SIZE];
    const char *why;

    (void)fd, (void)what;
    if (query->ending || query->connected) {
        return;
    }
    (void)lw_client_is_up(query->client, &why);
    options_explain_timeout(query->options, why, text, sizeof(text));
    if (query->silent) {
        query_fail(query, LW_ECONN, text);
        return;
    }
    if (query->tolerant) {
        query->events->down(query, text);
        return;
    }
    report_query(query, error != LW_OK ? error : LW_ECONN, false, text);
    query_end(query, exit_code_for(LW_ECONN, error, EXIT_BUSY));
}

/* Returns true if an attempt that failed is followed by another one. (watch rides out
 * outages by itself. A tolerant or silent query reports how the first attempt ended:
 * doctor, and each server of a quorum.) */
static bool tries_again(const struct query *query)
{
    return !query->connected && query->options->connect_given && !query->tolerant &&
           !query->silent && query->options->subcommand != WATCH;
}

/* Returns true if the first connection failed permanently, so that waiting is useless. */
static bool is_permanent(const struct query *query, int error)
{
    return !query->connected && (error == LW_EREDIS || error == LW_ESYSTEM);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct query *query = arg;
    int error = lw_client_error(client);

    if (query->ending) {
        return;
    }
    query->connected = query->connected || up;
    if (up) {
        query->events->up(query);
    } else if (!query->tolerant && !query->silent && is_permanent(query, error)) {
        report_query(query, error, false, why);
        query_end(query, exit_code_for(LW_ECONN, error, EXIT_BUSY));
    } else if (tries_again(query)) {
        return;
    } else if (query->events->down) {
        query->events->down(query, why);
    } else {
        query_fail_link(query, why);
    }
}

static void on_log(int level, const char *message, void *arg)
{
    struct query *query = arg;

    if (query->events->log != NULL) {
        query->events->log(query, level, message);
    } else if (!report_is_no_connection(message)) { /* `down` or on_link reports it */
        query->warned = true;
        report_later(query->base, message);
    }
}

void query_inspect(struct query *query, lw_inspect_cb *done, void *arg)
{
    int error;

    query->sent_ms = system_now_ms();
    error = lw_inspect(query->client, query->options->name, done, arg);
    if (error != 0) {
        query_fail(query, error, "");
    }
}

const struct lw_master *query_master(const struct query *query, struct lw_master *ret)
{
    return lw_client_master(query->client, ret) == 0 ? ret : NULL;
}

int query_open(struct query *query, const char *client_name)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    int error;

    query->code = EXIT_SYSTEM; /* unless query_end is called */
    query->base = event_base_new();
    if (query->base == NULL) {
        report("cannot start an event loop");
        return EXIT_SYSTEM;
    }
    client.client_name = client_name;
    client.link = on_link;
    client.log = on_log;
    client.log_level = query->events->log != NULL ? LOG_INFO
                       : query->show_warnings     ? LOG_WARNING
                                                  : LOG_ERR;
    client.arg = query;
    client.errbuf = query->error;
    client.errbuf_size = sizeof(query->error);
    error = options_new_client(query->options, query->base, &client, &query->client);
    if (error == 0) {
        error = options_limit_connecting(query->options, query->base, on_connect_timeout,
                                         query);
    }
    if (error == 0) {
        return 0;
    }
    report("%s", *query->error ? query->error : lw_strerror(error));
    return error == LW_EINVAL ? EXIT_USAGE : EXIT_SYSTEM;
}

int query_check(const struct options *options)
{
    static const struct query_events events = {.up = NULL};
    struct options own = *options;
    struct query trial = {.options = &own, .events = &events};
    int code;

    own.password = options->password != NULL ? strdup(options->password) : NULL;
    own.sentinel_password = NULL; /* the client would wipe it */
    code = query_open(&trial, "lockwire");
    query_close(&trial);
    free(own.password);
    return code;
}

int query_run(struct query *query)
{
    event_base_dispatch(query->base);
    return query->code;
}

void query_close(struct query *query)
{
    report_kept();
    lw_client_free(query->client);
    if (query->base != NULL) {
        event_base_free(query->base);
    }
}

int query(struct query *query, const char *client_name)
{
    int code = query_open(query, client_name);

    if (code == 0) {
        code = query_run(query);
    }
    query_close(query);
    return code;
}
