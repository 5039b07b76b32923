/* SPDX-License-Identifier: MIT
 *
 * Commands on strings: GET, MGET, SET, INCR, INCRBY, and those that delete a key if it
 * has a certain value.
 */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

struct set_options {
    bool only_new, only_old, keep_ttl;
    int64_t unit_ms; /* 0 if no expiry is given */
    struct bytes expiry;
};

void run_get(struct call *call)
{
    struct content *content;

    if (!call_read(call, VALUE_STRING, &content)) {
        return;
    }
    if (content != NULL) {
        resp_bulk(call->reply, buffer_view(&content->string));
    } else {
        resp_nil(call->reply);
    }
}

/* A key that is not a string counts as missing. */
void run_mget(struct call *call)
{
    resp_array(call->reply, (size_t)call->argc - 1);
    for (int i = 1; i < call->argc; i++) {
        struct content *content = keyspace_find(call_space(call), call->argv[i]);

        if (content && content->type == VALUE_STRING) {
            resp_bulk(call->reply, buffer_view(&content->string));
        } else {
            resp_nil(call->reply);
        }
    }
}

static void tell_watch(struct call *call, struct bytes value,
                       void (*watch)(struct model_server *,
                                     const struct model_script_run *),
                       const char *reply)
{
    struct model_script_run run = {&call->argv[1], &value, 1, 1, bytes_of(reply), ""};

    if (watch && call->conn) {
        watch(call->server, &run);
    }
}

static void delete_if_equal(struct call *call, struct bytes value)
{
    struct content *content;
    bool same;

    if (!call_read(call, VALUE_STRING, &content)) {
        return;
    }
    tell_watch(call, value, call->server->watch.before, "");
    same = content && bytes_equal(buffer_view(&content->string), value);
    if (same) {
        keyspace_remove(call_space(call), call->argv[1]);
    }
    resp_int(call->reply, same);
    tell_watch(call, value, call->server->watch.script, same ? ":1" : ":0");
}

void run_delifeq(struct call *call)
{
    delete_if_equal(call, call->argv[2]);
}

/* Only the form with IFEQ is modelled. */
void run_delex(struct call *call)
{
    if (call->argc == 4 && bytes_is(call->argv[2], "ifeq")) {
        delete_if_equal(call, call->argv[3]);
    } else {
        call_syntax_error(call);
    }
}

static bool parse_set(struct call *call, struct set_options *options)
{
    *options = (struct set_options){0};
    for (int i = 3; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        bool is_expiry = bytes_is(word, "px") || bytes_is(word, "ex");

        if (bytes_is(word, "nx") && !options->only_old) {
            options->only_new = true;
        } else if (bytes_is(word, "xx") && !options->only_new) {
            options->only_old = true;
        } else if (bytes_is(word, "keepttl") && !options->unit_ms) {
            options->keep_ttl = true;
        } else if (is_expiry && !options->unit_ms && !options->keep_ttl &&
                   i + 1 < call->argc) {
            options->unit_ms = bytes_is(word, "px") ? 1 : 1000;
            options->expiry = call->argv[++i];
        } else {
            call_syntax_error(call);
            return false;
        }
    }
    return true;
}

static bool set_expiry(struct call *call, const struct set_options *options, int64_t *ret)
{
    int64_t now_ms = call_space(call)->now_ms;
    int64_t value;

    *ret = NO_EXPIRY;
    if (!options->unit_ms) {
        return true;
    }
    if (!bytes_to_int(options->expiry, &value)) {
        resp_error(call->reply, "ERR value is not an integer or out of range");
        return false;
    }
    if (value <= 0 || value > (INT64_MAX - now_ms) / options->unit_ms) {
        resp_error(call->reply, "ERR invalid expire time in 'set' command");
        return false;
    }
    *ret = now_ms + value * options->unit_ms;
    return true;
}

void run_set(struct call *call)
{
    struct set_options options;
    struct content *content;
    int64_t expire_ms;

    if (!parse_set(call, &options) || !set_expiry(call, &options, &expire_ms)) {
        return;
    }
    content = keyspace_find(call_space(call), call->argv[1]);
    if ((options.only_new && content != NULL) || (options.only_old && content == NULL)) {
        resp_nil(call->reply);
        return;
    }
    content = keyspace_make(call_space(call), call->argv[1], VALUE_STRING);
    if (content->type != VALUE_STRING) {
        int64_t old_expiry = content->expire_ms;
        content_free(content);
        content->type = VALUE_STRING;
        content->expire_ms = old_expiry;
    }
    buffer_set(&content->string, call->argv[2]);
    if (!options.keep_ttl) {
        content->expire_ms = expire_ms;
    }
    resp_status(call->reply, "OK");
}

static void increment(struct call *call, int64_t by)
{
    struct content *content;
    int64_t value = 0;
    char text[32];

    if (!call_read(call, VALUE_STRING, &content)) {
        return;
    }
    if (content != NULL && !bytes_to_int(buffer_view(&content->string), &value)) {
        resp_error(call->reply, "ERR value is not an integer or out of range");
        return;
    }
    if (__builtin_add_overflow(value, by, &value)) {
        resp_error(call->reply, "ERR increment or decrement would overflow");
        return;
    }
    content = keyspace_make(call_space(call), call->argv[1], VALUE_STRING);
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    buffer_set(&content->string, bytes_of(text));
    resp_int(call->reply, value);
}

void run_incr(struct call *call)
{
    increment(call, 1);
}

void run_incrby(struct call *call)
{
    int64_t by;

    if (call_int(call, 2, &by)) {
        increment(call, by);
    }
}
