/* SPDX-License-Identifier: MIT */
/*
 * See picture.h. A table is a list of columns, each a title and how to write a cell;
 * widths are found by writing all cells twice.
 *
 * Happy path: picture_table writes the headline, the holders' table, the waiters'.
 */
#include "picture.h"

#include "base/told.h"
#include "lockwire.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#define CELL 4200 /* 1024 bytes of a token, each as \xNN */
#define COLUMNS 7

static const char *const modes[] = {"mutex", "write", "read"};
static const char *const json_modes[] = {"mutex", "exclusive", "shared"};

/* ---- words ---- */

static void write_time(int64_t ms, char *text, size_t size)
{
    int64_t s = ms / 1000;

    if (ms < 0) {
        (void)snprintf(text, size, "no limit");
    } else if (s < 60) {
        (void)snprintf(text, size, "%" PRId64 ".%" PRId64 "s", s, ms % 1000 / 100);
    } else if (s < 3600) {
        (void)snprintf(text, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else {
        (void)snprintf(text, size, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    }
}

/* Of what lives longer than locks do. */
static void write_age(int64_t ms, char *text, size_t size)
{
    int64_t hours = ms / 3600000;

    if (hours < 24) {
        write_time(ms, text, size);
    } else {
        (void)snprintf(text, size, "%" PRId64 "d%02" PRId64 "h", hours / 24, hours % 24);
    }
}

static void write_number(uint64_t number, char *text, size_t size)
{
    if (number > 0) {
        (void)snprintf(text, size, "%" PRIu64, number);
    } else {
        (void)snprintf(text, size, "-");
    }
}

static void write_text(const char *from, char *text, size_t size)
{
    lw__told(*from ? from : "-", text, size);
}

void picture_words(const struct lw_inspected *entry, char *text, size_t size)
{
    char owner[CELL], client[CELL], token[CELL];

    write_text(entry->owner, owner, sizeof(owner));
    write_text(entry->client, client, sizeof(client));
    write_text(entry->token, token, sizeof(token));
    (void)snprintf(text, size, "%s %s %s %s", modes[entry->mode], owner, client, token);
}

void picture_place(const struct lw_master *master, char *text, size_t size)
{
    bool bracketed = strchr(master->host, ':') != NULL;

    (void)snprintf(text, size, "%s%s%s:%u", bracketed ? "[" : "", master->host,
                   bracketed ? "]" : "", (unsigned)master->port);
}

static void write_master(FILE *out, const struct lw_master *master)
{
    char place[300], since[40];

    picture_place(master, place, sizeof(place));
    (void)fprintf(out, "service %s, master %s", master->service, place);
    if (master->for_ms >= 0) {
        write_age(master->for_ms, since, sizeof(since));
        (void)fprintf(out, " for %s", since);
    }
    (void)fputc('\n', out);
}

void picture_headline(const struct lw_inspection *seen, char *text, size_t size)
{
    char name[CELL], type[CELL];
    int used;

    lw__told(seen->name, name, sizeof(name));
    lw__told(seen->stranger, type, sizeof(type));
    if (*type) {
        used =
            snprintf(text, size, "%s: held by a stranger, the key is a %s", name, type);
    } else if (seen->holder_total > 0) {
        used = snprintf(text, size, "%s: held by %zu", name, seen->holder_total);
    } else {
        used = snprintf(text, size, "%s: free", name);
    }
    if (seen->waiter_total > 0 && used > 0 && (size_t)used < size) {
        (void)snprintf(text + used, size - (size_t)used, ", %zu waiting",
                       seen->waiter_total);
    }
}

/* ---- the table ---- */

struct column {
    const char *title;
    void (*cell)(const struct lw_inspected *entry, size_t index, char *text, size_t size);
};

static void cell_position(const struct lw_inspected *entry, size_t index, char *text,
                          size_t size)
{
    (void)entry;
    (void)snprintf(text, size, "%zu", index + 1);
}

static void cell_mode(const struct lw_inspected *entry, size_t index, char *text,
                      size_t size)
{
    (void)index;
    (void)snprintf(text, size, "%s", modes[entry->mode]);
}

static void cell_owner(const struct lw_inspected *entry, size_t index, char *text,
                       size_t size)
{
    (void)index;
    write_text(entry->owner, text, size);
}

static void cell_left(const struct lw_inspected *entry, size_t index, char *text,
                      size_t size)
{
    (void)index;
    write_time(entry->remaining_ms, text, size);
}

static void cell_waited(const struct lw_inspected *entry, size_t index, char *text,
                        size_t size)
{
    (void)index;
    write_time(entry->waited_ms, text, size);
}

static void cell_fence(const struct lw_inspected *entry, size_t index, char *text,
                       size_t size)
{
    (void)index;
    write_number(entry->fence, text, size);
}

static void cell_permits(const struct lw_inspected *entry, size_t index, char *text,
                         size_t size)
{
    (void)index;
    write_number(entry->permits, text, size);
}

static void cell_client(const struct lw_inspected *entry, size_t index, char *text,
                        size_t size)
{
    (void)index;
    write_text(entry->client, text, size);
}

static void cell_token(const struct lw_inspected *entry, size_t index, char *text,
                       size_t size)
{
    (void)index;
    write_text(entry->token, text, size);
}

static const struct column holders[] = {
    {"HELD", cell_mode},   {"OWNER", cell_owner},   {"LEFT", cell_left},
    {"FENCE", cell_fence}, {"CLIENT", cell_client}, {"TOKEN", cell_token},
    {NULL, NULL},
};
static const struct column waiters[] = {
    {"#", cell_position},      {"WAITS", cell_mode},
    {"OWNER", cell_owner},     {"WAITED", cell_waited},
    {"PERMITS", cell_permits}, {"CLIENT", cell_client},
    {"TOKEN", cell_token},     {NULL, NULL},
};

/* Columns of a terminal that it takes, one for each character. */
static int width_of(const char *text)
{
    int width = 0;

    for (; *text; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

static void write_row(FILE *out, const struct column *columns, const int *widths,
                      const struct lw_inspected *entry, size_t index)
{
    char text[CELL];

    for (size_t i = 0; columns[i].title != NULL; i++) {
        if (entry != NULL) {
            columns[i].cell(entry, index, text, sizeof(text));
        } else {
            (void)snprintf(text, sizeof(text), "%s", columns[i].title);
        }
        (void)fputs(text, out);
        if (columns[i + 1].title != NULL) {
            (void)fprintf(out, "%*s", widths[i] - width_of(text) + 2, "");
        }
    }
    (void)fputc('\n', out);
}

/* lw_inspection_holder, lw_inspection_waiter */
typedef const struct lw_inspected *entry_at(const struct lw_inspection *seen,
                                            size_t index);

static void write_table(FILE *out, const struct column *columns,
                        const struct lw_inspection *seen, entry_at *at, size_t count,
                        size_t total)
{
    int widths[COLUMNS] = {0};
    char text[CELL];

    if (count == 0) {
        return;
    }
    for (size_t i = 0; columns[i].title != NULL; i++) {
        widths[i] = width_of(columns[i].title);
        for (size_t row = 0; row < count; row++) {
            columns[i].cell(at(seen, row), row, text, sizeof(text));
            if (width_of(text) > widths[i]) {
                widths[i] = width_of(text);
            }
        }
    }
    (void)fputc('\n', out);
    write_row(out, columns, widths, NULL, 0);
    for (size_t row = 0; row < count; row++) {
        write_row(out, columns, widths, at(seen, row), row);
    }
    if (total > count) {
        (void)fprintf(out, "... and %zu more\n", total - count);
    }
}

void picture_table(FILE *out, const struct lw_inspection *seen,
                   const struct lw_master *master)
{
    char headline[3 * CELL];

    picture_headline(seen, headline, sizeof(headline));
    (void)fprintf(out, "%s\n", headline);
    if (master != NULL) {
        write_master(out, master);
    }
    write_table(out, holders, seen, lw_inspection_holder, seen->holder_count,
                seen->holder_total);
    write_table(out, waiters, seen, lw_inspection_waiter, seen->waiter_count,
                seen->waiter_total);
}

/* ---- JSON ---- */

/* An object that is being made; NULL once memory was not to be had for a part of it. */
struct json {
    struct json_object *object;
};

static void put(struct json *json, const char *key, struct json_object *value)
{
    if (json->object != NULL && json_object_object_add(json->object, key, value) == 0) {
        return;
    }
    json_object_put(value);
    json_object_put(json->object);
    json->object = NULL;
}

static void put_made(struct json *json, const char *key, struct json_object *value)
{
    if (value == NULL) {
        json_object_put(json->object);
        json->object = NULL;
    }
    put(json, key, value);
}

/* "" and what is not known are null, which json-c has no object for. */
static void put_text(struct json *json, const char *key, const char *from)
{
    char text[CELL];

    lw__told(from, text, sizeof(text));
    if (*from) {
        put_made(json, key, json_object_new_string(text));
    } else {
        put(json, key, NULL);
    }
}

static void put_number(struct json *json, const char *key, int64_t number, bool known)
{
    if (known) {
        put_made(json, key, json_object_new_int64(number));
    } else {
        put(json, key, NULL);
    }
}

static struct json_object *make_entry(const struct lw_inspected *entry, size_t index,
                                      bool holds)
{
    struct json json = {json_object_new_object()};

    put_text(&json, "mode", json_modes[entry->mode]);
    put_text(&json, "token", entry->token);
    put_text(&json, "owner", entry->owner);
    put_text(&json, "client", entry->client);
    if (holds) {
        put_number(&json, "remaining_ms", entry->remaining_ms, entry->remaining_ms >= 0);
        put_number(&json, "fence", (int64_t)entry->fence, entry->fence > 0);
    } else {
        put_number(&json, "position", (int64_t)index + 1, true);
        put_number(&json, "waited_ms", entry->waited_ms, true);
        put_number(&json, "permits", entry->permits, entry->permits > 0);
    }
    return json.object;
}

static struct json_object *make_entries(const struct lw_inspection *seen, entry_at *at,
                                        bool holds)
{
    struct json_object *array = json_object_new_array(), *entry;
    const struct lw_inspected *seen_entry;

    for (size_t i = 0; array != NULL && (seen_entry = at(seen, i)) != NULL; i++) {
        entry = make_entry(seen_entry, i, holds);
        if (entry == NULL || json_object_array_add(array, entry) != 0) {
            json_object_put(entry);
            json_object_put(array);
            array = NULL;
        }
    }
    return array;
}

static struct json_object *make_master(const struct lw_master *master)
{
    struct json json = {json_object_new_object()};

    put_text(&json, "service", master->service);
    put_text(&json, "host", master->host);
    put_number(&json, "port", master->port, true);
    put_number(&json, "for_ms", master->for_ms, master->for_ms >= 0);
    return json.object;
}

int picture_json(FILE *out, const struct lw_inspection *seen,
                 const struct lw_master *master)
{
    struct json json = {json_object_new_object()};
    const char *text = NULL;

    put_text(&json, "name", seen->name);
    put_text(&json, "stranger", seen->stranger);
    put_number(&json, "holder_total", (int64_t)seen->holder_total, true);
    put_made(&json, "holders", make_entries(seen, lw_inspection_holder, true));
    put_number(&json, "waiter_total", (int64_t)seen->waiter_total, true);
    put_made(&json, "waiters", make_entries(seen, lw_inspection_waiter, false));
    if (master != NULL) {
        put_made(&json, "master", make_master(master));
    } else {
        put(&json, "master", NULL);
    }
    if (json.object != NULL) {
        text = json_object_to_json_string_ext(
            json.object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
    }
    if (text != NULL) {
        (void)fprintf(out, "%s\n", text);
    }
    json_object_put(json.object);
    return text != NULL ? 0 : -1;
}
