/* SPDX-License-Identifier: MIT */
/* See status_format.h. In JSON, values that change as time passes are left out on demand,
 * to compare two states. */
#include "status_format.h"

#include "base/degraded.h"
#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"
#include "query.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void status_duration(int64_t ms, char *text, size_t size)
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

void status_age(int64_t ms, char *text, size_t size)
{
    int64_t hours = ms / 3600000;

    if (hours < 24) {
        status_duration(ms, text, size);
    } else {
        (void)snprintf(text, size, "%" PRId64 "d%02" PRId64 "h", hours / 24, hours % 24);
    }
}

const char *status_mode(const struct lw_inspected *entry)
{
    static const char *const modes[] = {"mutex", "write", "read"};

    return modes[entry->mode];
}

const char *status_owner(const struct lw_inspected *entry)
{
    return strcmp(entry->owner, entry->token) != 0 ? entry->owner : "";
}

static int by_number(const void *left, const void *right)
{
    const struct lw_inspected *one = *(const struct lw_inspected *const *)left;
    const struct lw_inspected *other = *(const struct lw_inspected *const *)right;

    return one->fence != other->fence ? (one->fence < other->fence ? -1 : 1)
                                      : strcmp(one->token, other->token);
}

/* Returns the holders in the order of their fencing tokens, so that none changes its
 * place while it holds; to be freed. NULL if there is no memory. */
static const struct lw_inspected **sort_holders(const struct lw_inspection *seen)
{
    const struct lw_inspected **holders =
        calloc(seen->holder_count + 1, sizeof(const struct lw_inspected *));

    for (size_t i = 0; holders != NULL && i < seen->holder_count; i++) {
        holders[i] = lw_inspection_holder(seen, i);
    }
    if (holders != NULL) {
        qsort(holders, seen->holder_count, sizeof(const struct lw_inspected *),
              by_number);
    }
    return holders;
}

void status_free(const struct query_guard *guard, char *text, size_t size)
{
    char time[40], own[40];

    if (guard->refused) {
        status_duration(guard->time_ms, time, sizeof(time));
        status_duration(guard->own_ms, own, sizeof(own));
        (void)snprintf(text, size, "no lock can be granted: the guard time is %s, not %s",
                       time, own);
    } else if (guard->left_ms > 0) {
        status_duration(guard->left_ms, time, sizeof(time));
        (void)snprintf(text, size, "no lock can be granted for %s: the guard is closed",
                       time);
    } else {
        (void)snprintf(text, size, "free");
    }
}

void status_guard(const struct query_guard *guard, char *text, size_t size)
{
    char time[40], left[40];

    *text = '\0';
    status_duration(guard->time_ms, time, sizeof(time));
    status_duration(guard->left_ms, left, sizeof(left));
    if (guard->refused) {
        (void)snprintf(text, size,
                       "%s; no lock is granted to clients with another time: use "
                       "?guard=%" PRId64 "ms",
                       time, guard->time_ms);
    } else if (guard->left_ms > 0) {
        (void)snprintf(text, size,
                       "%s; closed for %s, after a restart, a failover or an exchange, "
                       "or at its first use",
                       time, left);
    } else if (guard->time_ms > 0) {
        (void)snprintf(text, size, "%s", time);
    }
}

void status_printable(const char *from, char *text, size_t size)
{
    lw__escape(*from ? from : "-", text, size);
}

void status_value(const char *value, char text[STATUS_VALUE_SIZE])
{
    char shown[STATUS_VALUE_SIZE];
    size_t length = 0;

    for (int count = 0; count < 64 && value[length] != '\0'; count++) {
        size_t size = lw__escape_character(value + length);

        length += size > 0 ? size : 1;
    }
    (void)snprintf(shown, sizeof(shown), "%.*s", (int)length, value);
    lw__escape(shown, text, STATUS_VALUE_SIZE);
    if (value[length] != '\0') {
        length = strlen(text);
        (void)snprintf(text + length, STATUS_VALUE_SIZE - length, "\xe2\x80\xa6");
    }
}

void status_entry(const struct lw_inspected *entry, char *text, size_t size)
{
    char owner[COLUMNS_CELL_MAX], client[COLUMNS_CELL_MAX], token[COLUMNS_CELL_MAX];
    char note[COLUMNS_CELL_MAX];

    status_printable(status_owner(entry), owner, sizeof(owner));
    status_printable(entry->client, client, sizeof(client));
    status_printable(entry->token, token, sizeof(token));
    lw__escape(entry->note, note, sizeof(note));
    (void)snprintf(text, size, "%s %s %s %s%s%s", status_mode(entry), owner, client,
                   token, *note ? " " : "", note);
}

