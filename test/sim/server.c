/* SPDX-License-Identifier: MIT
 *
 * The model server as a whole: its connections, restarts and clock. model_server.h has
 * the contract. Independent of what a command does.
 *
 * Usual course: model_conn_feed() appends to the input, and cuts out whole requests.
 * commands.c runs each, and its reply goes into the connection's output.
 */
#include "model.h"

#include <stdlib.h>

struct model_server *model_server_new(model_clock_fn *clock, void *arg)
{
    struct model_server *server = must_alloc(sizeof(*server));

    server->clock = clock;
    server->clock_arg = arg;
    for (int i = 0; i < MODEL_DATABASES; i++) {
        server->spaces[i].index = i;
        server->spaces[i].undo = &server->undo;
    }
    server->scripts = script_engine_new(server);
    server->former_offset = -1;
    server->started_us = clock(arg);
    return server;
}

void model_server_free(struct model_server *server)
{
    if (server == NULL) {
        return;
    }
    while (server->conns != NULL) {
        model_conn_free(server->conns);
    }
    model_server_promote(server);
    if (server->replica != NULL) {
        model_server_promote(server->replica);
    }
    script_engine_free(server->scripts);
    undo_forget(&server->undo);
    for (int i = 0; i < MODEL_DATABASES; i++) {
        keyspace_free(&server->spaces[i]);
    }
    free(server);
}

void model_server_on_output(struct model_server *server, model_output_fn *notify,
                            void *arg)
{
    server->notify = notify;
    server->notify_arg = arg;
}

struct model_faults *model_server_faults(struct model_server *server)
{
    return &server->faults;
}

void server_begin(struct model_server *server)
{
    int64_t true_us = server->clock(server->clock_arg);

    server->now_us = true_us + server->clock_step_us;
    server->undo.now_us = true_us;
    for (int i = 0; i < MODEL_DATABASES; i++) {
        server->spaces[i].now_ms = server->now_us / 1000;
        server->spaces[i].keeps_ended = server->master != NULL || server->faults.readonly;
    }
}

void model_server_remember(struct model_server *server, int64_t window_us)
{
    server->undo.window_us = window_us;
}

void model_server_hang_up(struct model_server *server)
{
    for (struct model_conn *conn = server->conns; conn != NULL; conn = conn->next) {
        conn_close(conn);
    }
}

void model_server_restart(struct model_server *server, int64_t lost_us)
{
    server_begin(server);
    model_server_hang_up(server);
    server->last_client_id = 0;
    server->restarts++;
    server->started_us = server->now_us;
    /* a master with a replica stores the end of its lineage with its data */
    replication_begin_lineage(server, lost_us == 0 && server->replica != NULL);
    server->paused = false;
    script_engine_flush(server->scripts);
    if (lost_us > 0) {
        undo_back_to(&server->undo, server->undo.now_us - lost_us, server->spaces);
    }
    if (lost_us < 0) {
        for (int i = 0; i < MODEL_DATABASES; i++) {
            keyspace_clear(&server->spaces[i]);
        }
        undo_forget(&server->undo);
    }
}

void model_server_know(struct model_server *server, const char *word)
{
    server->knows = word;
}

void model_server_set_number(struct model_server *server, unsigned number)
{
    server->number = number;
    replication_begin_lineage(server, false);
}

void model_server_set_uptime(struct model_server *server, int64_t us)
{
    server_begin(server);
    server->started_us = server->now_us - us;
}

void model_server_set_place(struct model_server *server, const struct model_place *place)
{
    server->place = *place;
}

void model_server_be_sentinel(struct model_server *server, const struct model_view *view)
{
    server->view = view;
}

void model_server_be_node(struct model_server *server, const struct model_map *map)
{
    server->map = map;
}

void model_server_publish(struct model_server *server, const char *channel,
                          const char *message)
{
    (void)pubsub_deliver(server, bytes_of(channel), bytes_of(message));
}

void model_server_step_clock(struct model_server *server, int64_t step_us)
{
    server->clock_step_us += step_us;
}

int64_t model_server_time_us(struct model_server *server)
{
    server_begin(server);
    return server->now_us;
}

void model_server_flush_scripts(struct model_server *server)
{
    script_engine_flush(server->scripts);
}

void model_server_deny_channels(struct model_server *server, bool deny)
{
    server->faults.deny_channels = deny;
    for (struct model_conn *conn = server->conns; deny && conn != NULL;
         conn = conn->next) {
        if (conn->subscription_count) {
            conn_close(conn);
        }
    }
}

void model_server_watch(struct model_server *server, const struct model_watch *watch)
{
    server->watch = *watch;
}

void model_server_ask(struct model_server *server, int database, const struct bytes *argv,
                      int argc, struct buffer *answer)
{
    struct call call = {
        .server = server,
        .database = &database,
        .argv = argv,
        .argc = argc,
        .reply = answer,
    };
    command_execute(&call);
}

void model_server_ask_words(struct model_server *server, const char *words,
                            struct buffer *answer)
{
    struct resp_request request = {0};
    struct buffer line = {0};

    buffer_printf(&line, "%s\n", words);
    if (resp_parse(buffer_view(&line), &request) == RESP_REQUEST && request.argc) {
        model_server_ask(server, 0, request.argv, request.argc, answer);
    }
    resp_request_free(&request);
    buffer_free(&line);
}

struct key_walk {
    const struct keyspace *space;
    model_key_fn *visit;
    void *arg;
};

