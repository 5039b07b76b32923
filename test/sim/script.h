/* SPDX-License-Identifier: MIT
 *
 * The declarations that the files of the script engine share: script.c (cache and runs),
 * script_call.c (the table `redis`), script_reply.c (replies as Lua values, and back).
 */
#ifndef LW_SIM_SCRIPT_H
#define LW_SIM_SCRIPT_H

#include "model.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

struct script;

/* One run of a script; scripts do not nest. */
struct script_run {
    const struct call *call; /* of EVAL or EVALSHA */
    int database;            /* its own: a SELECT ends with the script */
    bool wrote;              /* memory is checked at the first write only */
};

struct script_engine {
    struct model_server *server;
    lua_State *lua;
    struct script *scripts;
    struct script_run *run;
};

/* script_call.c: `redis`, Redis' `pcall`, and no library that reaches outside. */
void script_open_libraries(struct script_engine *engine);

/* script_reply.c */
/* Pushes one value parsed from a reply; errors become {err=...}. Returns the rest. */
struct bytes script_push_answer(lua_State *lua, struct bytes answer);
void script_push_error(lua_State *lua, const char *error); /* {err=error} */
/* Writes the value on top of the stack as a reply, and pops it. */
void script_write_answer(lua_State *lua, struct buffer *out);

#endif