void status_endpoint(const struct lw_master *master, char *text, size_t size)
{
    bool bracketed = strchr(master->host, ':') != NULL;

    (void)snprintf(text, size, "%s%s%s:%u", bracketed ? "[" : "", master->host,
                   bracketed ? "]" : "", (unsigned)master->port);
}

void status_server(const struct lw_inspection *seen, char *text, size_t size)
{
    (void)snprintf(text, size, "redis %s%s%s", seen->server, *seen->role ? ", " : "",
                   seen->role);
}

void status_headline(const struct lw_inspection *seen, const char *free, int width,
                     char *text, size_t size)
{
    char name[COLUMNS_CELL_MAX], shown[COLUMNS_CELL_MAX], type[COLUMNS_CELL_MAX],
        suffix[COLUMNS_CELL_MAX + 100], waiting[40] = "";

    lw__escape(seen->name, name, sizeof(name));
    lw__escape(seen->foreign, type, sizeof(type));
    if (seen->waiter_total > 0) {
        (void)snprintf(waiting, sizeof(waiting), ", %zu waiter%s", seen->waiter_total,
                       seen->waiter_total == 1 ? "" : "s");
    }
    if (*type) {
        (void)snprintf(suffix, sizeof(suffix),
                       ": held by another program, the key is a %s%s", type, waiting);
    } else if (seen->holder_total > 0) {
        (void)snprintf(suffix, sizeof(suffix), ": %zu holder%s%s", seen->holder_total,
                       seen->holder_total == 1 ? "" : "s", waiting);
    } else {
        (void)snprintf(suffix, sizeof(suffix), ": %s%s", free, waiting);
    }
    columns_cut(name, width > 0 ? width - columns_width(suffix) : columns_width(name),
                shown, sizeof(shown));
    (void)snprintf(text, size, "%s%s", shown, suffix);
}

#define COMPACT (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define PRETTY (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)

static const char *const json_modes[] = {"mutex", "exclusive", "shared"};

/* An object that is being built; NULL once there was no memory for a part of it. */
struct json {
    struct json_object *object;
};

/* `null` means that a `value` of NULL is wanted: json-c has no object for it. */
static void put(struct json *json, const char *key, struct json_object *value, bool null)
{
    if (json->object != NULL && (value != NULL || null) &&
        json_object_object_add(json->object, key, value) == 0) {
        return;
    }
    json_object_put(value);
    json_object_put(json->object);
    json->object = NULL;
}

/* "" becomes null. */
static void put_text(struct json *json, const char *key, const char *from)
{
    char text[COLUMNS_CELL_MAX];

    lw__escape(from, text, sizeof(text));
    put(json, key, *from ? json_object_new_string(text) : NULL, !*from);
}

/* An unknown number becomes null. */
static void put_number(struct json *json, const char *key, int64_t number, bool known)
{
    put(json, key, known ? json_object_new_int64(number) : NULL, !known);
}

/* Writes a time since 1970 to the second, as in RFC 3339, without the zone, which is UTC;
 * "" if there is no such year. */
static void format_second(int64_t ms, char *text, size_t size)
{
    time_t second = (time_t)(ms / 1000);
    struct tm utc;

    *text = '\0';
    if (gmtime_r(&second, &utc) != NULL) {
        (void)strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
    }
}

/* Writes since when an entry holds; "" if that is unknown. */
static void format_since(const struct lw_inspected *entry, char *text, size_t size)
{
    *text = '\0';
    if (entry->since_ms > 0) {
        char second[30];

        format_second(entry->since_ms, second, sizeof(second));
        (void)snprintf(text, size, "%s%s", second, *second ? "Z" : "");
    }
}

static void put_client(struct json *json, const struct lw_inspected *entry)
{
    put_text(json, "mode", json_modes[entry->mode]);
    put_text(json, "token", entry->token);
    put_text(json, "owner", status_owner(entry));
    put_text(json, "client", entry->client);
}

static struct json_object *make_holder(const struct lw_inspected *entry, bool lasting)
{
    struct json json = {json_object_new_object()};
    char since[40];

    put_client(&json, entry);
    if (!lasting) {
        put_number(&json, "remaining_ms", entry->remaining_ms, entry->remaining_ms >= 0);
    }
    put_number(&json, "fence", (int64_t)entry->fence, entry->fence > 0);
    format_since(entry, since, sizeof(since));
    put_text(&json, "since", since);
    put_text(&json, "user", entry->user);
    put_text(&json, "note", entry->note);
    return json.object;
}

