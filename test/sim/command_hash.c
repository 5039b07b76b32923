/* SPDX-License-Identifier: MIT
 *
 * Commands on hashes.
 */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

void run_hset(struct call *call)
{
    struct content *content;
    int64_t added = 0;

    if (call->argc % 2) {
        resp_error(call->reply, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (!call_make(call, VALUE_HASH, &content)) {
        return;
    }
    for (int i = 2; i < call->argc; i += 2) {
        added += hash_set(&content->hash, call->argv[i], call->argv[i + 1]);
    }
    resp_int(call->reply, added);
}

void run_hsetnx(struct call *call)
{
    struct content *content;
    struct bytes present;

    if (!call_make(call, VALUE_HASH, &content)) {
        return;
    }
    bool is_new = !hash_get(&content->hash, call->argv[2], &present);
    if (is_new) {
        hash_set(&content->hash, call->argv[2], call->argv[3]);
    }
    resp_int(call->reply, is_new);
}

static void reply_field(struct call *call, const struct content *content,
                        struct bytes name)
{
    struct bytes value;
    if (content != NULL && hash_get(&content->hash, name, &value)) {
        resp_bulk(call->reply, value);
    } else {
        resp_nil(call->reply);
    }
}

void run_hget(struct call *call)
{
    struct content *content;
    if (call_read(call, VALUE_HASH, &content)) {
        reply_field(call, content, call->argv[2]);
    }
}

void run_hmget(struct call *call)
{
    struct content *content;
    if (!call_read(call, VALUE_HASH, &content)) {
        return;
    }
    resp_array(call->reply, (size_t)call->argc - 2);
    for (int i = 2; i < call->argc; i++) {
        reply_field(call, content, call->argv[i]);
    }
}

void run_hdel(struct call *call)
{
    struct content *content;
    int64_t removed = 0;

    if (!call_write(call, VALUE_HASH, &content)) {
        return;
    }
    for (int i = 2; content != NULL && i < call->argc; i++) {
        removed += hash_remove(&content->hash, call->argv[i]);
    }
    keyspace_drop_if_empty(call_space(call), call->argv[1]);
    resp_int(call->reply, removed);
}

static void reply_all(struct call *call, bool names, bool values)
{
    struct content *content;
    struct bytes name, value;

    if (!call_read(call, VALUE_HASH, &content)) {
        return;
    }
    size_t count = content != NULL ? hash_count(&content->hash) : 0;
    resp_array(call->reply, names && values ? count * 2 : count);
    const struct hash_field *at = content != NULL ? hash_first(&content->hash) : NULL;
    while (at != NULL) {
        at = hash_next(at, &name, &value);
        if (names) {
            resp_bulk(call->reply, name);
        }
        if (values) {
            resp_bulk(call->reply, value);
        }
    }
}

void run_hgetall(struct call *call)
{
    reply_all(call, true, true);
}

void run_hkeys(struct call *call)
{
    reply_all(call, true, false);
}

void run_hvals(struct call *call)
{
    reply_all(call, false, true);
}

void run_hincrby(struct call *call)
{
    struct content *content;
    struct bytes present;
    int64_t by, value = 0;
    char text[32];

    if (!call_int(call, 3, &by) || !call_make(call, VALUE_HASH, &content)) {
        return;
    }
    if (hash_get(&content->hash, call->argv[2], &present) &&
        !bytes_to_int(present, &value)) {
        resp_error(call->reply, "ERR hash value is not an integer");
        return;
    }
    if (__builtin_add_overflow(value, by, &value)) {
        resp_error(call->reply, "ERR increment or decrement would overflow");
        return;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    hash_set(&content->hash, call->argv[2], bytes_of(text));
    resp_int(call->reply, value);
}

void run_hexists(struct call *call)
{
    struct content *content;
    struct bytes value;
    if (call_read(call, VALUE_HASH, &content)) {
        resp_int(call->reply,
                 content != NULL && hash_get(&content->hash, call->argv[2], &value));
    }
}

void run_hlen(struct call *call)
{
    struct content *content;
    if (call_read(call, VALUE_HASH, &content)) {
        resp_int(call->reply, content != NULL ? (int64_t)hash_count(&content->hash) : 0);
    }
}
