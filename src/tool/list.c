/* SPDX-License-Identifier: MIT */
/* list: the locks that are held. lw_list reports each of them and its progress; at the
 * end all are written, sorted by name, each once. A list that is incomplete because of a
 * failure is not written.
 *
 * With the URL of a quorum each server is asked by its own URL, one after another. A
 * majority of replies is complete: each lock that a majority holds is in one of them. */
#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "quorum_query.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"
#include "terminal.h"
#include "token.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_NAME 20
#define MIN_HOLDER 16

struct row {
    size_t sequence; /* the order of arrival */
    char *name;      /* as stored in Redis */
    char *line;      /* of JSON, or NULL with a table */
    char *holder;
    char *token;     /* of the first holder */
    unsigned server; /* of a quorum, from 0 */
    unsigned votes;  /* with a table: at how many of its servers that client holds it */
    unsigned servers;
    const char *mode;
    size_t holders, waiters;
    int64_t remaining_ms;
};

struct rows {
    struct row *all;
    size_t count, room;
};

/* ---- the rows ---- */

static const char *common_mode(const struct lw_inspection *seen)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);

    if (holder == NULL) {
        return "?";
    }
    for (size_t i = 1; i < seen->holder_count; i++) {
        if (lw_inspection_holder(seen, i)->mode != holder->mode) {
            return "both";
        }
    }
    return status_mode(holder);
}

/* Returns the rest of the longest lease; below 0 if one has no limit. */
static int64_t longest_remaining_ms(const struct lw_inspection *seen)
{
    int64_t left = 0;

    for (size_t i = 0; i < seen->holder_count; i++) {
        int64_t ms = lw_inspection_holder(seen, i)->remaining_ms;

        if (ms < 0) {
            return ms;
        }
        left = ms > left ? ms : left;
    }
    return left;
}

/* Writes the first holder, and how many more there are. */
static void format_holder(const struct lw_inspection *seen, char *text, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    const char *name = "";
    char shown[COLUMNS_CELL_MAX], note[COLUMNS_CELL_MAX] = "", more[40] = "";

    if (holder != NULL) {
        name = *holder->client         ? holder->client
               : *status_owner(holder) ? status_owner(holder)
                                       : holder->token;
    }
    status_printable(name, shown, sizeof(shown));
    if (holder != NULL && *holder->note) {
        lw__escape(holder->note, note, sizeof(note));
    }
    if (seen->holder_total > 1) {
        (void)snprintf(more, sizeof(more), ", +%zu", seen->holder_total - 1);
    }
    (void)snprintf(text, size, "%s%s%s%s", shown, *note ? ": " : "", note, more);
}

static void free_row(struct row *row)
{
    free(row->name);
    free(row->line);
    free(row->holder);
    free(row->token);
}

static bool fill_row(struct row *row, const struct lw_inspection *seen, bool json,
                     const struct lw_master *master)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    char text[2 * COLUMNS_CELL_MAX + 40];

    *row = (struct row){.name = strdup(seen->name),
                        .token = strdup(holder != NULL ? holder->token : "")};
    if (row->token == NULL) {
        return false;
    }
    if (json) {
        row->line = status_json_line(seen, NULL, master, false);
        return row->name != NULL && row->line != NULL;
    }
    format_holder(seen, text, sizeof(text));
    row->holder = strdup(text);
    row->mode = common_mode(seen);
    row->holders = seen->holder_total;
    row->waiters = seen->waiter_total;
    row->remaining_ms = longest_remaining_ms(seen);
    return row->name != NULL && row->holder != NULL;
}

/* Returns 0, or -1 if there is no memory. */
static int add_row(struct rows *rows, const struct lw_inspection *seen, bool json,
                   const struct lw_master *master)
{
    struct row *row;

    if (rows->count == rows->room) {
        size_t room = rows->room > 0 ? 2 * rows->room : 64;
        struct row *grown = realloc(rows->all, room * sizeof(*grown));

        if (grown == NULL) {
            return -1;
        }
        rows->all = grown;
        rows->room = room;
    }
    row = &rows->all[rows->count];
    if (!fill_row(row, seen, json, master)) {
        free_row(row);
        return -1;
    }
    row->sequence = rows->count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    int order = strcmp(one->name, other->name);

    if (order != 0) {
        return order;
    }
    if (one->server != other->server) {
        return one->server < other->server ? -1 : 1;
    }
    return one->sequence < other->sequence ? -1 : one->sequence > other->sequence;
}

