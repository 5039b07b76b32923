/* SPDX-License-Identifier: MIT
 *
 * Commands on the server and on connections: PING, AUTH, SELECT, TIME, CONFIG GET, CLIENT
 * ... Those that need a connection use call->conn, which is NULL in model_server_ask().
 * CMD_NO_SCRIPT keeps them out of scripts.
 */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

void run_ping(struct call *call)
{
    if (call->argc > 2) {
        resp_error(call->reply, "ERR wrong number of arguments for 'ping' command");
    } else if (call->conn != NULL && call->conn->subscription_count) {
        resp_array(call->reply, 2);
        resp_text(call->reply, "pong");
        resp_bulk(call->reply, call->argc == 2 ? call->argv[1] : bytes_of(""));
    } else if (call->argc == 2) {
        resp_bulk(call->reply, call->argv[1]);
    } else {
        resp_status(call->reply, "PONG");
    }
}

void run_quit(struct call *call)
{
    resp_status(call->reply, "OK");
    if (call->conn != NULL) {
        call->conn->closing = true;
    }
}

void run_auth(struct call *call)
{
    const char *password = call->server->faults.password;
    bool right_user = call->argc == 2 || bytes_equal(call->argv[1], bytes_of("default"));

    if (call->argc > 3) {
        call_syntax_error(call);
    } else if (call->argc == 2 && password == NULL) {
        resp_error(
            call->reply,
            "ERR AUTH <password> called without any password configured for the default "
            "user. Are you sure your configuration is correct?");
    } else if (right_user && (password == NULL || bytes_equal(call->argv[call->argc - 1],
                                                              bytes_of(password)))) {
        if (call->conn != NULL) {
            call->conn->authenticated = true;
        }
        resp_status(call->reply, "OK");
    } else {
        resp_error(call->reply,
                   "WRONGPASS invalid username-password pair or user is disabled.");
    }
}

void run_select(struct call *call)
{
    int64_t index;

    if (!call_int(call, 1, &index)) {
        return;
    }
    if (call->server->map != NULL && index != 0) {
        resp_error(call->reply, "ERR SELECT is not allowed in cluster mode");
        return;
    }
    if (index < 0 || index >= MODEL_DATABASES) {
        resp_error(call->reply, "ERR DB index is out of range");
        return;
    }
    *call->database = (int)index;
    resp_status(call->reply, "OK");
}

static void reply_number_text(struct call *call, int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    resp_text(call->reply, text);
}

void run_time(struct call *call)
{
    resp_array(call->reply, 2);
    reply_number_text(call, call->server->now_us / 1000000);
    reply_number_text(call, call->server->now_us % 1000000);
}

static bool is_replica(const struct model_server *server)
{
    return server->master != NULL || server->faults.readonly || server->faults.masterdown;
}

void model_server_run_id(const struct model_server *server, char ret[MODEL_RUN_ID_SIZE])
{
    (void)snprintf(ret, MODEL_RUN_ID_SIZE, "%08x%08x%024x", server->number,
                   server->restarts + 1, 0);
}

/* Replies with only the fields that a client may use: which run of which server this is,
 * and its role. */
void run_info(struct call *call)
{
    struct buffer text = {0};
    char run_id[MODEL_RUN_ID_SIZE];

    model_server_run_id(call->server, run_id);
    buffer_printf(
        &text,
        "# Server\r\nredis_version:7.0.15\r\narch_bits:%zu\r\nrun_id:%s\r\n"
        "uptime_in_seconds:%" PRId64 "\r\n",
        8 * sizeof(long), /* of Lua's %d, with which the library writes numbers */
        run_id, call->server->now_us / 1000000 - call->server->started_us / 1000000);
    if (call->server->view != NULL) {
        buffer_text(&text, "redis_mode:sentinel\r\n");
    } else if (call->server->map != NULL) {
        buffer_text(&text, "redis_mode:cluster\r\n");
    }
    buffer_printf(&text, "# Replication\r\nrole:%s\r\n",
                  is_replica(call->server) ? "slave" : "master");
    buffer_printf(&text, "master_replid:%08x%08x%024x\r\n", call->server->lineage.number,
                  call->server->lineage.count, 1);
    buffer_printf(&text,
                  "master_replid2:%08x%08x%024x\r\nsecond_repl_offset:%" PRId64 "\r\n",
                  call->server->former.number, call->server->former.count,
                  call->server->former.count > 0, call->server->former_offset);
    resp_bulk(call->reply, buffer_view(&text));
    buffer_free(&text);
}

void run_flushall(struct call *call)
{
    bool known = call->argc == 1 ||
                 (call->argc == 2 &&
                  (bytes_is(call->argv[1], "sync") || bytes_is(call->argv[1], "async")));
    if (!known) {
        call_syntax_error(call);
        return;
    }
    for (int i = 0; i < MODEL_DATABASES; i++) {
        keyspace_clear(&call->server->spaces[i]);
    }
    resp_status(call->reply, "OK");
}

void run_config_get(struct call *call)
{
    static const char name[] = "maxmemory-policy";
    const char *policy = call->server->faults.eviction_policy;
    bool found = false;

    for (int i = 2; i < call->argc; i++) {
        found = found || glob_match(call->argv[i], bytes_of(name));
    }
    resp_array(call->reply, found ? 2 : 0);
    if (found) {
        resp_text(call->reply, name);
        resp_text(call->reply, policy != NULL ? policy : "noeviction");
    }
}

/* Replies with only a part of what a real server reports about the commands that it has.
 */
void run_command_info(struct call *call)
{
    resp_array(call->reply, (size_t)call->argc - 2);
    for (int i = 2; i < call->argc; i++) {
        const struct command *command = command_find(&call->argv[i], 1);

        if (!command_is_there(call->server, command)) {
            buffer_text(call->reply, "*-1\r\n");
            continue;
        }
        resp_array(call->reply, 2);
        resp_text(call->reply, command->name);
        resp_int(call->reply, command->arity);
    }
}

void run_client_id(struct call *call)
{
    resp_int(call->reply, call->conn != NULL ? call->conn->id : 0);
}

void run_client_setname(struct call *call)
{
    struct bytes name = call->argv[2];

    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            resp_error(call->reply, "ERR Client names cannot contain spaces, newlines or "
                                    "special characters.");
            return;
        }
    }
    if (call->conn != NULL) {
        buffer_set(&call->conn->name, name);
    }
    resp_status(call->reply, "OK");
}

void run_client_getname(struct call *call)
{
    if (call->conn != NULL && call->conn->name.len) {
        resp_bulk(call->reply, buffer_view(&call->conn->name));
    } else {
        resp_nil(call->reply);
    }
}

static int64_t kill_id(struct call *call, int64_t id)
{
    for (struct model_conn *conn = call->server->conns; conn != NULL; conn = conn->next) {
        if (conn->id != id || conn->closing) {
            continue;
        }
        if (conn == call->conn) {
            conn->closing = true; /* after its own reply */
        } else {
            conn_close(conn);
        }
        return 1;
    }
    return 0;
}

/* Kills by id only, since connections have no addresses here. */
void run_client_kill(struct call *call)
{
    int64_t id;

    if (call->argc == 3) {
        resp_error(call->reply, "ERR No such client");
    } else if (call->argc != 4 || !bytes_is(call->argv[2], "id")) {
        call_syntax_error(call);
    } else if (!bytes_to_int(call->argv[3], &id) || id < 1) {
        resp_error(call->reply, "ERR client-id should be greater than 0");
    } else {
        resp_int(call->reply, kill_id(call, id));
    }
}
