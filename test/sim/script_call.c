/* SPDX-License-Identifier: MIT
 *
 * The environment of a script: the table `redis`, and the Lua libraries that Redis leaves
 * to it. Independent of the cache and of EVAL.
 *
 * Usual course: redis.call builds a request from its arguments, makes the checks that
 * Redis makes for a script's command, runs it and pushes the reply as Lua values. An
 * error is raised as a table.
 */
#include "script.h"
#include "sha1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct script_engine *engine_of(lua_State *lua)
{
    return lua_touserdata(lua, lua_upvalueindex(1));
}

/* The arguments' bytes stay in `texts` until the command has run. */
struct script_request {
    struct bytes *argv;
    struct buffer *texts;
    int argc;
};

static void free_request(struct script_request *request)
{
    for (int i = 0; i < request->argc; i++) {
        buffer_free(&request->texts[i]);
    }
    free(request->texts);
    free(request->argv);
}

/* Returns false if an argument is neither a string nor a number. */
static bool build_request(lua_State *lua, struct script_request *request)
{
    bool good = true;

    request->argc = lua_gettop(lua);
    request->argv = must_alloc((size_t)request->argc * sizeof(*request->argv));
    request->texts = must_alloc((size_t)request->argc * sizeof(*request->texts));
    for (int i = 0; i < request->argc; i++) {
        size_t len;
        const char *text;
        char number[64];

        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            len = (size_t)snprintf(number, sizeof(number), "%.17g",
                                   lua_tonumber(lua, i + 1));
            text = number;
        } else {
            text = lua_tolstring(lua, i + 1, &len);
        }
        good = good && text != NULL;
        buffer_append(&request->texts[i], text != NULL ? text : "",
                      text != NULL ? len : 0);
        buffer_append(&request->texts[i], "", 1); /* never NULL */
        request->argv[i] = (struct bytes){request->texts[i].data, text != NULL ? len : 0};
    }
    return good;
}

static const char *refusal(struct script_run *run, struct call *call)
{
    const struct model_faults *faults = &call->server->faults;
    const char *error;

    call->command = command_find(call->argv, call->argc);
    if (call->command == NULL || (call->command->run == NULL && call->argc > 1)) {
        return "ERR Unknown Redis command called from script";
    }
    if (!command_arity_fits(call->command, call->argc)) {
        return "ERR Wrong number of args calling Redis command from script";
    }
    if (call->command->flags & CMD_NO_SCRIPT) {
        return "ERR This Redis command is not allowed from script";
    }
    if (call->conn == NULL) {
        return NULL;
    }
    error = gate_script_permission(call);
    if (error == NULL) {
        error = gate_write_error(call);
    }
    if (error != NULL) {
        return error;
    }
    if (faults->oom && !run->wrote && (call->command->flags & CMD_DENY_OOM)) {
        return gate_oom_error;
    }
    return gate_script_slots(call, run->call);
}

/* Leaves the reply, or {err=...}, on the stack. */
static void run_request(struct script_engine *engine, struct script_request *request)
{
    struct script_run *run = engine->run;
    struct buffer answer = {0};
    struct call call = {
        .server = engine->server,
        .conn = run->call->conn,
        .database = &run->database,
        .argv = request->argv,
        .argc = request->argc,
        .reply = &answer,
    };
    const char *error = refusal(run, &call);

    if (error != NULL) {
        script_push_error(engine->lua, error);
        return;
    }
    run->wrote = run->wrote || (call.command->flags & CMD_WRITE);
    call.command->run(&call);
    script_push_answer(engine->lua, buffer_view(&answer));
    buffer_free(&answer);
}

static bool is_error(lua_State *lua)
{
    bool found;

    if (!lua_istable(lua, -1)) {
        return false;
    }
    lua_getfield(lua, -1, "err");
    found = !lua_isnil(lua, -1);
    lua_pop(lua, 1);
    return found;
}

