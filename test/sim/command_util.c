/* SPDX-License-Identifier: MIT
 *
 * What the commands share: arguments as numbers, keys of a wanted type, patterns, ranges.
 *
 * Usual course: a command calls call_read(), call_write() or call_make(). If that returns
 * false, the error is in the reply already, and the command returns at once.
 */
#include "model.h"

#include <limits.h>

const char gate_wrong_type[] =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

struct keyspace *call_space(const struct call *call)
{
    return &call->server->spaces[*call->database];
}

bool call_int(struct call *call, int index, int64_t *ret)
{
    if (bytes_to_int(call->argv[index], ret)) {
        return true;
    }
    resp_error(call->reply, "ERR value is not an integer or out of range");
    return false;
}

bool call_long(struct call *call, int index, int64_t *ret)
{
    if (!call_int(call, index, ret)) {
        return false;
    }
    if (*ret >= LONG_MIN && *ret <= LONG_MAX) {
        return true;
    }
    resp_error(call->reply, "ERR value is out of range");
    return false;
}

void call_syntax_error(struct call *call)
{
    resp_error(call->reply, "ERR syntax error");
}

bool call_check_type(struct call *call, const struct content *content,
                     enum value_type type)
{
    if (content == NULL || content->type == type) {
        return true;
    }
    resp_error(call->reply, "%s", gate_wrong_type);
    return false;
}

bool call_read(struct call *call, enum value_type type, struct content **ret)
{
    *ret = keyspace_find(call_space(call), call->argv[1]);
    return call_check_type(call, *ret, type);
}

bool call_write(struct call *call, enum value_type type, struct content **ret)
{
    *ret = keyspace_open(call_space(call), call->argv[1]);
    return call_check_type(call, *ret, type);
}

bool call_make(struct call *call, enum value_type type, struct content **ret)
{
    *ret = keyspace_make(call_space(call), call->argv[1], type);
    return call_check_type(call, *ret, type);
}

/* Knows only * and ?, which suffice for the patterns of channels and keys here. */
bool glob_match(struct bytes pattern, struct bytes text)
{
    while (pattern.len) {
        char wanted = pattern.data[0];
        pattern = (struct bytes){pattern.data + 1, pattern.len - 1};
        if (wanted == '*') {
            for (size_t skip = 0; skip <= text.len; skip++) {
                struct bytes rest = {text.data + skip, text.len - skip};
                if (glob_match(pattern, rest)) {
                    return true;
                }
            }
            return false;
        }
        if (text.len == 0 || (wanted != '?' && wanted != text.data[0])) {
            return false;
        }
        text = (struct bytes){text.data + 1, text.len - 1};
    }
    return text.len == 0;
}

bool clip_range(int64_t count, int64_t *start, int64_t *stop)
{
    if (*start < 0) {
        *start = *start + count < 0 ? 0 : *start + count;
    }
    if (*stop < 0) {
        *stop += count;
    }
    if (*stop >= count) {
        *stop = count - 1;
    }
    return *start <= *stop && *start < count;
}