/* Sorts by name; of several rows with a name, of one server, the last to arrive stays. */
static void sort_rows(struct rows *rows)
{
    size_t kept = 0;

    if (rows->count == 0) {
        return;
    }
    qsort(rows->all, rows->count, sizeof(*rows->all), by_name);
    for (size_t i = 1; i < rows->count; i++) {
        if (strcmp(rows->all[kept].name, rows->all[i].name) == 0 &&
            rows->all[kept].server == rows->all[i].server) {
            free_row(&rows->all[kept]);
        } else {
            kept++;
        }
        rows->all[kept] = rows->all[i];
    }
    rows->count = kept + 1;
}

/* Returns how many rows, from this one on, have its name. */
static size_t count_name(const struct rows *rows, size_t first)
{
    size_t last = first + 1;

    while (last < rows->count &&
           strcmp(rows->all[first].name, rows->all[last].name) == 0) {
        last++;
    }
    return last - first;
}

/* Of these rows, one for each server, the first one of the client with the most votes
 * stays, with the longest queue. Returns it. */
static struct row merge_votes(struct row *rows, size_t count, unsigned servers)
{
    struct row best;
    size_t kept = 0, waiters = 0;

    for (size_t i = 0; i < count; i++) {
        rows[i].votes = 0;
        for (size_t j = 0; j < count; j++) {
            rows[i].votes += token_same_client(rows[i].token, rows[j].token);
        }
        kept = rows[i].votes > rows[kept].votes ? i : kept;
        waiters = rows[i].waiters > waiters ? rows[i].waiters : waiters;
    }
    best = rows[kept];
    best.waiters = waiters;
    best.servers = servers;
    for (size_t i = 0; i < count; i++) {
        if (i != kept) {
            free_row(&rows[i]);
        }
    }
    return best;
}

static void merge_names(struct rows *rows, unsigned servers)
{
    size_t names = 0, count;

    for (size_t i = 0; i < rows->count; i += count) {
        count = count_name(rows, i);
        rows->all[names++] = merge_votes(&rows->all[i], count, servers);
    }
    rows->count = names;
}

static void clear_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free_row(&rows->all[i]);
    }
    free(rows->all);
    *rows = (struct rows){0};
}

/* ---- the table ---- */

enum field { NAME, MODE, HOLDERS, SERVERS, WAITERS, CLIENT, REMAINING };

/* LEASE is behind CLIENT, since a last column that can be cut may be left out. */
static const struct column columns[] = {
    {"NAME", NAME, MIN_NAME},
    {"HELD", MODE, 0},
    {"HOLDERS", HOLDERS, 0},
    {"WAITERS", WAITERS, 0},
    {"CLIENT", CLIENT, MIN_HOLDER},
    {"LEASE", REMAINING, 0},
    {NULL, 0, 0},
};

static const struct column quorum_columns[] = {
    {"NAME", NAME, MIN_NAME},
    {"HELD", MODE, 0},
    {"SERVERS", SERVERS, 0},
    {"WAITERS", WAITERS, 0},
    {"CLIENT", CLIENT, MIN_HOLDER},
    {"LEASE", REMAINING, 0},
    {NULL, 0, 0},
};

static void write_cell(const void *rows, size_t index, int field, char *text, size_t size)
{
    const struct row *row = (const struct row *)rows + index;

    switch ((enum field)field) {
    case NAME:
        status_printable(row->name, text, size);
        break;
    case MODE:
        (void)snprintf(text, size, "%s", row->mode);
        break;
    case HOLDERS:
        (void)snprintf(text, size, "%zu", row->holders);
        break;
    case SERVERS:
        (void)snprintf(text, size, "%u of %u", row->votes, row->servers);
        break;
    case WAITERS:
        (void)snprintf(text, size, "%zu", row->waiters);
        break;
    case CLIENT:
        (void)snprintf(text, size, "%s", row->holder);
        break;
    case REMAINING:
        if (row->holders == 0) { /* the value could not be read */
            status_printable("", text, size);
        } else {
            status_duration(row->remaining_ms, text, size);
        }
    }
}

static void write_table(FILE *out, const struct rows *rows, bool quorum, int width)
{
    if (rows->count == 0) {
        (void)fputs("no lock is held\n", out);
        return;
    }
    columns_write(out, quorum ? quorum_columns : columns, write_cell, rows->all,
                  rows->count, width);
}

static void write_json(FILE *out, const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        (void)fprintf(out, "%s\n", rows->all[i].line);
    }
}