static struct json_object *make_waiter(const struct lw_inspected *entry, size_t index,
                                       bool lasting)
{
    struct json json = {json_object_new_object()};

    put_client(&json, entry);
    put_number(&json, "position", (int64_t)index + 1, true);
    if (!lasting) {
        put_number(&json, "waited_ms", entry->waited_ms, true);
    }
    put_number(&json, "permits", entry->permits, entry->permits > 0);
    return json.object;
}

/* *array becomes NULL if there is no memory. */
static void add_entry(struct json_object **array, struct json_object *entry)
{
    if (*array != NULL && entry != NULL && json_object_array_add(*array, entry) == 0) {
        return;
    }
    json_object_put(entry);
    json_object_put(*array);
    *array = NULL;
}

static struct json_object *make_holders(const struct lw_inspection *seen, bool lasting)
{
    const struct lw_inspected **holders = sort_holders(seen);
    struct json_object *array = holders != NULL ? json_object_new_array() : NULL;

    for (size_t i = 0; array != NULL && i < seen->holder_count; i++) {
        add_entry(&array, make_holder(holders[i], lasting));
    }
    free(holders);
    return array;
}

static struct json_object *make_waiters(const struct lw_inspection *seen, bool lasting)
{
    struct json_object *array = json_object_new_array();

    for (size_t i = 0; array != NULL && i < seen->waiter_count; i++) {
        add_entry(&array, make_waiter(lw_inspection_waiter(seen, i), i, lasting));
    }
    return array;
}

static struct json_object *make_master(const struct lw_master *master, bool lasting)
{
    struct json json = {json_object_new_object()};

    put_text(&json, "service", master->service);
    put_text(&json, "host", master->host);
    put_number(&json, "port", master->port, true);
    if (!lasting) {
        put_number(&json, "for_ms", master->for_ms, master->for_ms >= 0);
    }
    return json.object;
}

static void put_seen(struct json *json, const struct lw_inspection *seen,
                     const struct lw_master *master, bool lasting)
{
    put_text(json, "name", seen->name);
    put_text(json, "foreign", seen->foreign);
    put_number(json, "holder_total", (int64_t)seen->holder_total, true);
    put(json, "holders", make_holders(seen, lasting), false);
    put_number(json, "waiter_total", (int64_t)seen->waiter_total, true);
    put(json, "waiters", make_waiters(seen, lasting), false);
    put_text(json, "server", seen->server);
    put_text(json, "role", seen->role);
    put(json, "master", master != NULL ? make_master(master, lasting) : NULL,
        master == NULL);
}

static void put_guard(struct json *json, const struct query_guard *guard)
{
    if (guard != NULL && guard->time_ms > 0) {
        put_number(json, "guard_ms", guard->time_ms, true);
        put_number(json, "guard_left_ms", guard->left_ms, !guard->refused);
    }
}

/* Adds the time of day in `in_ms` from now, as in RFC 3339. */
static void put_time(struct json *json, const char *key, int64_t in_ms)
{
    char second[30], text[60];
    struct timespec now;
    int64_t ms;

    clock_gettime(CLOCK_REALTIME, &now);
    ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + in_ms;
    format_second(ms, second, sizeof(second));
    (void)snprintf(text, sizeof(text), "%s.%03dZ", second, (int)(ms % 1000));
    put_text(json, key, text);
}

static void put_now(struct json *json)
{
    put_time(json, "time", 0);
}

static char *take_text(struct json *json, int flags)
{
    const char *text =
        json->object != NULL ? json_object_to_json_string_ext(json->object, flags) : NULL;
    char *copy = text != NULL ? strdup(text) : NULL;

    json_object_put(json->object);
    return copy;
}

static struct json_object *make_degraded(uint64_t degraded)
{
    static const struct {
        uint64_t bit;
        const char *word;
    } words[] = {
#define WORD(name, word) {LW_DEGRADED_##name, word},
        LW__DEGRADED_MAP(WORD)
#undef WORD
    };
    struct json_object *array = json_object_new_array();

    for (size_t i = 0; array != NULL && i < sizeof(words) / sizeof(*words); i++) {
        if ((degraded & words[i].bit) != 0) {
            add_entry(&array, json_object_new_string(words[i].word));
        }
    }
    return array;
}

