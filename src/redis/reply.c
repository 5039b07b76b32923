/* SPDX-License-Identifier: MIT */
/* Reads replies that hiredis' reader has built (reader.c). Independent of the connection
 * and of the command. */
#include "redis/reply.h"

#include "redis/classify.h"

#include <hiredis/hiredis.h>
#include <string.h>

static const redisReply *view(const struct lw__reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

/* The other types, which are RESP3's, count as nil. */
static const enum lw__reply_type types[] = {
    [REDIS_REPLY_STATUS] = LW__REPLY_STATUS,   [REDIS_REPLY_ERROR] = LW__REPLY_ERROR,
    [REDIS_REPLY_INTEGER] = LW__REPLY_INTEGER, [REDIS_REPLY_STRING] = LW__REPLY_STRING,
    [REDIS_REPLY_ARRAY] = LW__REPLY_ARRAY,
};

enum lw__reply_type lw__reply_type(const struct lw__reply *reply)
{
    size_t type = (size_t)view(reply)->type;

    return type < sizeof(types) / sizeof(*types) ? types[type] : LW__REPLY_NIL;
}

int64_t lw__reply_integer(const struct lw__reply *reply)
{
    return view(reply)->type == REDIS_REPLY_INTEGER ? view(reply)->integer : 0;
}

const char *lw__reply_text(const struct lw__reply *reply, size_t *length)
{
    const redisReply *r = view(reply);
    bool error = r->type == REDIS_REPLY_ERROR;
    bool text = error || r->type == REDIS_REPLY_STATUS || r->type == REDIS_REPLY_STRING;
    const char *at = !text ? "" : error ? lw__classify_own_words(r->str) : r->str;

    if (length != NULL) {
        *length = text ? (size_t)r->len - (size_t)(at - r->str) : 0;
    }
    return at;
}

const char *lw__reply_error(const struct lw__reply *reply)
{
    return view(reply)->type == REDIS_REPLY_ERROR ? view(reply)->str : "";
}

bool lw__reply_undone(const struct lw__reply *reply)
{
    const redisReply *r = view(reply);

    return r->type == REDIS_REPLY_ERROR && lw__classify_undone(r->str);
}

size_t lw__reply_count(const struct lw__reply *reply)
{
    return view(reply)->type == REDIS_REPLY_ARRAY ? view(reply)->elements : 0;
}

const struct lw__reply *lw__reply_at(const struct lw__reply *reply, size_t index)
{
    return (const struct lw__reply *)(const void *)view(reply)->element[index];
}

const char *lw__reply_field(const struct lw__reply *reply, const char *name,
                            size_t *length)
{
    size_t count = lw__reply_count(reply);

    for (size_t i = 0; i + 1 < count; i += 2) {
        const struct lw__reply *value = lw__reply_at(reply, i + 1);

        if (strcmp(lw__reply_text(lw__reply_at(reply, i), NULL), name) == 0 &&
            lw__reply_type(value) == LW__REPLY_STRING) {
            return lw__reply_text(value, length);
        }
    }
    return NULL;
}

const char *lw__reply_info_field(const char *info, const char *field)
{
    size_t length = strlen(field);

    while (strncmp(info, field, length) != 0) {
        info += strcspn(info, "\n");
        if (*info++ == '\0') {
            return NULL;
        }
    }
    return info + length;
}
