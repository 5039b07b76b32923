/* SPDX-License-Identifier: MIT */
/* What keeps hiredis' asserts out of reach. Must not know what was asked.
 *
 * hiredis' reader builds a reply through a table of functions. These build it in the
 * guard's memory, each object with hiredis' own redisReply, since the context looks into
 * it; one that is refused looks to hiredis like lack of memory, upon which it ends the
 * connection.
 *
 * The list of callbacks is looked at: a reply that finds it empty would fail an assert,
 * and 0.14.1 does not tell that a callback found no memory: all later replies would go to
 * the wrong one. A subscription is kept from hiredis, whose bookkeeping of channels
 * asserts what servers say, loses callbacks when memory is out, and knows no sharded
 * channels: SUBSCRIBE goes into the output buffer past the asynchronous interface, and
 * one callback without a command always waits for what the server says next. */
#include "redis/reader.h"

#include "lockwire.h"
#include "redis/reply.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The tricks hold for what they were tried with. */
#define HIREDIS_IS (HIREDIS_MAJOR * 10000 + HIREDIS_MINOR * 100 + HIREDIS_PATCH)
_Static_assert((HIREDIS_IS >= 1401 && HIREDIS_IS < 1500) ||
                   (HIREDIS_IS >= 10100 && HIREDIS_IS < 10600),
               "lockwire was tested with hiredis 0.14.1 and with 1.1 to 1.5");

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

#define PIECE 16384

struct lw__arena_block {
    struct lw__arena_block *next;
    size_t size;
    _Alignas(8) char bytes[];
};

/* Memory */

static void free_pieces(struct lw__reader *guard)
{
    struct lw__arena_block *piece;

    while ((piece = guard->pieces) != NULL) {
        guard->pieces = piece->next;
        free(piece);
    }
}

/* Valid until the next root object. NULL: no memory. */
static void *reserve(struct lw__reader *guard, size_t size)
{
    struct lw__arena_block *piece = guard->pieces;
    size_t room = piece != NULL ? piece->size : sizeof(guard->kept);
    char *memory = piece != NULL ? piece->bytes : guard->kept;

    size = (size + 7) / 8 * 8;
    if (size > room - guard->used) {
        room = size > PIECE ? size : PIECE;
        piece = malloc(sizeof(*piece) + room);
        if (piece == NULL) {
            return NULL;
        }
        *piece = (struct lw__arena_block){.next = guard->pieces, .size = room};
        guard->pieces = piece;
        guard->used = 0;
        memory = piece->bytes;
    }
    memory += guard->used;
    guard->used += size;
    return memory;
}

/* Building */

__attribute__((format(printf, 2, 3))) static void *refuse(struct lw__reader *guard,
                                                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(guard->why, sizeof(guard->why), format, args);
    va_end(args);
    return NULL;
}

/* hiredis itself ends a connection for an error that nobody awaits, and tells it. */
static bool is_awaited(const struct lw__reader *guard, int type)
{
    return guard->awaited == NULL || guard->awaited->head != NULL ||
           type == REDIS_REPLY_ERROR;
}

/* An object and `more` bytes behind it, in its place. `length`: its least on the wire. */
static redisReply *create(const redisReadTask *task, size_t length, size_t more)
{
    struct lw__reader *guard = task->privdata;
    redisReply *reply;

    if (task->parent == NULL) {
        if (!is_awaited(guard, task->type)) {
            return refuse(guard, "a reply that nobody asked for");
        }
        free_pieces(guard);
        guard->used = guard->bytes = guard->elements = 0;
    }
    guard->bytes += length;
    if (guard->bytes > guard->max) {
        return refuse(guard, "a reply is longer than %zu bytes", guard->max);
    }
    reply = reserve(guard, sizeof(*reply) + more);
    if (reply == NULL) {
        return NULL;
    }
    memset(reply, 0, sizeof(*reply));
    reply->type = task->type;
    if (task->parent != NULL) {
        redisReply *parent = task->parent->obj;
        parent->element[task->idx] = reply;
    }
    return reply;
}

static void *refuse_type(const redisReadTask *task)
{
    return refuse(task->privdata, "a reply of a type that was not asked for");
}

static void *create_string(const redisReadTask *task, char *text, size_t length)
{
    redisReply *reply;

    if (task->type != REDIS_REPLY_STRING && task->type != REDIS_REPLY_STATUS &&
        task->type != REDIS_REPLY_ERROR) {
        return refuse_type(task); /* RESP3 has others */
    }
    reply = create(task, length + 3, length + 1);
    if (reply != NULL) {
        reply->str = (char *)(reply + 1);
        reply->len = length;
        memcpy(reply->str, text, length);
        reply->str[length] = '\0';
    }
    return reply;
}

