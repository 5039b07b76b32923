/* SPDX-License-Identifier: MIT */
/*
 * See picture.h: a look for people. The headline, who was asked and when, a table of the
 * holders, one of the waiters.
 *
 * Happy path: picture_take writes all of it but the age, picture_show puts that in.
 */
#include "picture.h"

#include "columns.h"
#include "lockwire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- columns ---- */

static void cell_position(const void *row, size_t index, char *text, size_t size)
{
    (void)row;
    (void)snprintf(text, size, "%zu", index + 1);
}

static void cell_mode(const void *row, size_t index, char *text, size_t size)
{
    (void)index;
    (void)snprintf(text, size, "%s", picture_mode(row));
}

static void cell_owner(const void *row, size_t index, char *text, size_t size)
{
    (void)index;
    picture_text(picture_owner(row), text, size);
}

static void cell_left(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    picture_time(entry->remaining_ms, text, size);
}

static void cell_waited(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    picture_time(entry->waited_ms, text, size);
}

static void write_number(uint64_t number, char *text, size_t size)
{
    if (number > 0) {
        (void)snprintf(text, size, "%" PRIu64, number);
    } else {
        (void)snprintf(text, size, "-");
    }
}

static void cell_fence(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    write_number(entry->fence, text, size);
}

static void cell_permits(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    write_number(entry->permits, text, size);
}

static void cell_client(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    picture_text(entry->client, text, size);
}

static void cell_token(const void *row, size_t index, char *text, size_t size)
{
    const struct lw_inspected *entry = row;

    (void)index;
    picture_text(entry->token, text, size);
}

/* Of a client's name its beginning is to be seen, and the pid; of a token as much as
 * tells one from the others. */
#define LEAST_OWNER 10
#define LEAST_CLIENT 16
#define LEAST_TOKEN 17

static const struct column holders[] = {
    {"HELD", cell_mode, 0},
    {"OWNER", cell_owner, LEAST_OWNER},
    {"LEFT", cell_left, 0},
    {"FENCE", cell_fence, 0},
    {"CLIENT", cell_client, LEAST_CLIENT},
    {"TOKEN", cell_token, LEAST_TOKEN},
    {NULL, NULL, 0},
};
static const struct column waiters[] = {
    {"#", cell_position, 0},
    {"WAITS", cell_mode, 0},
    {"OWNER", cell_owner, LEAST_OWNER},
    {"WAITED", cell_waited, 0},
    {"PERMITS", cell_permits, 0},
    {"CLIENT", cell_client, LEAST_CLIENT},
    {"TOKEN", cell_token, LEAST_TOKEN},
    {NULL, NULL, 0},
};

/* ---- tables ---- */

static const void *holder_at(const void *holders, size_t index)
{
    return ((const struct lw_inspected *const *)holders)[index];
}

static const void *waiter_at(const void *seen, size_t index)
{
    return lw_inspection_waiter(seen, index);
}

static void write_table(FILE *out, const struct column *columns, columns_row *at,
                        const void *rows, size_t count, size_t total, int width)
{
    if (count == 0) {
        return;
    }
    (void)fputc('\n', out);
    columns_write(out, columns, at, rows, count, width);
    if (total > count) {
        (void)fprintf(out, "... and %zu more\n", total - count);
    }
}

/* NULL: no memory. */
static char *make_tables(const struct lw_inspection *seen, int width)
{
    const struct lw_inspected **sorted = picture_holders(seen);
    char *text = NULL;
    size_t size;
    FILE *out = sorted != NULL ? open_memstream(&text, &size) : NULL;
    bool made = false;

    if (out != NULL) {
        write_table(out, holders, holder_at, sorted, seen->holder_count,
                    seen->holder_total, width);
        write_table(out, waiters, waiter_at, seen, seen->waiter_count, seen->waiter_total,
                    width);
        made = fclose(out) == 0;
    }
    free(sorted);
    if (!made) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- pictures ---- */

static void write_server(const struct lw_inspection *seen, const struct lw_master *master,
                         char *text, size_t size)
{
    char place[300], since[40] = "";

    if (master == NULL) {
        picture_server(seen, text, size);
        return;
    }
    picture_place(master, place, sizeof(place));
    if (master->for_ms >= 0) {
        picture_age(master->for_ms, since, sizeof(since));
    }
    (void)snprintf(text, size, "service %s, master %s%s%s", master->service, place,
                   *since ? " for " : "", since);
}

void picture_forget(struct picture *picture)
{
    free(picture->headline);
    free(picture->server);
    free(picture->tables);
    *picture = (struct picture){0};
}

int picture_take(struct picture *picture, const struct lw_inspection *seen,
                 const struct lw_master *master, int width)
{
    char headline[3 * COLUMNS_CELL], server[1000];
    struct picture taken;

    picture_headline(seen, width, headline, sizeof(headline));
    write_server(seen, master, server, sizeof(server));
    taken = (struct picture){strdup(headline), strdup(server), make_tables(seen, width)};
    if (taken.headline == NULL || taken.server == NULL || taken.tables == NULL) {
        picture_forget(&taken);
        return -1;
    }
    picture_forget(picture);
    *picture = taken;
    return 0;
}

static void write_line(FILE *out, const char *text, int width)
{
    size_t length = strlen(text);

    if (width > 0) {
        length = columns_fitting(text, length, width);
    }
    (void)fprintf(out, "%.*s\n", (int)length, text);
}

void picture_show(FILE *out, const struct picture *picture, int64_t age_ms,
                  const char *remark, const char *why, int width)
{
    char age[40], said[200], server[1000], line[sizeof(server) + sizeof(said)];

    picture_age(age_ms, age, sizeof(age));
    (void)snprintf(said, sizeof(said), "; %s ago%s%s", age, *remark ? ", " : "", remark);
    columns_cut(picture->server,
                width > 0 ? width - columns_width(said) : columns_width(picture->server),
                server, sizeof(server));
    (void)snprintf(line, sizeof(line), "%s%s", server, said);
    write_line(out, picture->headline, width);
    write_line(out, line, width);
    if (*why) {
        write_line(out, why, width);
    }
    (void)fputs(picture->tables, out);
}
