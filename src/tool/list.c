/* SPDX-License-Identifier: MIT */
/* list: the locks that are held. lw_list reports each of them and its progress; at the
 * end all are written, sorted by name, each once. A list that is incomplete because of a
 * failure is not written. */
#include "columns.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"
#include "terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lw_inspection;
struct lw_master;
struct row;

struct rows {
    struct row *all;
    size_t count, room;
};

/* `json`: for that, else for a table. 0, or -1: no memory. */
static int rows_add(struct rows *rows, const struct lw_inspection *seen, bool json,
                    const struct lw_master *master);
/* By name; of one that came twice what came last. */
static void rows_sort(struct rows *rows);
/* width 0: nothing is cut. */
static void rows_table(FILE *out, const struct rows *rows, int width);
static void rows_json(FILE *out, const struct rows *rows);
static void rows_clear(struct rows *rows);

#define LEAST_NAME 20
#define LEAST_WHO 16

struct row {
    size_t number; /* in the order of coming */
    char *name;    /* as it stands in Redis */
    char *line;    /* of JSON, or NULL: */
    char *who;
    const char *mode;
    size_t holders, waiters;
    int64_t left_ms;
};

/* ---- what is kept ---- */

static const char *mode_of(const struct lw_inspection *seen)
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
    return picture_mode(holder);
}

/* Of the longest lease; below 0: one does not end. */
static int64_t left_of(const struct lw_inspection *seen)
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

/* The one, and how many more. */
static void write_who(const struct lw_inspection *seen, char *text, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    const char *who = "";
    char shown[COLUMNS_CELL], more[40] = "";

    if (holder != NULL) {
        who = *holder->client          ? holder->client
              : *picture_owner(holder) ? picture_owner(holder)
                                       : holder->token;
    }
    picture_text(who, shown, sizeof(shown));
    if (seen->holder_total > 1) {
        (void)snprintf(more, sizeof(more), ", +%zu", seen->holder_total - 1);
    }
    (void)snprintf(text, size, "%s%s", shown, more);
}

static void forget(struct row *row)
{
    free(row->name);
    free(row->line);
    free(row->who);
}

static bool take(struct row *row, const struct lw_inspection *seen, bool json,
                 const struct lw_master *master)
{
    char who[COLUMNS_CELL + 40];

    *row = (struct row){.name = strdup(seen->name)};
    if (json) {
        row->line = picture_json_line(seen, master, false);
        return row->name != NULL && row->line != NULL;
    }
    write_who(seen, who, sizeof(who));
    row->who = strdup(who);
    row->mode = mode_of(seen);
    row->holders = seen->holder_total;
    row->waiters = seen->waiter_total;
    row->left_ms = left_of(seen);
    return row->name != NULL && row->who != NULL;
}

static int rows_add(struct rows *rows, const struct lw_inspection *seen, bool json,
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
    if (!take(row, seen, json, master)) {
        forget(row);
        return -1;
    }
    row->number = rows->count++;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    int order = strcmp(one->name, other->name);

    if (order != 0) {
        return order;
    }
    return one->number < other->number ? -1 : one->number > other->number;
}

static void rows_sort(struct rows *rows)
{
    size_t kept = 0;

    if (rows->count == 0) {
        return;
    }
    qsort(rows->all, rows->count, sizeof(*rows->all), by_name);
    for (size_t i = 1; i < rows->count; i++) {
        if (strcmp(rows->all[kept].name, rows->all[i].name) == 0) {
            forget(&rows->all[kept]);
        } else {
            kept++;
        }
        rows->all[kept] = rows->all[i];
    }
    rows->count = kept + 1;
}

static void rows_clear(struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        forget(&rows->all[i]);
    }
    free(rows->all);
    *rows = (struct rows){0};
}

/* ---- the table ---- */

static void cell_name(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    picture_text(row->name, text, size);
}

static void cell_mode(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    (void)snprintf(text, size, "%s", row->mode);
}

static void cell_holders(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    (void)snprintf(text, size, "%zu", row->holders);
}

static void cell_waiters(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    (void)snprintf(text, size, "%zu", row->waiters);
}

static void cell_left(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    if (row->holders == 0) { /* what stands there could not be read */
        picture_text("", text, size);
    } else {
        picture_time(row->left_ms, text, size);
    }
}

static void cell_who(const void *of, size_t index, char *text, size_t size)
{
    const struct row *row = of;

    (void)index;
    (void)snprintf(text, size, "%s", row->who);
}

