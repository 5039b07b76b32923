/* SPDX-License-Identifier: MIT */
/*
 * hiredis' parser behind bounds, and the neutral view of what it built. Must not know
 * what connection the bytes came from or what was asked.
 *
 * The parser builds a reply through a table of functions; ours count and refuse, and
 * leave the building to those that hiredis put there. A refusal looks to it like lack of
 * memory. Nothing of hiredis but the parser is used: its contexts abort the process on
 * replies that nobody asked for, and on several failures to allocate.
 */
#include "reply.h"

#include "lockwire.h"
#include "told.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

struct lw__reader {
    redisReader *parser;
    redisReplyObjectFunctions build; /* ours, for this parser */
    const redisReplyObjectFunctions *builtin;
    size_t max, bytes; /* of the reply that is being read, and what was read beyond it */
    size_t elements;
    const char *refused; /* why, once a reply was refused */
};

static void *refuse(struct lw__reader *reader, const char *why)
{
    reader->refused = why;
    return NULL;
}

static void *create_string(const redisReadTask *task, char *text, size_t length)
{
    struct lw__reader *reader = task->privdata;

#if HIREDIS_MAJOR >= 1 /* RESP3 has others */
    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
        task->type != REDIS_REPLY_ERROR) {
        return refuse(reader, "a reply of a type that was not asked for");
    }
#endif
    return reader->builtin->createString(task, text, length);
}

static void *create_array(const redisReadTask *task, array_size elements)
{
    struct lw__reader *reader = task->privdata;
    size_t count = (size_t)elements;
    unsigned depth = 1;

    for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent) {
        depth++;
    }
#if HIREDIS_MAJOR >= 1
    if (task->type != REDIS_REPLY_ARRAY) {
        return refuse(reader, "a reply of a type that was not asked for");
    }
#endif
    if (depth > LW__REPLY_DEPTH) {
        return refuse(reader, "a reply is nested too deeply");
    }
    if (depth == 1) {
        reader->elements = 0;
    }
    if (count > LW__REPLY_ELEMENTS - reader->elements) {
        return refuse(reader, "a reply has too many elements");
    }
    reader->elements += count;
    return reader->builtin->createArray(task, elements);
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text,
                           size_t length)
{
    (void)value;
    (void)text;
    (void)length;
    return refuse(task->privdata, "a reply of a type that was not asked for");
}

static void *create_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse(task->privdata, "a reply of a type that was not asked for");
}
#endif

struct lw__reader *lw__reader_new(size_t max)
{
    struct lw__reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL) {
        return NULL;
    }
    reader->parser = redisReaderCreate();
    if (reader->parser == NULL) {
        free(reader);
        return NULL;
    }
    reader->max = max;
    reader->builtin = reader->parser->fn;
    reader->build = *reader->builtin;
    reader->build.createString = create_string;
    reader->build.createArray = create_array;
#if HIREDIS_MAJOR >= 1
    reader->build.createDouble = create_double;
    reader->build.createBool = create_bool;
#endif
    reader->parser->fn = &reader->build;
    reader->parser->privdata = reader;
    reader->parser->maxbuf = 0; /* never replace the buffer: 0.14 asserts that it can */
    return reader;
}

void lw__reader_free(struct lw__reader *reader)
{
    if (reader != NULL) {
        redisReaderFree(reader->parser);
        free(reader);
    }
}

int lw__reader_feed(struct lw__reader *reader, const char *bytes, size_t length)
{
    if (redisReaderFeed(reader->parser, bytes, length) != REDIS_OK) {
        return LW_ENOMEM;
    }
    reader->bytes += length;
    return 0;
}

int lw__reader_next(struct lw__reader *reader, struct lw__reply **ret, char *why)
{
    void *reply = NULL;

    if (redisReaderGetReply(reader->parser, &reply) != REDIS_OK) {
        (void)snprintf(why, LW__WHY, "%s",
                       reader->refused != NULL ? reader->refused : reader->parser->errstr);
        return LW_EREDIS;
    }
    if (reply != NULL) {
        reader->bytes = reader->parser->len - reader->parser->pos;
        *ret = reply;
        return 1;
    }
    if (reader->bytes > reader->max) {
        (void)snprintf(why, LW__WHY, "a reply is longer than %zu bytes", reader->max);
        return LW_EREDIS;
    }
    return 0;
}

void lw__reply_free(struct lw__reply *reply)
{
    freeReplyObject(reply);
}

static const redisReply *view(const struct lw__reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

enum lw__reply_type lw__reply_type(const struct lw__reply *reply)
{
    switch (view(reply)->type) {
    case REDIS_REPLY_STATUS:
        return LW__REPLY_STATUS;
    case REDIS_REPLY_ERROR:
        return LW__REPLY_ERROR;
    case REDIS_REPLY_INTEGER:
        return LW__REPLY_INTEGER;
    case REDIS_REPLY_STRING:
        return LW__REPLY_STRING;
    case REDIS_REPLY_ARRAY:
        return LW__REPLY_ARRAY;
    default:
        return LW__REPLY_NIL;
    }
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
    const char *at = !text ? "" : error ? lw__command_error(r->str) : r->str;

    if (length != NULL) {
        *length = text ? (size_t)r->len - (size_t)(at - r->str) : 0;
    }
    return at;
}

size_t lw__reply_count(const struct lw__reply *reply)
{
    return view(reply)->type == REDIS_REPLY_ARRAY ? view(reply)->elements : 0;
}

const struct lw__reply *lw__reply_at(const struct lw__reply *reply, size_t index)
{
    return (const struct lw__reply *)(const void *)view(reply)->element[index];
}
