/* SPDX-License-Identifier: MIT */
/* status with the URL of a quorum: asks each server by its own URL, one after another,
 * and shows each server's vote. If a server does not reply, the reason is shown in place
 * of the vote. The exit code says whether a majority of the servers has a holder.
 *
 * The library has checked the URL before it is taken apart. */
#include "columns.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "quorum_query.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What one server has replied. */
struct vote {
    struct query query;
    const char *host;
    char what[COLUMNS_CELL_MAX]; /* the holder, "free", or why there is no reply */
    char lease[40];
    size_t waiters;
    bool replied, held;
    struct query_guard guard;
    char *json; /* NULL without --json, or without a reply */
};

/* ---- one server ---- */

static void note_holder(struct vote *vote, const struct lw_inspection *seen)
{
    const struct lw_inspected *holder =
        seen->holder_count > 0 ? lw_inspection_holder(seen, 0) : NULL;

    vote->guard = query_guard(&vote->query);
    vote->waiters = seen->waiter_total;
    vote->held = holder != NULL || *seen->foreign;
    if (holder == NULL) {
        status_free(&vote->guard, vote->what, sizeof(vote->what));
        if (*seen->foreign) {
            (void)snprintf(vote->what, sizeof(vote->what), "held by another program");
        }
        return;
    }
    status_printable(*holder->client ? holder->client : holder->token, vote->what,
                     sizeof(vote->what));
    status_duration(holder->remaining_ms, vote->lease, sizeof(vote->lease));
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct vote *vote = arg;

    (void)client;
    if (vote->query.ending) {
        return;
    }
    if (result != LW_OK) {
        query_fail(&vote->query, result, why);
        return;
    }
    vote->replied = true;
    note_holder(vote, seen);
    if (vote->query.options->json) {
        vote->json = status_json_line(seen, &vote->guard, NULL, false);
    }
    query_end(&vote->query, EXIT_SUCCESS);
}

static void on_up(struct query *query)
{
    query_inspect(query, on_inspected, query->arg);
}

/* Returns false if memory is short. */
static bool ask(struct vote *vote, const struct options *options,
                const struct quorum_member *at)
{
    static const struct query_events events = {.up = on_up};

    vote->host = at->host;
    vote->query = (struct query){.events = &events, .arg = vote};
    (void)quorum_query(&vote->query, options, at, "lockwire-status");
    if (!vote->replied) {
        status_printable(*vote->query.error ? vote->query.error : "no reply", vote->what,
                         sizeof(vote->what));
    }
    return !vote->replied || !options->json || vote->json != NULL;
}

/* ---- all of them ---- */

enum field { SERVER, VOTE, LEASE, WAITERS };

static void write_cell(const void *rows, size_t index, int field, char *text, size_t size)
{
    const struct vote *vote = &((const struct vote *)rows)[index];

    switch ((enum field)field) {
    case SERVER:
        (void)snprintf(text, size, "%s", vote->host);
        break;
    case VOTE:
        (void)snprintf(text, size, "%s", vote->what);
        break;
    case LEASE:
        status_printable(vote->lease, text, size);
        break;
    case WAITERS:
        if (vote->waiters > 0) {
            (void)snprintf(text, size, "%zu", vote->waiters);
        } else {
            status_printable("", text, size);
        }
    }
}

static int by_left(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return a < b ? -1 : a > b;
}

/* Returns what the guard means for the quorum: it ends when a majority's have ended. A
 * server that has refused, or did not reply, grants nothing for an unknown time. */
static struct query_guard join_guards(const struct vote *votes, unsigned count)
{
    struct query_guard ret = {0};
    int64_t left[QUORUM_MOST];
    unsigned granting = 0;

    for (unsigned i = 0; i < count; i++) {
        if (votes[i].replied && !votes[i].guard.refused) {
            left[granting++] = votes[i].guard.left_ms;
        } else if (votes[i].replied) {
            ret = votes[i].guard;
        }
    }
    if (granting > count / 2) {
        qsort(left, granting, sizeof(*left), by_left);
        ret = (struct query_guard){.left_ms = left[count / 2]};
    }
    return ret;
}

static void write_text(const struct options *options, const struct vote *votes,
                       unsigned count, unsigned held)
{
    /* clang-format off */
    static const struct column columns[] = {
        {"SERVER", SERVER, 16}, {"LEASE", LEASE, 0}, {"WAITERS", WAITERS, 0},
        {"HOLDER", VOTE, 16}, {NULL, 0, 0},
    };
    /* clang-format on */
    int width = options->wide ? 0 : terminal_size(STDOUT_FILENO).ws_col;
    char name[COLUMNS_CELL_MAX], guard[200];
    struct query_guard joined = join_guards(votes, count);
    bool closed = held <= count / 2 && (joined.refused || joined.left_ms > 0);

    status_printable(options->name, name, sizeof(name));
    status_free(&joined, guard, sizeof(guard));
    (void)printf("%s: held at %u of %u servers%s%s\n\n", name, held, count,
                 closed ? "; " : "", closed ? guard : "");
    columns_write(stdout, columns, write_cell, votes, count, width);
}

/* The host of a URL has no character that JSON would need to escape. */
static void write_json(const struct options *options, const struct vote *votes,
                       unsigned count)
{
    (void)fputs("[", stdout);
    for (unsigned i = 0; i < count; i++) {
        char *outage = votes[i].json == NULL
                           ? status_json_outage(options->name, "down", votes[i].what, -1)
                           : NULL;

        (void)printf("%s\n  {\"server\": \"%s\", \"status\": %s}", i > 0 ? "," : "",
                     votes[i].host,
                     votes[i].json != NULL ? votes[i].json
                     : outage != NULL      ? outage
                                           : "null");
        free(outage);
    }
    (void)fputs("\n]\n", stdout);
}

static int write_all(const struct options *options, const struct vote *votes,
                     unsigned count)
{
    struct query_guard joined = join_guards(votes, count);
    unsigned held = 0, replied = 0;

    for (unsigned i = 0; i < count; i++) {
        held += votes[i].held;
        replied += votes[i].replied;
    }
    if (options->json) {
        write_json(options, votes, count);
    } else {
        write_text(options, votes, count, held);
    }
    if (!report_flush()) {
        return EXIT_SYSTEM;
    }
    return held > count / 2      ? EXIT_SUCCESS
           : replied > count / 2 ? query_free_code(&joined)
                                 : EXIT_NO_SERVER;
}

int status_quorum(const struct options *options)
{
    struct vote *votes = calloc(QUORUM_MOST, sizeof(*votes));
    struct quorum_servers servers = {.count = 0};
    int code = votes != NULL ? quorum_query_servers(options, &servers) : EXIT_SYSTEM;

    for (unsigned i = 0; code == 0 && i < servers.count; i++) {
        if (!ask(&votes[i], options, &servers.at[i])) {
            report("%s", lw_strerror(LW_ENOMEM));
            code = EXIT_SYSTEM;
        }
    }
    if (code == 0) {
        code = write_all(options, votes, servers.count);
    }
    for (unsigned i = 0; i < servers.count; i++) {
        free(votes[i].json);
    }
    quorum_query_clear(&servers);
    free(votes);
    return code;
}