/* The last one would be left out where names are long (columns.h). */
static const struct column columns[] = {
    {"NAME", cell_name, LEAST_NAME},
    {"HELD", cell_mode, 0},
    {"BY", cell_holders, 0},
    {"WAITING", cell_waiters, 0},
    {"CLIENT", cell_who, LEAST_WHO},
    {"LEFT", cell_left, 0},
    {NULL, NULL, 0},
};

static const void *row_at(const void *all, size_t index)
{
    return (const struct row *)all + index;
}

static void rows_table(FILE *out, const struct rows *rows, int width)
{
    if (rows->count == 0) {
        (void)fputs("no lock is held\n", out);
        return;
    }
    columns_write(out, columns, row_at, rows->all, rows->count, width);
}

static void rows_json(FILE *out, const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        (void)fprintf(out, "%s\n", rows->all[i].line);
    }
}

#define PROGRESS_MS 100 /* between two looks at how far it is */

struct list {
    struct reach *reach;
    struct rows rows;
    bool shows;     /* how far it is, on a terminal */
    int64_t due_ms; /* the next time */
};

/* ---- how far it is ---- */

/* "1,234,567" */
static void write_thousands(uint64_t number, char *text, size_t size)
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

    if (!list->shows || system_now_ms() < list->due_ms) {
        return;
    }
    list->due_ms = system_now_ms() + PROGRESS_MS;
    write_thousands(listing->seen, seen, sizeof(seen));
    write_thousands(listing->keys, keys, sizeof(keys));
    write_thousands(listing->found, found, sizeof(found));
    (void)snprintf(line, sizeof(line), "%s%s%s keys, %s lock%s", seen,
                   listing->keys > 0 ? " of " : "", listing->keys > 0 ? keys : "", found,
                   listing->found == 1 ? "" : "s");
    line[columns_fitting(line, strlen(line), screen_size(STDERR_FILENO).ws_col - 1)] =
        '\0';
    say_passing(line);
}

/* ---- its ends ---- */

static void fail(struct list *list, int status, const char *why)
{
    struct reach *reach = list->reach;
    const char *colon = *why ? ": " : "";

    say_passing("");
    if (status == LW_EINVAL || status == LW_ECONN) {
        reach_fail(reach, status, why);
        return;
    }
    say("%s%s%s", status == LW_EREDIS ? "the server refuses" : lw_strerror(status), colon,
        why);
    reach_end(reach, codes_for(status, LW_OK, STATUS_BUSY));
}

static void write_all(struct list *list)
{
    const struct options *options = list->reach->options;

    rows_sort(&list->rows);
    if (options->json) {
        rows_json(stdout, &list->rows);
    } else {
        rows_table(stdout, &list->rows,
                   options->wide ? 0 : screen_size(STDOUT_FILENO).ws_col);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say("cannot write: %s", strerror(errno));
        reach_end(list->reach, STATUS_SYSTEM);
        return;
    }
    reach_end(list->reach, EXIT_SUCCESS);
}

/* ---- what the library tells ---- */

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    struct list *list = arg;
    struct lw_master followed = LW_MASTER_INIT;

    (void)client;
    if (found != NULL && rows_add(&list->rows, found, list->reach->options->json,
                                  reach_master(list->reach, &followed)) < 0) {
        fail(list, LW_ENOMEM, "");
        return 1;
    }
    show_progress(list, listing);
    return 0;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    struct list *list = arg;

    (void)client, (void)listing;
    say_passing("");
    if (list->reach->ending) {
        return;
    }
    if (status == LW_OK) {
        write_all(list);
    } else {
        fail(list, status, why);
    }
}

static void on_up(struct reach *reach)
{
    struct list *list = reach->arg;
    int error;

    list->reach = reach;
    error = lw_list(reach->client, reach->options->name, on_found, on_listed, list);
    if (error != 0) {
        fail(list, error, "");
    }
}

static void on_down(struct reach *reach, const char *why)
{
    say_passing("");
    reach_fail(reach, LW_ECONN, why);
}

int list(const struct options *options)
{
    static const struct reach_events events = {.up = on_up, .down = on_down};
    struct list list = {.shows = isatty(STDERR_FILENO) == 1};
    int code = reach(options, &events, "lockwire-list", &list);

    rows_clear(&list.rows);
    return code;
}