/* Returns true if an error is on the stack, to be raised or returned. */
static bool call_redis(lua_State *lua)
{
    struct script_engine *engine = engine_of(lua);
    struct script_request request = {0};

    luaL_checkstack(lua, 8, "too many arguments");
    if (lua_gettop(lua) == 0) {
        script_push_error(lua,
                          "ERR Please specify at least one argument for this redis lib "
                          "call");
        return true;
    }
    if (build_request(lua, &request)) {
        run_request(engine, &request);
    } else {
        script_push_error(lua, "ERR Lua redis lib command arguments must be strings or "
                               "integers");
    }
    free_request(&request);
    return is_error(lua);
}

static int redis_call(lua_State *lua)
{
    return call_redis(lua) ? lua_error(lua) : 1;
}

static int redis_pcall(lua_State *lua)
{
    call_redis(lua);
    return 1;
}

static bool one_string(lua_State *lua)
{
    return lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING;
}

static int redis_error_reply(lua_State *lua)
{
    const char *text;

    if (!one_string(lua)) {
        script_push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    text = lua_tostring(lua, 1);
    text += *text == '-';
    lua_pushfstring(lua, strchr(text, ' ') != NULL ? "%s" : "ERR %s", text);
    script_push_error(lua, lua_tostring(lua, -1));
    return 1;
}

static int redis_status_reply(lua_State *lua)
{
    if (!one_string(lua)) {
        script_push_error(lua, "ERR wrong number or type of arguments");
        return 1;
    }
    lua_newtable(lua);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, "ok");
    return 1;
}

static int redis_sha1hex(lua_State *lua)
{
    char hex[SHA1_HEX_SIZE];
    size_t len;
    const char *text = luaL_checklstring(lua, 1, &len);

    sha1_hex(text, len, hex);
    lua_pushstring(lua, hex);
    return 1;
}

static int redis_log(lua_State *lua)
{
    (void)lua;
    return 0;
}

/* Errors of redis.call are tables, but Lua's pcall has to return their text. */
static int text_pcall(lua_State *lua)
{
    luaL_checkany(lua, 1);
    if (lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0) == 0) {
        lua_pushboolean(lua, 1);
        lua_insert(lua, 1);
        return lua_gettop(lua);
    }
    if (lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1)) {
            lua_replace(lua, -2);
        } else {
            lua_pop(lua, 1);
        }
    }
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

static void add_function(struct script_engine *engine, const char *name,
                         lua_CFunction code)
{
    lua_pushlightuserdata(engine->lua, engine);
    lua_pushcclosure(engine->lua, code, 1);
    lua_setfield(engine->lua, -2, name);
}

static void open_library(lua_State *lua, const char *name, lua_CFunction open)
{
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

static void remove_what_reaches_outside(lua_State *lua)
{
    static const char *const names[] = {"dofile", "loadfile", "print",   "newproxy",
                                        "module", "require",  "setfenv", "getfenv"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        lua_pushnil(lua);
        lua_setglobal(lua, names[i]);
    }
}

void script_open_libraries(struct script_engine *engine)
{
    static const char *const levels[] = {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE",
                                         "LOG_WARNING"};
    lua_State *lua = engine->lua;

    open_library(lua, "", luaopen_base);
    open_library(lua, LUA_TABLIBNAME, luaopen_table);
    open_library(lua, LUA_STRLIBNAME, luaopen_string);
    open_library(lua, LUA_MATHLIBNAME, luaopen_math);
    remove_what_reaches_outside(lua);
    lua_pushcfunction(lua, text_pcall);
    lua_setglobal(lua, "pcall");
    lua_newtable(lua);
    add_function(engine, "call", redis_call);
    add_function(engine, "pcall", redis_pcall);
    add_function(engine, "error_reply", redis_error_reply);
    add_function(engine, "status_reply", redis_status_reply);
    add_function(engine, "sha1hex", redis_sha1hex);
    add_function(engine, "log", redis_log);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(lua, i);
        lua_setfield(lua, -2, levels[i]);
    }
    lua_pushinteger(lua, 0x70000);
    lua_setfield(lua, -2, "REDIS_VERSION_NUM");
    lua_setglobal(lua, "redis");
}