#define PROGRESS_MS 100 /* between two lines */

struct list {
    struct query query;
    struct rows rows;
    unsigned server;  /* of a quorum, which is asked */
    bool on_terminal; /* the progress is displayed */
    int64_t due_ms;   /* the next line */
};

/* ---- progress ---- */

/* "1,234,567" */
static void format_thousands(uint64_t number, char *text, size_t size)
{
    char digits[24];
    int count = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    size_t used = 0;

    for (int i = 0; i < count && used + 2 < size; i++) {
        if (i > 0 && (count - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
}

static void show_progress(struct list *list, const struct lw_listing *listing)
{
    char seen[40], keys[40], found[40], line[200];

    if (!list->on_terminal || system_now_ms() < list->due_ms) {
        return;
    }
    list->due_ms = system_now_ms() + PROGRESS_MS;
    format_thousands(listing->seen, seen, sizeof(seen));
    format_thousands(listing->keys, keys, sizeof(keys));
    format_thousands(listing->found, found, sizeof(found));
    (void)snprintf(line, sizeof(line), "%s%s%s keys, %s lock%s", seen,
                   listing->keys > 0 ? " of " : "", listing->keys > 0 ? keys : "", found,
                   listing->found == 1 ? "" : "s");
    line[columns_fit(line, strlen(line), terminal_size(STDERR_FILENO).ws_col - 1)] = '\0';
    report_transient(line);
}

/* ---- the end ---- */

/* `servers`: how many the quorum has. Returns the exit code. */
static int write_all(struct list *list, const struct options *options, unsigned servers)
{
    sort_rows(&list->rows);
    if (options->json) {
        write_json(stdout, &list->rows);
    } else {
        if (options->quorum) {
            merge_names(&list->rows, servers);
        }
        write_table(stdout, &list->rows, options->quorum,
                    options->wide ? 0 : terminal_size(STDOUT_FILENO).ws_col);
    }
    return report_flush() ? EXIT_SUCCESS : EXIT_SYSTEM;
}

/* ---- callbacks ---- */

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    struct list *list = arg;
    struct lw_master followed = LW_MASTER_INIT;

    (void)client;
    if (found != NULL && add_row(&list->rows, found, list->query.options->json,
                                 query_master(&list->query, &followed)) < 0) {
        query_fail(&list->query, LW_ENOMEM, "");
        return 1;
    }
    if (found != NULL) {
        list->rows.all[list->rows.count - 1].server = list->server;
    }
    show_progress(list, listing);
    return 0;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    struct list *list = arg;

    (void)client, (void)listing;
    report_transient("");
    if (list->query.ending) {
        return;
    }
    if (status == LW_OK) {
        query_end(&list->query, EXIT_SUCCESS);
    } else {
        query_fail(&list->query, status, why);
    }
}

static void on_up(struct query *query)
{
    struct list *list = query->arg;
    int error;

    error = lw_list(query->client, query->options->name, on_found, on_listed, list);
    if (error != 0) {
        query_fail(query, error, "");
    }
}

/* Returns how many of the servers of the quorum have replied. Reports the others. */
static unsigned ask_each(struct list *list, const struct query_events *events,
                         const struct options *options,
                         const struct quorum_servers *servers)
{
    unsigned replied = 0;

    for (list->server = 0; list->server < servers->count; list->server++) {
        const struct quorum_member *at = &servers->at[list->server];

        list->query = (struct query){.events = events, .arg = list};
        if (quorum_query(&list->query, options, at, "lockwire-list") == EXIT_SUCCESS) {
            replied++;
        } else {
            report("the locks at %s are not listed: %s", at->host,
                   *list->query.error ? list->query.error : "no reply");
        }
    }
    return replied;
}

int list(const struct options *options)
{
    static const struct query_events events = {.up = on_up};
    struct list list = {.query = {.options = options, .events = &events},
                        .on_terminal = isatty(STDERR_FILENO) == 1};
    struct quorum_servers servers = {.count = 0};
    int code;

    if (!options->quorum) {
        list.query.arg = &list;
        code = query(&list.query, "lockwire-list");
    } else if ((code = quorum_query_servers(options, &servers)) == 0 &&
               ask_each(&list, &events, options, &servers) < servers.majority) {
        code = EXIT_NO_SERVER;
    }
    if (code == EXIT_SUCCESS) {
        code = write_all(&list, options, servers.count);
    }
    quorum_query_clear(&servers);
    clear_rows(&list.rows);
    return code;
}
