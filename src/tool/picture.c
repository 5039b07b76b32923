/* SPDX-License-Identifier: MIT */
/* See picture.h: the words that the tables, the lines and JSON share. */
#include "picture.h"

#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void picture_time(int64_t ms, char *text, size_t size)
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

void picture_age(int64_t ms, char *text, size_t size)
{
    int64_t hours = ms / 3600000;

    if (hours < 24) {
        picture_time(ms, text, size);
    } else {
        (void)snprintf(text, size, "%" PRId64 "d%02" PRId64 "h", hours / 24, hours % 24);
    }
}

const char *picture_mode(const struct lw_inspected *entry)
{
    static const char *const modes[] = {"mutex", "write", "read"};

    return modes[entry->mode];
}

const char *picture_owner(const struct lw_inspected *entry)
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

const struct lw_inspected **picture_holders(const struct lw_inspection *seen)
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

void picture_text(const char *from, char *text, size_t size)
{
    lw__escape(*from ? from : "-", text, size);
}

void picture_words(const struct lw_inspected *entry, char *text, size_t size)
{
    char owner[COLUMNS_CELL], client[COLUMNS_CELL], token[COLUMNS_CELL];

    picture_text(picture_owner(entry), owner, sizeof(owner));
    picture_text(entry->client, client, sizeof(client));
    picture_text(entry->token, token, sizeof(token));
    (void)snprintf(text, size, "%s %s %s %s", picture_mode(entry), owner, client, token);
}

void picture_place(const struct lw_master *master, char *text, size_t size)
{
    bool bracketed = strchr(master->host, ':') != NULL;

    (void)snprintf(text, size, "%s%s%s:%u", bracketed ? "[" : "", master->host,
                   bracketed ? "]" : "", (unsigned)master->port);
}

void picture_server(const struct lw_inspection *seen, char *text, size_t size)
{
    (void)snprintf(text, size, "redis %s%s%s", seen->server, *seen->role ? ", " : "",
                   seen->role);
}

void picture_headline(const struct lw_inspection *seen, int width, char *text,
                      size_t size)
{
    char name[COLUMNS_CELL], shown[COLUMNS_CELL], type[COLUMNS_CELL],
        said[COLUMNS_CELL + 100], waiting[40] = "";

    lw__escape(seen->name, name, sizeof(name));
    lw__escape(seen->stranger, type, sizeof(type));
    if (seen->waiter_total > 0) {
        (void)snprintf(waiting, sizeof(waiting), ", %zu waiting", seen->waiter_total);
    }
    if (*type) {
        (void)snprintf(said, sizeof(said), ": held by a stranger, the key is a %s%s",
                       type, waiting);
    } else if (seen->holder_total > 0) {
        (void)snprintf(said, sizeof(said), ": held by %zu%s", seen->holder_total,
                       waiting);
    } else {
        (void)snprintf(said, sizeof(said), ": free%s", waiting);
    }
    columns_cut(name, width > 0 ? width - columns_width(said) : columns_width(name),
                shown, sizeof(shown));
    (void)snprintf(text, size, "%s%s", shown, said);
}
