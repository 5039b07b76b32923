/* SPDX-License-Identifier: MIT */
/*
 * A network daemon that embeds lockwire: an HTTP gateway in front of work that must not
 * be done twice. Owns the routes and the process's life; see gateway.h for the rest.
 *
 *     cc *.c $(pkg-config --cflags --libs lockwire) -levent_extra -o gateway
 *     LOCKWIRE_URL=redis://localhost ./gateway --ledger FILE [OPTION...]
 *
 *     POST /gift/<user>[?wait=ms]   200, 409 with Retry-After, 503
 *     GET  /healthz                 200, or 503 and why
 *     GET  /metrics                 Prometheus' text format
 *
 * When sentinels name another master, the gateway needs no notice: waiting requests keep
 * waiting, and requests without a wait are answered with 503 and Retry-After until the
 * link is up again.
 *
 * Usual course: options, lw_client_new, the listener, event_base_dispatch. On SIGTERM the
 * listener closes, waiting requests get 503, and requests at work finish. The process
 * ends when lw_client_close is done.
 */
#include "gateway.h"
#include "options.h"

#include "lockwire.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HEADERS_MAX 8192 /* bytes */
#define BODY_MAX 1024    /* no request needs a body */

void report(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("gateway: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
}

const char *json_safe(char *copy, size_t size, const char *text)
{
    (void)snprintf(copy, size, "%s", text);
    for (char *at = copy; *at; at++) {
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 0x20) {
            *at = '\'';
        }
    }
    return copy;
}

void reply_json(struct evhttp_request *http, int code, const char *format, ...)
{
    struct evbuffer *out = evbuffer_new();
    va_list args;

    va_start(args, format);
    if (out == NULL || evbuffer_add_vprintf(out, format, args) < 0 ||
        evbuffer_add(out, "\n", 1) < 0) {
        evhttp_send_error(http, HTTP_INTERNAL, NULL);
    } else {
        evhttp_add_header(evhttp_request_get_output_headers(http), "Content-Type",
                          "application/json");
        evhttp_send_reply(http, code, NULL, out);
    }
    va_end(args);
    if (out != NULL) {
        evbuffer_free(out);
    }
}

static void reply_health(struct gateway *gateway, struct evhttp_request *http)
{
    char why[sizeof(gateway->why_down)];

    if (gateway->link_up) {
        reply_json(http, HTTP_OK, "{\"link\": \"up\"}");
    } else {
        reply_json(http, HTTP_SERVUNAVAIL, "{\"link\": \"down\", \"why\": \"%s\"}",
                   json_safe(why, sizeof(why), gateway->why_down));
    }
}

static bool is(struct evhttp_request *http, enum evhttp_cmd_type method,
               const char *allow)
{
    if (evhttp_request_get_command(http) == method) {
        return true;
    }
    evhttp_add_header(evhttp_request_get_output_headers(http), "Allow", allow);
    reply_json(http, HTTP_BADMETHOD, "{\"error\": \"only %s here\"}", allow);
    return false;
}

static void on_request(struct evhttp_request *http, void *arg)
{
    struct gateway *gateway = arg;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(http);
    const char *path = evhttp_uri_get_path(uri);

    if (path == NULL) {
        path = "";
    }
    if (gateway->stopping) {
        evhttp_add_header(evhttp_request_get_output_headers(http), "Connection", "close");
        reply_json(http, HTTP_SERVUNAVAIL, "{\"error\": \"shutting down\"}");
    } else if (strncmp(path, "/gift/", 6) == 0) {
        if (is(http, EVHTTP_REQ_POST, "POST")) {
            gift_start(gateway, http, path + 6, evhttp_uri_get_query(uri));
        }
    } else if (strcmp(path, "/healthz") == 0) {
        if (is(http, EVHTTP_REQ_GET, "GET")) {
            reply_health(gateway, http);
        }
    } else if (strcmp(path, "/metrics") == 0) {
        if (is(http, EVHTTP_REQ_GET, "GET")) {
            metrics_reply(gateway, http);
        }
    } else {
        reply_json(http, HTTP_NOTFOUND, "{\"error\": \"no such resource\"}");
    }
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct gateway *gateway = arg;

    (void)client;
    if (!up && (gateway->link_up || strcmp(why, gateway->why_down) != 0)) {
        report("no connection to Redis: %s", why);
    }
    gateway->link_up = up;
    (void)snprintf(gateway->why_down, sizeof(gateway->why_down), "%s", why);
}

static void on_log(int level, const char *message, void *arg)
{
    (void)level, (void)arg;
    report("%s", message);
}

static void on_client_closed(struct lw_client *client, void *arg)
{
    struct gateway *gateway = arg;
    struct timeval moment = {0, 100000}; /* for sending the last answers */

    (void)client;
    event_base_loopexit(gateway->base, &moment);
}

void gateway_drained(struct gateway *gateway)
{
    if (lw_client_close(gateway->client, on_client_closed, gateway) < 0) {
        event_base_loopbreak(gateway->base);
    }
}

static void on_stop(evutil_socket_t number, short what, void *arg)
{
    struct gateway *gateway = arg;

    (void)what;
    if (gateway->stopping) {
        event_base_loopbreak(gateway->base);
        return;
    }
    report("signal %d: finishing", (int)number);
    gateway->stopping = true;
    evhttp_del_accept_socket(gateway->http, gateway->listener);
    if (gateway->gifts != NULL) {
        gift_stop_waiting(gateway);
    } else {
        gateway_drained(gateway);
    }
}

