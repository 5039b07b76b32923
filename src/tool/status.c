/* SPDX-License-Identifier: MIT */
/* status: the holders and waiters of a lock. The exit code tells a held lock from a free
 * one, and from one that cannot be granted because of the guard.
 *
 * Before the question it waits for a moment for the connection for messages: if this
 * account or server does not permit SUBSCRIBE or PUBLISH, the library's warning is
 * reported, because waiting for a lock is slow then, and --json has it. */
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"
#include "terminal.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define POLL_MS 2
#define MESSAGES_MS 500 /* for the second connection */

struct request {
    struct query query;
    int64_t messages_deadline_ms;
};

static void on_timer(evutil_socket_t fd, short what, void *arg);

/* Returns 0, or -1 if there is no memory. */
static int write_text(const struct query *query, const struct lw_inspection *seen,
                      const struct query_guard *guard, const struct lw_master *master)
{
    int width = query->options->wide ? 0 : terminal_size(STDOUT_FILENO).ws_col;
    char text[200];
    struct status_view view = {0};

    status_free(guard, text, sizeof(text));
    if (status_view_take(&view, seen, text, master, width) < 0) {
        return -1;
    }
    status_view_write(stdout, &view, system_now_ms() - query->sent_ms, "", "", width);
    status_view_clear(&view);
    status_guard(guard, text, sizeof(text));
    if (*text) {
        (void)printf("guard     %s\n", text);
    }
    return 0;
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct request *request = arg;
    struct query *query = &request->query;
    struct lw_stats stats = LW_STATS_INIT;
    struct lw_master followed = LW_MASTER_INIT;
    const struct lw_master *master = query_master(query, &followed);
    struct query_guard guard;

    (void)client;
    if (query->ending) {
        return;
    }
    if (result != LW_OK) {
        query_fail(query, result, why);
        return;
    }
    guard = query_guard(query);
    (void)lw_client_stats(query->client, &stats);
    if ((query->options->json ? status_json(stdout, seen, &guard, master, stats.degraded)
                              : write_text(query, seen, &guard, master)) < 0) {
        query_fail(query, LW_ENOMEM, "");
        return;
    }
    query_end(query, !report_flush() ? EXIT_SYSTEM
                     : seen->holder_total > 0 || *seen->foreign
                         ? EXIT_SUCCESS
                         : query_free_code(&guard));
}

/* Asks when it is known whether messages arrive; if not, the library has logged why. */
static void await_messages(struct request *request)
{
    struct lw_stats stats = LW_STATS_INIT;
    struct timeval soon = {0, POLL_MS * 1000};

    (void)lw_client_stats(request->query.client, &stats);
    if (stats.subscription_up || request->query.warned ||
        system_now_ms() >= request->messages_deadline_ms ||
        event_base_once(request->query.base, -1, EV_TIMEOUT, on_timer, request, &soon) <
            0) {
        query_inspect(&request->query, on_inspected, request);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct request *request = arg;

    (void)fd, (void)what;
    if (!request->query.ending) {
        await_messages(request);
    }
}

static void on_up(struct query *query)
{
    struct request *request = query->arg;

    request->messages_deadline_ms = system_now_ms() + MESSAGES_MS;
    await_messages(request);
}

int status(const struct options *options)
{
    static const struct query_events events = {.up = on_up};
    struct request request = {
        .query = {.options = options, .events = &events, .show_warnings = true}};

    request.query.arg = &request;
    if (options->quorum) {
        return status_quorum(options);
    }
    return query(&request.query, "lockwire-status");
}