int status_json(FILE *out, const struct lw_inspection *seen,
                const struct query_guard *guard, const struct lw_master *master,
                uint64_t degraded)
{
    struct json json = {json_object_new_object()};
    char *text;

    put_seen(&json, seen, master, false);
    put_guard(&json, guard);
    put(&json, "degraded", make_degraded(degraded), false);
    text = take_text(&json, PRETTY);
    if (text == NULL) {
        return -1;
    }
    (void)fprintf(out, "%s\n", text);
    free(text);
    return 0;
}

char *status_json_line(const struct lw_inspection *seen, const struct query_guard *guard,
                       const struct lw_master *master, bool lasting)
{
    struct json json = {json_object_new_object()};

    if (!lasting) {
        put_now(&json);
    }
    put_seen(&json, seen, master, lasting);
    put_guard(&json, guard);
    return take_text(&json, COMPACT);
}

char *status_json_outage(const char *name, const char *outage, const char *why,
                         int64_t age_ms)
{
    struct json json = {json_object_new_object()};

    put_now(&json);
    put_text(&json, "name", name);
    put_text(&json, "outage", outage);
    put_text(&json, "why", why);
    put_number(&json, "age_ms", age_ms, age_ms >= 0);
    return take_text(&json, COMPACT);
}

char *status_json_taken(const char *name, const char *token, uint64_t fence,
                        int64_t left_ms)
{
    struct json json = {json_object_new_object()};

    put_text(&json, "name", name);
    put_text(&json, "token", token);
    put_number(&json, "fence", (int64_t)fence, fence > 0);
    put_time(&json, "until", left_ms);
    return take_text(&json, COMPACT);
}

/* ---- tables ---- */

/* The beginning of a client's name and its pid stay visible, and enough of a token to
 * distinguish it. */
#define MIN_OWNER 10
#define MIN_CLIENT 16
#define MIN_TOKEN 17
#define MIN_NOTE 12

enum field {
    POSITION,
    MODE,
    OWNER,
    REMAINING,
    WAITED,
    FENCE,
    PERMITS,
    SINCE,
    CLIENT,
    USER,
    NOTE,
    TOKEN
};

/* clang-format off */
static const struct column holder_columns[] = {
    {"HELD", MODE, 0}, {"OWNER", OWNER, MIN_OWNER}, {"LEASE", REMAINING, 0},
    {"FENCE", FENCE, 0}, {"CLIENT", CLIENT, MIN_CLIENT}, {"TOKEN", TOKEN, MIN_TOKEN},
    {NULL, 0, 0},
};
/* if one of the holders is described (lw_acquire_options, note) */
static const struct column described_columns[] = {
    {"HELD", MODE, 0}, {"OWNER", OWNER, MIN_OWNER}, {"LEASE", REMAINING, 0},
    {"SINCE", SINCE, 0}, {"CLIENT", CLIENT, MIN_CLIENT}, {"USER", USER, 0},
    {"NOTE", NOTE, MIN_NOTE}, {"FENCE", FENCE, 0}, {"TOKEN", TOKEN, MIN_TOKEN},
    {NULL, 0, 0},
};
static const struct column waiter_columns[] = {
    {"#", POSITION, 0}, {"WAITS", MODE, 0}, {"OWNER", OWNER, MIN_OWNER},
    {"WAITED", WAITED, 0}, {"PERMITS", PERMITS, 0}, {"CLIENT", CLIENT, MIN_CLIENT},
    {"TOKEN", TOKEN, MIN_TOKEN}, {NULL, 0, 0},
};
/* clang-format on */

static void write_number(uint64_t number, char *text, size_t size)
{
    if (number > 0) {
        (void)snprintf(text, size, "%" PRIu64, number);
    } else {
        (void)snprintf(text, size, "-");
    }
}

static void write_cell(const struct lw_inspected *entry, size_t index, int field,
                       char *text, size_t size)
{
    switch ((enum field)field) {
    case POSITION:
        write_number(index + 1, text, size);
        break;
    case MODE:
        (void)snprintf(text, size, "%s", status_mode(entry));
        break;
    case OWNER:
        status_printable(status_owner(entry), text, size);
        break;
    case REMAINING:
        status_duration(entry->remaining_ms, text, size);
        break;
    case WAITED:
        status_duration(entry->waited_ms, text, size);
        break;
    case FENCE:
        write_number(entry->fence, text, size);
        break;
    case PERMITS:
        write_number(entry->permits, text, size);
        break;
    case SINCE:
        format_since(entry, text, size);
        break;
    case CLIENT:
        status_printable(entry->client, text, size);
        break;
    case USER:
        status_printable(entry->user, text, size);
        break;
    case NOTE:
        status_printable(entry->note, text, size);
        break;
    case TOKEN:
        status_printable(entry->token, text, size);
    }
}

