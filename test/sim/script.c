/* SPDX-License-Identifier: MIT
 *
 * Scripts: the cache by SHA-1, EVAL and related commands, runs with KEYS and ARGV, and
 * errors as Redis words them. Knows Lua and the calling convention of commands.
 * Independent of what a command does.
 *
 * Usual course: EVALSHA finds the compiled function, sets KEYS and ARGV, and runs it. The
 * value becomes the reply. One Lua state serves all scripts, as in Redis. A flush creates
 * a new one.
 */
#include "script.h"
#include "sha1.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct script {
    char sha1[SHA1_HEX_SIZE];
    int function; /* in Lua's registry */
    UT_hash_handle hh;
};

static int unknown_global(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_tostring(lua, 2));
}

static int modified_global(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

/* Gives scripts an empty table in front of the globals, so that every write is
 * noticed. */
static void make_environment(lua_State *lua)
{
    lua_newtable(lua); /* the globals' metatable */
    lua_pushcfunction(lua, unknown_global);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);

    lua_newtable(lua); /* the table that scripts see */
    lua_newtable(lua);
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, modified_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "_G");
    lua_setfield(lua, LUA_REGISTRYINDEX, "environment");
}

static void open_lua(struct script_engine *engine)
{
    engine->lua = luaL_newstate();
    if (engine->lua == NULL) {
        abort();
    }
    script_open_libraries(engine);
    make_environment(engine->lua);
}

static void close_lua(struct script_engine *engine)
{
    struct script *script, *next;

    HASH_ITER(hh, engine->scripts, script, next) {
        HASH_DEL(engine->scripts, script);
        free(script);
    }
    lua_close(engine->lua);
}

struct script_engine *script_engine_new(struct model_server *server)
{
    struct script_engine *engine = must_alloc(sizeof(*engine));
    engine->server = server;
    open_lua(engine);
    return engine;
}

void script_engine_free(struct script_engine *engine)
{
    close_lua(engine);
    free(engine);
}

void script_engine_flush(struct script_engine *engine)
{
    close_lua(engine);
    open_lua(engine);
}

static struct script *find_script(struct script_engine *engine, struct bytes sha1)
{
    struct script *script;
    char name[SHA1_HEX_SIZE];

    if (sha1.len != SHA1_HEX_SIZE - 1) {
        return NULL;
    }
    for (size_t i = 0; i < sha1.len; i++) {
        name[i] = (char)tolower((unsigned char)sha1.data[i]);
    }
    HASH_FIND(hh, engine->scripts, name, sha1.len, script);
    return script;
}

/* Returns NULL, after having replied the error, if the text does not compile. */
static struct script *load_script(struct script_engine *engine, struct bytes text,
                                  struct buffer *reply)
{
    struct script *script;
    char sha1[SHA1_HEX_SIZE];

    sha1_hex(text.data, text.len, sha1);
    script = find_script(engine, bytes_of(sha1));
    if (script != NULL) {
        return script;
    }
    if (luaL_loadbuffer(engine->lua, text.data, text.len, "@user_script")) {
        resp_error(reply, "ERR Error compiling script (new function): %s",
                   lua_tostring(engine->lua, -1));
        lua_pop(engine->lua, 1);
        return NULL;
    }
    lua_getfield(engine->lua, LUA_REGISTRYINDEX, "environment");
    lua_setfenv(engine->lua, -2);
    script = must_alloc(sizeof(*script));
    memcpy(script->sha1, sha1, sizeof(sha1));
    script->function = luaL_ref(engine->lua, LUA_REGISTRYINDEX);
    HASH_ADD(hh, engine->scripts, sha1, SHA1_HEX_SIZE - 1, script);
    return script;
}

/* Turns any error into {err=, source=, line=}: only here its position is known. */
static int locate_error(lua_State *lua)
{
    lua_Debug where;
    bool known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "nSl", &where);

    if (known && strcmp(where.what, "C") == 0) {
        known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "nSl", &where);
    }
    if (!lua_istable(lua, 1)) {
        lua_getglobal(lua, "tostring");
        lua_pushvalue(lua, 1);
        lua_call(lua, 1, 1);
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, -1));
        script_push_error(lua, lua_tostring(lua, -1));
        lua_replace(lua, 1);
    }
    lua_settop(lua, 1);
    if (known) {
        lua_pushstring(lua, where.source);
        lua_setfield(lua, 1, "source");
        lua_pushinteger(lua, where.currentline);
        lua_setfield(lua, 1, "line");
    }
    return 1;
}