static void visit_key(struct bytes name, const struct content *content, void *arg)
{
    struct key_walk *walk = arg;
    struct model_key key = {
        .name = name,
        .database = walk->space->index,
        .type = value_type_name(content->type),
        .ttl_ms = content->expire_ms == NO_EXPIRY
                      ? -1
                      : content->expire_ms - walk->space->now_ms,
    };
    walk->visit(&key, walk->arg);
}

void model_server_each_key(struct model_server *server, model_key_fn *visit, void *arg)
{
    server_begin(server);
    for (int i = 0; i < MODEL_DATABASES; i++) {
        struct key_walk walk = {&server->spaces[i], visit, arg};
        keyspace_each(&server->spaces[i], visit_key, &walk);
    }
}

static void notify(struct model_conn *conn)
{
    if (conn->server->notify != NULL) {
        conn->server->notify(conn, conn->server->notify_arg);
    }
}

void conn_output(struct model_conn *conn, const void *data, size_t len)
{
    bool was_empty = conn->out.len == 0;

    buffer_append(&conn->out, data, len);
    if (was_empty && len) {
        notify(conn);
    }
}

void conn_close(struct model_conn *conn)
{
    pubsub_forget(conn);
    buffer_clear(&conn->out);
    if (conn->closing) {
        return;
    }
    conn->closing = true;
    notify(conn);
}

struct model_conn *model_server_connect(struct model_server *server)
{
    static const char full[] = "-ERR max number of clients reached\r\n";
    struct model_conn *conn = must_alloc(sizeof(*conn));
    int count = 0;

    for (const struct model_conn *at = server->conns; at != NULL; at = at->next) {
        count += !at->closing;
    }
    conn->server = server;
    conn->id = ++server->last_client_id;
    conn->authenticated = server->faults.password == NULL;
    conn->next = server->conns;
    if (conn->next != NULL) {
        conn->next->previous = conn;
    }
    server->conns = conn;
    if (server->faults.max_clients && count >= server->faults.max_clients) {
        buffer_text(&conn->out, full);
        conn->closing = true;
    }
    return conn;
}

static void run_request(struct model_conn *conn, const struct resp_request *request)
{
    struct buffer reply = {0};
    struct call call = {
        .server = conn->server,
        .conn = conn,
        .database = &conn->database,
        .argv = request->argv,
        .argc = request->argc,
        .reply = &reply,
    };

    command_execute(&call);
    if (call.command == NULL || !(call.command->flags & CMD_ASKING)) {
        conn->asking = false;
    }
    conn_output(conn, reply.data, reply.len);
    buffer_free(&reply);
}

/* Returns true if the next command has to wait, with all that follow it, because writes
 * are paused. */
static bool has_to_wait(const struct model_conn *conn)
{
    const struct resp_request *request = &conn->request;
    const struct command *command;

    if (!conn->server->paused || !request->argc) {
        return false;
    }
    command = command_find(request->argv, request->argc);
    return command != NULL && (command->flags & (CMD_WRITE | CMD_MAY_REPLICATE));
}

static void run_requests(struct model_conn *conn)
{
    size_t used = 0;
    enum resp_result result = RESP_MORE;

    while (!conn->closing) {
        struct bytes rest = {conn->in.data + used, conn->in.len - used};
        result = resp_parse(rest, &conn->request);
        if (result != RESP_REQUEST || has_to_wait(conn)) {
            break;
        }
        used += conn->request.used;
        if (conn->request.argc) {
            run_request(conn, &conn->request);
        }
    }
    buffer_consume(&conn->in, used);
    if (result == RESP_BAD) {
        struct buffer error = {0};
        resp_error(&error, "ERR Protocol error: %s", conn->request.error);
        conn->closing = true;
        conn_output(conn, error.data, error.len);
        buffer_free(&error);
    }
    if (conn->closing) {
        pubsub_forget(conn);
    }
}

void model_conn_feed(struct model_conn *conn, const void *data, size_t len)
{
    if (conn->closing || len == 0) {
        return;
    }
    buffer_append(&conn->in, data, len);
    run_requests(conn);
}

void model_server_pause_writes(struct model_server *server, bool pause)
{
    server->paused = pause;
    for (struct model_conn *conn = server->conns; conn != NULL && !pause;
         conn = conn->next) {
        if (!conn->closing) {
            run_requests(conn);
        }
    }
}

struct bytes model_conn_output(const struct model_conn *conn)
{
    return buffer_view(&conn->out);
}

void model_conn_consume(struct model_conn *conn, size_t len)
{
    buffer_consume(&conn->out, len);
}

bool model_conn_closing(const struct model_conn *conn)
{
    return conn->closing;
}

void model_conn_set_user(struct model_conn *conn, void *user)
{
    conn->user = user;
}

void *model_conn_user(const struct model_conn *conn)
{
    return conn->user;
}

int64_t model_conn_id(const struct model_conn *conn)
{
    return conn->id;
}

bool model_conn_subscribed(const struct model_conn *conn)
{
    return conn->subscription_count > 0;
}

void model_conn_free(struct model_conn *conn)
{
    if (conn == NULL) {
        return;
    }
    pubsub_forget(conn);
    if (conn->previous != NULL) {
        conn->previous->next = conn->next;
    } else {
        conn->server->conns = conn->next;
    }
    if (conn->next != NULL) {
        conn->next->previous = conn->previous;
    }
    buffer_free(&conn->name);
    buffer_free(&conn->in);
    buffer_free(&conn->out);
    resp_request_free(&conn->request);
    free(conn);
}