static int open_file(struct ledger *file, const char *option, const char *path)
{
    int torn = ledger_open(file, path);

    if (torn < 0) {
        report("%s %s: %s", option, path, strerror(errno));
    } else if (torn > 0) {
        report("%s %s: its last line was torn, and counts for nothing", option, path);
    }
    return torn < 0 ? -1 : 0;
}

static int open_files(struct gateway *gateway, const struct options *options)
{
    if (open_file(&gateway->ledger, "--ledger", options->ledger) < 0) {
        return -1;
    }
    return options->grants != NULL
               ? open_file(&gateway->grants, "--grants", options->grants)
               : 0;
}

static int connect_to_redis(struct gateway *gateway, const struct options *options)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    int error;

    (void)snprintf(gateway->why_down, sizeof(gateway->why_down), "not connected yet");
    client.client_name = "gateway";
    client.link = on_link;
    client.log = on_log;
    client.arg = gateway;
    client.errbuf = gateway->error;
    client.errbuf_size = sizeof(gateway->error);
    client.guard_ms = (uint32_t)options->guard_ms;
    client.address_map = options->map;
    error = lw_client_new(gateway->base, options->url, &client, &gateway->client);
    if (error < 0) {
        report("%s", *gateway->error ? gateway->error : lw_strerror(error));
    }
    return error;
}

/* Writes to another name first, so that a reader of `path` finds the whole number. */
static int write_port(const char *path, int port)
{
    char draft[4096];
    FILE *file;
    int written;

    (void)snprintf(draft, sizeof(draft), "%s.new", path);
    file = fopen(draft, "we");
    if (file == NULL) {
        return -1;
    }
    written = fprintf(file, "%d\n", port);
    return fclose(file) == 0 && written > 0 ? rename(draft, path) : -1;
}

/* Creates the server with limits on what unknown clients can make it keep. A
 * request that is being answered does not count as idle. */
static struct evhttp *new_http(struct gateway *gateway, const struct options *options)
{
    struct evhttp *http = evhttp_new(gateway->base);
    struct timeval idle = {(time_t)(options->idle_ms / 1000),
                           (options->idle_ms % 1000) * 1000};

    if (http == NULL) {
        return NULL;
    }
    evhttp_set_max_headers_size(http, HEADERS_MAX);
    evhttp_set_max_body_size(http, BODY_MAX);
    evhttp_set_timeout_tv(http, &idle);
    return http;
}

static int listen_at(struct gateway *gateway, const struct options *options)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t size = sizeof(address);
    int port;

    gateway->http = new_http(gateway, options);
    if (gateway->http != NULL) {
        gateway->listener =
            evhttp_bind_socket_with_handle(gateway->http, options->host, options->port);
    }
    if (gateway->listener == NULL ||
        getsockname(evhttp_bound_socket_get_fd(gateway->listener), &address.any, &size) <
            0) {
        report("cannot listen at %s:%u: %s", options->host, options->port,
               strerror(errno));
        return -1;
    }
    evhttp_set_gencb(gateway->http, on_request, gateway);
    port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port
                                                   : address.v4.sin_port);
    if (options->port_file != NULL && write_port(options->port_file, port) < 0) {
        report("--port-file %s: %s", options->port_file, strerror(errno));
        return -1;
    }
    (void)printf("listening at %s:%d\n", options->host, port);
    return fflush(stdout);
}

static int serve(struct gateway *gateway, const struct options *options)
{
    struct event *term = evsignal_new(gateway->base, SIGTERM, on_stop, gateway);
    struct event *interrupt = evsignal_new(gateway->base, SIGINT, on_stop, gateway);
    int result = -1;

    if (term == NULL || interrupt == NULL || event_add(term, NULL) < 0 ||
        event_add(interrupt, NULL) < 0) {
        report("cannot watch for signals");
    } else if (connect_to_redis(gateway, options) == 0 &&
               listen_at(gateway, options) == 0) {
        result = event_base_dispatch(gateway->base);
    }
    if (term != NULL) {
        event_free(term);
    }
    if (interrupt != NULL) {
        event_free(interrupt);
    }
    return result;
}

int main(int argc, char **argv)
{
    struct options options;
    struct gateway gateway = {.ledger = {.fd = -1}, .grants = {.fd = -1}};
    int code = options_parse(argc, argv, &options);

    if (code >= 0) {
        return code;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* for evhttp; the library handles its own writes */
    (void)signal(SIGXFSZ, SIG_IGN); /* so that write fails if the file may not grow */
    gateway.work_ms = options.work_ms;
    gateway.lease_ms = (uint32_t)options.lease_ms;
    gateway.unlocked = options.unlocked;
    gateway.base = event_base_new();
    code = gateway.base != NULL && open_files(&gateway, &options) == 0 &&
                   serve(&gateway, &options) == 0
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
    if (gateway.http != NULL) {
        evhttp_free(gateway.http);
    }
    lw_client_free(gateway.client);
    if (gateway.base != NULL) {
        event_base_free(gateway.base);
    }
    ledger_close(&gateway.ledger);
    ledger_close(&gateway.grants);
    return code;
}
