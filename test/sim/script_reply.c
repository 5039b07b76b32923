/* SPDX-License-Identifier: MIT
 *
 * Converts replies of commands to Lua values, and Lua values to replies, by Redis' rules
 * for RESP2: numbers lose their fraction, an array ends at its first nil, and nil and
 * false are the same.
 */
#include "script.h"

#include <string.h>

static struct bytes skip(struct bytes rest, size_t count)
{
    return (struct bytes){rest.data + count, rest.len - count};
}

static void push_single_field(lua_State *lua, const char *field, struct bytes text)
{
    lua_newtable(lua);
    lua_pushlstring(lua, text.data, text.len);
    lua_setfield(lua, -2, field);
}

void script_push_error(lua_State *lua, const char *error)
{
    push_single_field(lua, "err", bytes_of(error));
}

static struct bytes push_array(lua_State *lua, int64_t count, struct bytes rest)
{
    if (count < 0) {
        lua_pushboolean(lua, 0);
        return rest;
    }
    lua_createtable(lua, (int)count, 0);
    for (int64_t i = 1; i <= count; i++) {
        rest = script_push_answer(lua, rest);
        lua_rawseti(lua, -2, (int)i);
    }
    return rest;
}

struct bytes script_push_answer(lua_State *lua, struct bytes answer)
{
    const char *end = memchr(answer.data, '\r', answer.len);
    struct bytes line = {answer.data + 1, (size_t)(end - answer.data) - 1};
    struct bytes rest = skip(answer, line.len + 3);
    int64_t number = 0;

    luaL_checkstack(lua, 4, "answer nested too deeply");
    switch (answer.data[0]) {
    case '+':
        push_single_field(lua, "ok", line);
        return rest;
    case '-':
        push_single_field(lua, "err", line);
        return rest;
    case ':':
        bytes_to_int(line, &number);
        lua_pushnumber(lua, (lua_Number)number);
        return rest;
    case '*':
        bytes_to_int(line, &number);
        return push_array(lua, number, rest);
    default:
        bytes_to_int(line, &number);
        if (number < 0) {
            lua_pushboolean(lua, 0);
            return rest;
        }
        lua_pushlstring(lua, rest.data, (size_t)number);
        return skip(rest, (size_t)number + 2);
    }
}

/* Truncates as x86 does: a number that does not fit becomes the smallest one. */
static int64_t truncate_number(lua_Number number)
{
    if (!(number >= -9223372036854775808.0 && number < 9223372036854775808.0)) {
        return INT64_MIN;
    }
    return (int64_t)number;
}

/* Writes '+text' or '-text' if the table on top has such a field. */
static bool write_line_field(lua_State *lua, struct buffer *out, const char *field,
                             const char *mark)
{
    size_t len;
    bool found;

    lua_pushstring(lua, field);
    lua_rawget(lua, -2);
    const char *text = lua_tolstring(lua, -1, &len);
    found = text != NULL;
    if (found) {
        size_t start;
        buffer_text(out, mark);
        start = out->len;
        while (*mark == '-' && len && strchr("\r\n", text[len - 1]) != NULL) {
            len--;
        }
        buffer_append(out, text, len);
        for (size_t i = start; i < out->len; i++) {
            if (out->data[i] == '\r' || out->data[i] == '\n') {
                out->data[i] = ' ';
            }
        }
        buffer_text(out, "\r\n");
    }
    lua_pop(lua, 1);
    return found;
}

static void write_table(lua_State *lua, struct buffer *out)
{
    struct buffer elements = {0};
    size_t count = 0;

    if (write_line_field(lua, out, "err", "-") || write_line_field(lua, out, "ok", "+")) {
        return;
    }
    for (;;) {
        lua_pushnumber(lua, (lua_Number)(count + 1));
        lua_rawget(lua, -2);
        if (lua_isnil(lua, -1)) {
            break;
        }
        script_write_answer(lua, &elements);
        count++;
    }
    lua_pop(lua, 1);
    resp_array(out, count);
    buffer_append(out, elements.data, elements.len);
    buffer_free(&elements);
}

void script_write_answer(lua_State *lua, struct buffer *out)
{
    size_t len;
    const char *text;

    if (!lua_checkstack(lua, 4)) {
        resp_error(out, "ERR reached lua stack limit");
        lua_pop(lua, 1);
        return;
    }
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &len);
        resp_bulk(out, (struct bytes){text, len});
        break;
    case LUA_TNUMBER:
        resp_int(out, truncate_number(lua_tonumber(lua, -1)));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1)) {
            resp_int(out, 1);
        } else {
            resp_nil(out);
        }
        break;
    case LUA_TTABLE:
        write_table(lua, out);
        break;
    default:
        resp_nil(out);
    }
    lua_pop(lua, 1);
}
