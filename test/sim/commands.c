/* SPDX-License-Identifier: MIT
 *
 * Runs the command of a request: lookup, arity check, gate, call. Independent of what the
 * commands do.
 *
 * Usual course: command_execute() is called with the arguments of one request.
 */
#include "model.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct command *find_name(const char *name)
{
    for (size_t i = 0; i < command_count; i++) {
        if (strcmp(command_table[i].name, name) == 0) {
            return &command_table[i];
        }
    }
    return NULL;
}

static bool lower_case(struct bytes word, char *out, size_t size)
{
    if (word.len >= size || memchr(word.data, '|', word.len) != NULL) {
        return false;
    }
    for (size_t i = 0; i < word.len; i++) {
        out[i] = (char)tolower((unsigned char)word.data[i]);
    }
    out[word.len] = '\0';
    return true;
}

/* Returns NULL if the command is unknown; if only the subcommand is, returns the
 * container, whose `run` is NULL. */
const struct command *command_find(const struct bytes *argv, int argc)
{
    char name[32], whole[65], sub[32];
    const struct command *command, *subcommand;

    if (!lower_case(argv[0], name, sizeof(name))) {
        return NULL;
    }
    command = find_name(name);
    if (command == NULL || command->run != NULL || argc < 2 ||
        !lower_case(argv[1], sub, sizeof(sub))) {
        return command;
    }
    (void)snprintf(whole, sizeof(whole), "%s|%s", name, sub);
    subcommand = find_name(whole);
    return subcommand != NULL ? subcommand : command;
}

bool command_arity_fits(const struct command *command, int argc)
{
    return command->arity >= 0 ? argc == command->arity : argc >= -command->arity;
}

static void reply_unknown(struct call *call)
{
    struct buffer arguments = {0};

    for (int i = 1; i < call->argc && arguments.len < 128; i++) {
        size_t room = 128 - arguments.len;
        struct bytes word = call->argv[i];
        buffer_text(&arguments, "'");
        buffer_append(&arguments, word.data, word.len < room ? word.len : room);
        buffer_text(&arguments, "' ");
    }
    resp_error(call->reply, "ERR unknown command '%.*s', with args beginning with: %.*s",
               call->argv[0].len < 128 ? (int)call->argv[0].len : 128, call->argv[0].data,
               (int)arguments.len, arguments.data != NULL ? arguments.data : "");
    buffer_free(&arguments);
}

static void reply_unknown_subcommand(struct call *call)
{
    char container[32];
    size_t len = 0;

    for (; call->command->name[len]; len++) {
        container[len] = (char)toupper((unsigned char)call->command->name[len]);
    }
    container[len] = '\0';
    resp_error(call->reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
               call->argv[1].len < 128 ? (int)call->argv[1].len : 128, call->argv[1].data,
               container);
}

bool command_is_there(const struct model_server *server, const struct command *command)
{
    if (command == NULL) {
        return false;
    }
    if (server->view != NULL) {
        return command->flags & (CMD_SENTINEL | CMD_SENTINEL_ONLY);
    }
    if (command->flags & CMD_ABILITY) {
        return server->knows != NULL && strcmp(server->knows, command->name) == 0;
    }
    return !(command->flags & CMD_SENTINEL_ONLY);
}

void command_run_unchecked(struct call *call)
{
    call->command = command_find(call->argv, call->argc);
    if (!command_is_there(call->server, call->command)) {
        reply_unknown(call);
    } else if (call->command->run == NULL && call->argc > 1) {
        reply_unknown_subcommand(call);
    } else if (!command_arity_fits(call->command, call->argc)) {
        resp_error(call->reply, "ERR wrong number of arguments for '%s' command",
                   call->command->name);
    } else if (call->conn == NULL || gate_pass(call)) {
        call->command->run(call);
    }
}

void command_execute(struct call *call)
{
    server_begin(call->server);
    command_run_unchecked(call);
    replication_end_command(call->server);
}
