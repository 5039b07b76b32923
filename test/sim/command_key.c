/* SPDX-License-Identifier: MIT
 *
 * Commands on keys of any type: DEL, EXISTS, TYPE, PTTL, PEXPIRE(AT), PERSIST, KEYS. Also
 * the few on lists, which occur here only as foreign keys.
 */
#include "model.h"

#include <string.h>

void run_del(struct call *call)
{
    int64_t removed = 0;
    for (int i = 1; i < call->argc; i++) {
        removed += keyspace_remove(call_space(call), call->argv[i]);
    }
    resp_int(call->reply, removed);
}

void run_exists(struct call *call)
{
    int64_t found = 0;
    for (int i = 1; i < call->argc; i++) {
        found += keyspace_find(call_space(call), call->argv[i]) != NULL;
    }
    resp_int(call->reply, found);
}

void run_type(struct call *call)
{
    const struct content *content = keyspace_find(call_space(call), call->argv[1]);
    resp_status(call->reply, content != NULL ? value_type_name(content->type) : "none");
}

void run_pttl(struct call *call)
{
    const struct keyspace *space = call_space(call);
    const struct content *content = keyspace_find(call_space(call), call->argv[1]);

    if (content == NULL) {
        resp_int(call->reply, -2);
    } else if (content->expire_ms == NO_EXPIRY) {
        resp_int(call->reply, -1);
    } else {
        resp_int(call->reply, content->expire_ms - space->now_ms);
    }
}

struct expire_options {
    bool only_new, only_old, greater, less;
};

static bool parse_expire(struct call *call, struct expire_options *options)
{
    const char *error = NULL;

    *options = (struct expire_options){0};
    for (int i = 3; i < call->argc; i++) {
        struct bytes word = call->argv[i];
        if (bytes_is(word, "nx")) {
            options->only_new = true;
        } else if (bytes_is(word, "xx")) {
            options->only_old = true;
        } else if (bytes_is(word, "gt")) {
            options->greater = true;
        } else if (bytes_is(word, "lt")) {
            options->less = true;
        } else {
            resp_error(call->reply, "ERR Unsupported option %.*s", (int)word.len,
                       word.data);
            return false;
        }
    }
    if (options->only_new && (options->only_old || options->greater || options->less)) {
        error = "ERR NX and XX, GT or LT options at the same time are not compatible";
    } else if (options->greater && options->less) {
        error = "ERR GT and LT options at the same time are not compatible";
    }
    if (error != NULL) {
        resp_error(call->reply, "%s", error);
    }
    return error == NULL;
}

static bool expiry_wanted(const struct expire_options *options, int64_t old, int64_t new)
{
    bool endless = old == NO_EXPIRY;

    return !(options->only_new && !endless) && !(options->only_old && endless) &&
           !(options->greater && (endless || new <= old)) &&
           !(options->less && !endless && new >= old);
}

static void expire_at(struct call *call, int64_t from_ms, const char *name)
{
    struct keyspace *space = call_space(call);
    struct expire_options options;
    struct content *content;
    int64_t at;

    if (!parse_expire(call, &options) || !call_int(call, 2, &at)) {
        return;
    }
    if (at > INT64_MAX - from_ms) {
        resp_error(call->reply, "ERR invalid expire time in '%s' command", name);
        return;
    }
    at += from_ms;
    content = keyspace_open(space, call->argv[1]);
    if (content == NULL || !expiry_wanted(&options, content->expire_ms, at)) {
        resp_int(call->reply, 0);
        return;
    }
    if (at > space->now_ms) {
        content->expire_ms = at;
    } else {
        keyspace_remove(space, call->argv[1]);
    }
    resp_int(call->reply, 1);
}

void run_pexpire(struct call *call)
{
    expire_at(call, call_space(call)->now_ms, "pexpire");
}

void run_pexpireat(struct call *call)
{
    expire_at(call, 0, "pexpireat");
}

void run_persist(struct call *call)
{
    struct content *content = keyspace_open(call_space(call), call->argv[1]);
    bool had_end = content != NULL && content->expire_ms != NO_EXPIRY;
    if (had_end) {
        content->expire_ms = NO_EXPIRY;
    }
    resp_int(call->reply, had_end);
}

struct key_search {
    struct bytes pattern;
    struct buffer found;
    size_t count;
};

static void collect_key(struct bytes name, const struct content *content, void *arg)
{
    struct key_search *search = arg;
    (void)content;
    if (!glob_match(search->pattern, name)) {
        return;
    }
    resp_bulk(&search->found, name);
    search->count++;
}

void run_keys(struct call *call)
{
    struct key_search search = {.pattern = call->argv[1]};

    keyspace_each(call_space(call), collect_key, &search);
    resp_array(call->reply, search.count);
    buffer_append(call->reply, search.found.data, search.found.len);
    buffer_free(&search.found);
}

static void push(struct call *call, bool front)
{
    struct content *content;

    if (!call_make(call, VALUE_LIST, &content)) {
        return;
    }
    for (int i = 2; i < call->argc; i++) {
        struct list *list = &content->list;
        size_t at = front ? 0 : list->count;

        list->items = must_realloc(list->items, (list->count + 1) * sizeof(*list->items));
        memmove(list->items + at + 1, list->items + at,
                (list->count - at) * sizeof(*list->items));
        list->items[at] = (struct buffer){0};
        buffer_set(&list->items[at], call->argv[i]);
        list->count++;
    }
    resp_int(call->reply, (int64_t)content->list.count);
}

void run_lpush(struct call *call)
{
    push(call, true);
}

void run_rpush(struct call *call)
{
    push(call, false);
}

void run_llen(struct call *call)
{
    struct content *content;

    if (call_read(call, VALUE_LIST, &content)) {
        resp_int(call->reply, content != NULL ? (int64_t)content->list.count : 0);
    }
}

void run_lrange(struct call *call)
{
    struct content *content;
    int64_t start, stop;

    if (!call_long(call, 2, &start) || !call_long(call, 3, &stop) ||
        !call_read(call, VALUE_LIST, &content)) {
        return;
    }
    if (content == NULL || !clip_range((int64_t)content->list.count, &start, &stop)) {
        resp_array(call->reply, 0);
        return;
    }
    resp_array(call->reply, (size_t)(stop - start + 1));
    for (int64_t i = start; i <= stop; i++) {
        resp_bulk(call->reply, buffer_view(&content->list.items[i]));
    }
}