static void *create_array(const redisReadTask *task, array_size elements)
{
    struct lw__reader *guard = task->privdata;
    size_t count = (size_t)elements, before = task->parent != NULL ? guard->elements : 0;
    size_t pointers = count * sizeof(void *);
    unsigned depth = 1;
    redisReply *reply;

    for (const redisReadTask *outer = task->parent; outer != NULL;
         outer = outer->parent) {
        depth++;
    }
    if (task->type != REDIS_REPLY_ARRAY) {
        return refuse_type(task);
    }
    if (depth > LW__REPLY_DEPTH) {
        return refuse(guard, "a reply is nested too deeply");
    }
    if (count > guard->max_elements - before) {
        return refuse(guard, "a reply has too many elements");
    }
    reply = create(task, 4, pointers);
    if (reply != NULL) {
        guard->elements += count;
        reply->elements = count;
        reply->element = (redisReply **)(void *)(reply + 1);
        memset(reply->element, 0, pointers);
    }
    return reply;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    redisReply *reply = create(task, 4, 0);

    if (reply != NULL) {
        reply->integer = value;
    }
    return reply;
}

static void *create_nil(const redisReadTask *task)
{
    redisReply *reply = create(task, 3, 0);

    if (reply != NULL) {
        reply->type = REDIS_REPLY_NIL; /* the task says what it would have been */
    }
    return reply;
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text,
                           size_t length)
{
    (void)value;
    (void)text;
    (void)length;
    return refuse_type(task);
}

static void *create_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse_type(task);
}
#endif

static void free_object(void *reply)
{
    (void)reply; /* goes when the next one comes */
}

/* hiredis wants it writable, and never writes. One for all, since hiredis may still free
 * an object when a guard is gone. */
static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    .createNil = create_nil,
#if HIREDIS_MAJOR >= 1
    .createDouble = create_double,
    .createBool = create_bool,
#endif
    .freeObject = free_object,
};

void lw__reader_init(struct lw__reader *guard, size_t max)
{
    guard->awaited = NULL;
    guard->max = max;
    guard->max_elements = LW__REPLY_ELEMENTS;
    guard->used = guard->bytes = guard->elements = 0;
    guard->why[0] = '\0';
    guard->pieces = NULL;
}

void lw__reader_clear(struct lw__reader *guard)
{
    free_pieces(guard);
    guard->used = 0;
}

void lw__reader_install(struct lw__reader *guard, redisReader *reader)
{
    reader->fn = &functions;
    reader->privdata = guard;
    reader->maxbuf = 0; /* never replace the buffer: 0.14.1 asserts that it can */
}

void lw__reader_attach(struct lw__reader *guard, redisAsyncContext *context)
{
    guard->awaited = &context->replies;
    lw__reader_install(guard, context->c.reader);
}

const char *lw__reader_why(const struct lw__reader *guard)
{
    return guard->why[0] != '\0' ? guard->why : NULL;
}

/* Sending */

int lw__reader_send(redisAsyncContext *context, redisCallbackFn *fn, void *data,
                    const char *bytes, size_t length)
{
    const redisCallback *last = context->replies.tail;

    if (redisAsyncFormattedCommand(context, fn, data, bytes, length) != REDIS_OK ||
        context->replies.tail == last || context->c.err != 0) {
        return LW_ENOMEM;
    }
    return 0;
}

int lw__reader_send_unseen(redisAsyncContext *context, const char *bytes, size_t length)
{
    if (redisAppendFormattedCommand(&context->c, bytes, length) != REDIS_OK) {
        return LW_ENOMEM;
    }
    context->ev.addWrite(context->ev.data);
    return 0;
}

int lw__reader_listen(redisAsyncContext *context, redisCallbackFn *fn, void *data)
{
    static const char nothing[] = "*1\r\n$4\r\nPING\r\n"; /* of which no byte is sent */

    return lw__reader_send(context, fn, data, nothing, 0);
}

/* Subscriptions */

static bool is_word(const struct lw__reply *reply, const char *word)
{
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    return lw__reply_type(reply) == LW__REPLY_STRING && length == strlen(word) &&
           strcasecmp(text, word) == 0;
}

enum lw__push_kind lw__reader_push_kind(const struct lw__reply *reply)
{
    enum lw__reply_type third;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        return LW__PUSH_ERROR;
    }
    if (lw__reply_count(reply) != 3 ||
        lw__reply_type(lw__reply_at(reply, 1)) != LW__REPLY_STRING) {
        return LW__PUSH_INVALID;
    }
    third = lw__reply_type(lw__reply_at(reply, 2));
    if (third == LW__REPLY_INTEGER && (is_word(lw__reply_at(reply, 0), "subscribe") ||
                                       is_word(lw__reply_at(reply, 0), "ssubscribe"))) {
        return LW__PUSH_SUBSCRIBED;
    }
    if (third == LW__REPLY_INTEGER && is_word(lw__reply_at(reply, 0), "sunsubscribe")) {
        return LW__PUSH_UNSUBSCRIBED;
    }
    if (third == LW__REPLY_STRING && (is_word(lw__reply_at(reply, 0), "message") ||
                                      is_word(lw__reply_at(reply, 0), "smessage"))) {
        return LW__PUSH_MESSAGE;
    }
    return LW__PUSH_INVALID;
}
