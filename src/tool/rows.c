/* SPDX-License-Identifier: MIT */
/* See rows.h. A row is a lock's name and its line of JSON, or the texts of its cells. */
#include "rows.h"

#include "columns.h"
#include "lockwire.h"
#include "picture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

int rows_add(struct rows *rows, const struct lw_inspection *seen, bool json,
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

void rows_sort(struct rows *rows)
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

void rows_clear(struct rows *rows)
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

void rows_table(FILE *out, const struct rows *rows, int width)
{
    if (rows->count == 0) {
        (void)fputs("no lock is held\n", out);
        return;
    }
    columns_write(out, columns, row_at, rows->all, rows->count, width);
}

void rows_json(FILE *out, const struct rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        (void)fprintf(out, "%s\n", rows->all[i].line);
    }
}
