/* SPDX-License-Identifier: MIT */
/* Builds replies in place of hiredis: see reader.h. Independent of the commands.
 *
 * hiredis' reader builds a reply by a table of functions. Ours use the reader's memory,
 * and hiredis' own redisReply for each object, because the context reads it. A rejected
 * object looks to hiredis like lack of memory, so that it ends the connection.
 *
 * Commands pass hiredis' asynchronous interface by, which would parse again what has just
 * been encoded. They go into the output buffer, and this file puts their callbacks into
 * hiredis' list. (0.14.1 would not report that there was no memory for a callback: all
 * later replies would go to the wrong one.) A reply that finds the list empty would fail
 * an assert, and is rejected. Subscriptions are hidden from hiredis, whose bookkeeping of
 * channels asserts what servers send, loses callbacks if memory is short, and does not
 * know sharded channels: one callback without a command always waits for what the server
 * sends next. */
#include "redis/reader.h"

#include "lockwire.h"
#include "redis/reply.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Other versions may do otherwise. */
#define HIREDIS_IS (HIREDIS_MAJOR * 10000 + HIREDIS_MINOR * 100 + HIREDIS_PATCH)
_Static_assert((HIREDIS_IS >= 1401 && HIREDIS_IS < 1500) ||
                   (HIREDIS_IS >= 10002 && HIREDIS_IS < 10600),
               "lockwire was tested with hiredis 0.14.1, 1.0.2 and 1.1 to 1.5");

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#define hi_calloc calloc
#define hi_free free
#endif

#define BLOCK_SIZE 16384

struct lw__arena_block {
    struct lw__arena_block *next;
    size_t size;
    _Alignas(8) char bytes[];
};

/* ---- memory ---- */

static void free_blocks(struct lw__reader *reader)
{
    struct lw__arena_block *block;

    while ((block = reader->blocks) != NULL) {
        reader->blocks = block->next;
        free(block);
    }
}

/* Returns memory that is valid until the next root object, or NULL. */
static void *reserve(struct lw__reader *reader, size_t size)
{
    struct lw__arena_block *block = reader->blocks;
    size_t room = block != NULL ? block->size : sizeof(reader->kept);
    char *memory = block != NULL ? block->bytes : reader->kept;

    size = (size + 7) / 8 * 8;
    if (size > room - reader->used) {
        room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        block = malloc(sizeof(*block) + room);
        if (block == NULL) {
            return NULL;
        }
        *block = (struct lw__arena_block){.next = reader->blocks, .size = room};
        reader->blocks = block;
        reader->used = 0;
        memory = block->bytes;
    }
    memory += reader->used;
    reader->used += size;
    return memory;
}

/* ---- building ---- */

__attribute__((format(printf, 2, 3))) static void *refuse(struct lw__reader *reader,
                                                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(reader->why, sizeof(reader->why), format, args);
    va_end(args);
    return NULL;
}

/* An error that no command awaits passes: hiredis itself ends the connection for it, and
 * reports it. */
static bool is_awaited(const struct lw__reader *reader, int type)
{
    return reader->callbacks == NULL || reader->callbacks->head != NULL ||
           type == REDIS_REPLY_ERROR;
}

/* Creates an object with `more` bytes behind it, and puts it into its parent. `length` is
 * the least that it can have on the wire. */
static redisReply *create(const redisReadTask *task, size_t length, size_t more)
{
    struct lw__reader *reader = task->privdata;
    redisReply *reply;

    if (task->parent == NULL) {
        if (!is_awaited(reader, task->type)) {
            return refuse(reader, "no command is waiting for a reply");
        }
        free_blocks(reader);
        reader->used = reader->bytes = reader->elements = 0;
    }
    reader->bytes += length;
    if (reader->bytes > reader->max) {
        return refuse(reader, "longer than %zu bytes", reader->max);
    }
    reply = reserve(reader, sizeof(*reply) + more);
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
    return refuse(task->privdata, "a type that RESP2 does not have");
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
    struct lw__reader *reader = task->privdata;
    size_t count = (size_t)elements, before = task->parent != NULL ? reader->elements : 0;
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
        return refuse(reader, "nested too deeply");
    }
    if (count > reader->max_elements - before) {
        return refuse(reader, "too many elements");
    }
    reply = create(task, 4, pointers);
    if (reply != NULL) {
        reader->elements += count;
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
        reply->type = REDIS_REPLY_NIL; /* not the type that a value would have */
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
    (void)reply; /* the next reply reuses its memory */
}

/* Not const, as hiredis requires, but never written to. Shared by all readers, since
 * hiredis may still free an object after its reader is gone. */
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

void lw__reader_init(struct lw__reader *reader, size_t max)
{
    reader->callbacks = NULL;
    reader->max = max;
    reader->max_elements = LW__REPLY_ELEMENTS;
    reader->used = reader->bytes = reader->elements = 0;
    reader->why[0] = '\0';
    reader->blocks = NULL;
}

void lw__reader_clear(struct lw__reader *reader)
{
    free_blocks(reader);
    reader->used = 0;
}

void lw__reader_install(struct lw__reader *reader, redisReader *hiredis)
{
    hiredis->fn = &functions;
    hiredis->privdata = reader;
    /* Never replace the buffer: 0.14.1 asserts that there is memory for that. */
    hiredis->maxbuf = 0;
}

void lw__reader_attach(struct lw__reader *reader, redisAsyncContext *context)
{
    reader->callbacks = &context->replies;
    lw__reader_install(reader, context->c.reader);
}

const char *lw__reader_why(const struct lw__reader *reader)
{
    return reader->why[0] != '\0' ? reader->why : NULL;
}

/* ---- sending ---- */

/* Returns NULL if there is no memory. hiredis frees it, with its own allocator. */
static redisCallback *new_callback(redisCallbackFn *fn, void *data)
{
    redisCallback *callback = hi_calloc(1, sizeof(*callback));

    if (callback != NULL) {
        callback->fn = fn;
        callback->privdata = data;
    }
    return callback;
}

static void push_callback(redisCallbackList *list, redisCallback *callback)
{
    if (list->head == NULL) {
        list->head = callback;
    } else {
        list->tail->next = callback;
    }
    list->tail = callback;
}

int lw__reader_send_unseen(redisAsyncContext *context, const char *bytes, size_t length)
{
    if (redisAppendFormattedCommand(&context->c, bytes, length) != REDIS_OK) {
        return LW_ENOMEM;
    }
    context->ev.addWrite(context->ev.data);
    return 0;
}

int lw__reader_send(redisAsyncContext *context, redisCallbackFn *fn, void *data,
                    const char *bytes, size_t length)
{
    redisCallback *callback = new_callback(fn, data);

    if (callback == NULL || lw__reader_send_unseen(context, bytes, length) != 0) {
        hi_free(callback);
        return LW_ENOMEM;
    }
    push_callback(&context->replies, callback);
    return 0;
}

int lw__reader_listen(redisAsyncContext *context, redisCallbackFn *fn, void *data)
{
    redisCallback *callback = new_callback(fn, data);

    if (callback == NULL) {
        return LW_ENOMEM;
    }
    push_callback(&context->replies, callback);
    return 0;
}

/* ---- subscriptions ---- */

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
    if ((third == LW__REPLY_ARRAY || third == LW__REPLY_NIL) &&
        is_word(lw__reply_at(reply, 0), "message") &&
        is_word(lw__reply_at(reply, 1), "__redis__:invalidate")) {
        return LW__PUSH_INVALIDATION;
    }
    return LW__PUSH_INVALID;
}