static const char *field_text(lua_State *lua, const char *field)
{
    lua_getfield(lua, 1, field);
    return lua_tostring(lua, -1);
}

static void reply_failure(lua_State *lua, const struct script *script,
                          struct buffer *reply)
{
    lua_settop(lua, 1);
    if (!lua_istable(lua, 1)) {
        resp_error(reply, "ERR %s script: %s", lua_tostring(lua, 1), script->sha1);
        return;
    }
    const char *error = field_text(lua, "err");
    const char *source = field_text(lua, "source");
    const char *line = field_text(lua, "line");
    if (source != NULL && line != NULL) {
        resp_error(reply, "%s script: %s, on %s:%s.", error != NULL ? error : "",
                   script->sha1, source, line);
    } else {
        resp_error(reply, "%s script: %s", error != NULL ? error : "", script->sha1);
    }
}

static void set_arguments(lua_State *lua, const char *global, const struct bytes *first,
                          int count)
{
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, first[i].data, first[i].len);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_setglobal(lua, global);
}

typedef void watch_fn(struct model_server *server, const struct model_script_run *run);

static void show_run(const struct call *call, const struct script *script, int key_count,
                     watch_fn *watch)
{
    struct model_script_run run = {
        .keys = call->argv + 3,
        .args = call->argv + 3 + key_count,
        .key_count = key_count,
        .arg_count = call->argc - 3 - key_count,
        .reply = buffer_view(call->reply),
        .sha1 = script->sha1,
    };

    if (call->conn != NULL && watch != NULL) {
        watch(call->server, &run);
    }
}

static void run_script(struct call *call, const struct script *script, int key_count)
{
    struct script_engine *engine = call->server->scripts;
    lua_State *lua = engine->lua;
    struct script_run run = {.call = call, .database = *call->database};

    show_run(call, script, key_count, call->server->watch.before);
    set_arguments(lua, "KEYS", call->argv + 3, key_count);
    set_arguments(lua, "ARGV", call->argv + 3 + key_count, call->argc - 3 - key_count);
    lua_settop(lua, 0);
    lua_pushcfunction(lua, locate_error);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, script->function);
    engine->run = &run;
    int failed = lua_pcall(lua, 0, 1, 1);
    engine->run = NULL;
    lua_remove(lua, 1);
    if (failed) {
        reply_failure(lua, script, call->reply);
    } else {
        script_write_answer(lua, call->reply);
    }
    lua_settop(lua, 0);
    show_run(call, script, key_count, call->server->watch.script);
}

static bool key_count(struct call *call, int *ret)
{
    int64_t count;

    if (!call_long(call, 2, &count)) {
        return false;
    }
    if (count > call->argc - 3) {
        resp_error(call->reply,
                   "ERR Number of keys can't be greater than number of args");
        return false;
    }
    if (count < 0) {
        resp_error(call->reply, "ERR Number of keys can't be negative");
        return false;
    }
    *ret = (int)count;
    return true;
}

void run_eval(struct call *call)
{
    const struct script *script;
    int keys;

    if (!key_count(call, &keys)) {
        return;
    }
    script = load_script(call->server->scripts, call->argv[1], call->reply);
    if (script != NULL) {
        run_script(call, script, keys);
    }
}

void run_evalsha(struct call *call)
{
    const struct script *script = find_script(call->server->scripts, call->argv[1]);
    bool forgotten = call->conn != NULL && call->server->faults.forget_scripts;
    int keys;

    if (!key_count(call, &keys)) {
        return;
    }
    if (script == NULL || forgotten) {
        resp_error(call->reply, "NOSCRIPT No matching script. Please use EVAL.");
    } else {
        run_script(call, script, keys);
    }
}

void run_script_load(struct call *call)
{
    const struct script *script =
        load_script(call->server->scripts, call->argv[2], call->reply);
    if (script != NULL) {
        resp_text(call->reply, script->sha1);
    }
}

void run_script_exists(struct call *call)
{
    resp_array(call->reply, (size_t)call->argc - 2);
    for (int i = 2; i < call->argc; i++) {
        resp_int(call->reply, find_script(call->server->scripts, call->argv[i]) != NULL);
    }
}

void run_script_flush(struct call *call)
{
    bool known = call->argc == 2 ||
                 (call->argc == 3 &&
                  (bytes_is(call->argv[2], "sync") || bytes_is(call->argv[2], "async")));
    if (!known) {
        resp_error(call->reply, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    script_engine_flush(call->server->scripts);
    resp_status(call->reply, "OK");
}