static void holder_cell(const void *sorted, size_t index, int field, char *text,
                        size_t size)
{
    write_cell(((const struct lw_inspected *const *)sorted)[index], index, field, text,
               size);
}

static void waiter_cell(const void *seen, size_t index, int field, char *text,
                        size_t size)
{
    write_cell(lw_inspection_waiter(seen, index), index, field, text, size);
}

static void write_table(FILE *out, const struct column *columns, columns_cell *cell,
                        const void *rows, size_t count, size_t total, int width)
{
    if (count == 0) {
        return;
    }
    (void)fputc('\n', out);
    columns_write(out, columns, cell, rows, count, width);
    if (total > count) {
        (void)fprintf(out, "... and %zu more\n", total - count);
    }
}

static bool is_any_described(const struct lw_inspection *seen)
{
    size_t i = 0;

    while (i < seen->holder_count && lw_inspection_holder(seen, i)->since_ms == 0) {
        i++;
    }
    return i < seen->holder_count;
}

/* Returns NULL if there is no memory. */
static char *make_tables(const struct lw_inspection *seen, int width)
{
    const struct lw_inspected **sorted = sort_holders(seen);
    char *text = NULL;
    size_t size;
    FILE *out = sorted != NULL ? open_memstream(&text, &size) : NULL;
    bool made = false;

    if (out != NULL) {
        write_table(out, is_any_described(seen) ? described_columns : holder_columns,
                    holder_cell, sorted, seen->holder_count, seen->holder_total, width);
        write_table(out, waiter_columns, waiter_cell, seen, seen->waiter_count,
                    seen->waiter_total, width);
        made = fclose(out) == 0;
    }
    free(sorted);
    if (!made) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- views ---- */

static void write_server(const struct lw_inspection *seen, const struct lw_master *master,
                         char *text, size_t size)
{
    char place[600], since[40] = "";

    if (master == NULL) {
        status_server(seen, text, size);
        return;
    }
    status_endpoint(master, place, sizeof(place));
    if (strncmp(seen->server, place, strlen(place)) == 0) { /* with where it is mapped */
        (void)snprintf(place, sizeof(place), "%s", seen->server);
    }
    if (master->for_ms >= 0) {
        status_age(master->for_ms, since, sizeof(since));
    }
    (void)snprintf(text, size, "service %s, master %s%s%s", master->service, place,
                   *since ? " for " : "", since);
}

void status_view_clear(struct status_view *view)
{
    free(view->headline);
    free(view->server);
    free(view->tables);
    *view = (struct status_view){0};
}

int status_view_take(struct status_view *view, const struct lw_inspection *seen,
                     const char *free, const struct lw_master *master, int width)
{
    char headline[3 * COLUMNS_CELL_MAX], server[1000];
    struct status_view taken;

    status_headline(seen, free, width, headline, sizeof(headline));
    write_server(seen, master, server, sizeof(server));
    taken =
        (struct status_view){strdup(headline), strdup(server), make_tables(seen, width)};
    if (taken.headline == NULL || taken.server == NULL || taken.tables == NULL) {
        status_view_clear(&taken);
        return -1;
    }
    status_view_clear(view);
    *view = taken;
    return 0;
}

static void write_line(FILE *out, const char *text, int width)
{
    size_t length = strlen(text);

    if (width > 0) {
        length = columns_fit(text, length, width);
    }
    (void)fprintf(out, "%.*s\n", (int)length, text);
}

void status_view_write(FILE *out, const struct status_view *view, int64_t age_ms,
                       const char *remark, const char *why, int width)
{
    char age[40], suffix[200], server[1000], line[sizeof(server) + sizeof(suffix)];

    status_age(age_ms, age, sizeof(age));
    (void)snprintf(suffix, sizeof(suffix), "; %s ago%s%s", age, *remark ? ", " : "",
                   remark);
    columns_cut(view->server,
                width > 0 ? width - columns_width(suffix) : columns_width(view->server),
                server, sizeof(server));
    (void)snprintf(line, sizeof(line), "%s%s", server, suffix);
    write_line(out, view->headline, width);
    write_line(out, line, width);
    if (*why) {
        write_line(out, why, width);
    }
    (void)fputs(view->tables, out);
}
