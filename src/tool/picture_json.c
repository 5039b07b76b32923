/* SPDX-License-Identifier: MIT */
/*
 * See picture.h: a look for programs. What passes by itself, remaining leases and times
 * waited, is put in at one place each, so that it can be left out.
 *
 * Happy path: make_seen makes the object, and json-c its text.
 */
#include "picture.h"

#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMPACT (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
#define PRETTY (JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE)

static const char *const modes[] = {"mutex", "exclusive", "shared"};

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
    char text[COLUMNS_CELL];

    lw__escape(from, text, sizeof(text));
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

static void put_who(struct json *json, const struct lw_inspected *entry)
{
    put_text(json, "mode", modes[entry->mode]);
    put_text(json, "token", entry->token);
    put_text(json, "owner", picture_owner(entry));
    put_text(json, "client", entry->client);
}

static struct json_object *make_holder(const struct lw_inspected *entry, bool lasting)
{
    struct json json = {json_object_new_object()};

    put_who(&json, entry);
    if (!lasting) {
        put_number(&json, "remaining_ms", entry->remaining_ms, entry->remaining_ms >= 0);
    }
    put_number(&json, "fence", (int64_t)entry->fence, entry->fence > 0);
    return json.object;
}

static struct json_object *make_waiter(const struct lw_inspected *entry, size_t index,
                                       bool lasting)
{
    struct json json = {json_object_new_object()};

    put_who(&json, entry);
    put_number(&json, "position", (int64_t)index + 1, true);
    if (!lasting) {
        put_number(&json, "waited_ms", entry->waited_ms, true);
    }
    put_number(&json, "permits", entry->permits, entry->permits > 0);
    return json.object;
}

/* *array is NULL once memory was not to be had for an entry. */
static void add(struct json_object **array, struct json_object *entry)
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
    const struct lw_inspected **holders = picture_holders(seen);
    struct json_object *array = holders != NULL ? json_object_new_array() : NULL;

    for (size_t i = 0; array != NULL && i < seen->holder_count; i++) {
        add(&array, make_holder(holders[i], lasting));
    }
    free(holders);
    return array;
}

static struct json_object *make_waiters(const struct lw_inspection *seen, bool lasting)
{
    struct json_object *array = json_object_new_array();

    for (size_t i = 0; array != NULL && i < seen->waiter_count; i++) {
        add(&array, make_waiter(lw_inspection_waiter(seen, i), i, lasting));
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
    put_text(json, "stranger", seen->stranger);
    put_number(json, "holder_total", (int64_t)seen->holder_total, true);
    put_made(json, "holders", make_holders(seen, lasting));
    put_number(json, "waiter_total", (int64_t)seen->waiter_total, true);
    put_made(json, "waiters", make_waiters(seen, lasting));
    put_text(json, "server", seen->server);
    put_text(json, "role", seen->role);
    if (master != NULL) {
        put_made(json, "master", make_master(master, lasting));
    } else {
        put(json, "master", NULL);
    }
}

/* The time of day, as RFC 3339 has it. */
static void put_now(struct json *json)
{
    char second[30], text[60];
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    (void)strftime(second, sizeof(second), "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text, sizeof(text), "%s.%03ldZ", second, now.tv_nsec / 1000000);
    put_text(json, "time", text);
}

static char *text_of(struct json *json, int flags)
{
    const char *text =
        json->object != NULL ? json_object_to_json_string_ext(json->object, flags) : NULL;
    char *copy = text != NULL ? strdup(text) : NULL;

    json_object_put(json->object);
    return copy;
}

int picture_json(FILE *out, const struct lw_inspection *seen,
                 const struct lw_master *master)
{
    struct json json = {json_object_new_object()};
    char *text;

    put_seen(&json, seen, master, false);
    text = text_of(&json, PRETTY);
    if (text == NULL) {
        return -1;
    }
    (void)fprintf(out, "%s\n", text);
    free(text);
    return 0;
}

char *picture_json_line(const struct lw_inspection *seen, const struct lw_master *master,
                        bool lasting)
{
    struct json json = {json_object_new_object()};

    if (!lasting) {
        put_now(&json);
    }
    put_seen(&json, seen, master, lasting);
    return text_of(&json, COMPACT);
}

char *picture_json_outage(const char *name, const char *outage, const char *why,
                          int64_t age_ms)
{
    struct json json = {json_object_new_object()};

    put_now(&json);
    put_text(&json, "name", name);
    put_text(&json, "outage", outage);
    put_text(&json, "why", why);
    put_number(&json, "age_ms", age_ms, age_ms >= 0);
    return text_of(&json, COMPACT);
}
