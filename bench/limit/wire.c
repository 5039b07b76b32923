/* SPDX-License-Identifier: MIT */
/*
 * Owns the adapter between hiredis and libevent. Independent of the commands.
 *
 * When hiredis wants to write, the write event is made active by hand. So it runs once,
 * after the replies of this loop turn have been read, and needs no system call of its
 * own. Only if the socket is full does it wait for the socket.
 */
#include "wire.h"

#include "tls.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wire {
    redisAsyncContext *context;
    struct event *read, *write;
    bool writing, connected;
};

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "limit: %s: %s\n", what, why);
    exit(1);
}

void wire_check(const redisReply *reply)
{
    if (reply == NULL) {
        fail("reply", "the connection broke");
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        fail("reply", reply->str);
    }
}

static void on_readable(evutil_socket_t socket, short what, void *arg)
{
    struct wire *wire = arg;

    (void)socket, (void)what;
    redisAsyncHandleRead(wire->context);
}

static void on_writable(evutil_socket_t socket, short what, void *arg)
{
    struct wire *wire = arg;

    (void)socket, (void)what;
    wire->writing = true;
    redisAsyncHandleWrite(wire->context);
    wire->writing = false;
}

static void want_read(void *arg)
{
    struct wire *wire = arg;

    if (!event_pending(wire->read, EV_READ, NULL)) {
        event_add(wire->read, NULL);
    }
}

static void want_write(void *arg)
{
    struct wire *wire = arg;

    if (wire->writing || !wire->connected) {
        event_add(wire->write, NULL);
    } else {
        event_active(wire->write, EV_WRITE, 0);
    }
}

static void no_write(void *arg)
{
    struct wire *wire = arg;

    event_del(wire->write);
}

static void on_connected(const redisAsyncContext *context, int status)
{
    struct wire *wire = context->ev.data;

    if (status != REDIS_OK) {
        fail("connecting", context->errstr);
    }
    wire->connected = true;
}

static void on_disconnected(const redisAsyncContext *context, int status)
{
    (void)status;
    fail("connection", context->errstr);
}

struct place {
    char host[256]; /* or a path */
    int port;       /* 0: a path */
    bool tls;
};

static struct place split(const char *url)
{
    const char *rest = strstr(url, "://");
    struct place place = {.tls = strncmp(url, "rediss:", 7) == 0 ||
                                 strncmp(url, "valkeys:", 8) == 0};

    if (strncmp(url, "unix://", 7) == 0) {
        (void)snprintf(place.host, sizeof(place.host), "%s", url + 7);
    } else if ((!place.tls && strncmp(url, "redis:", 6) != 0 &&
                strncmp(url, "valkey:", 7) != 0) ||
               rest == NULL ||
               sscanf(rest, "://%255[^:/]:%d", place.host, &place.port) != 2) {
        fail(url, "neither redis[s]://host:port, valkey[s]://host:port nor unix:///path");
    }
    return place;
}

/* Starts TLS if the URL asks for it. Ends the program if there is no usable context. */
static void begin(redisContext *context, const struct place *place,
                  const struct measure_options *options)
{
    const char *why = context == NULL ? "out of memory"
                      : context->err  ? context->errstr
                      : place->tls    ? tls_begin(context, place->host, options->tls_ca)
                                      : NULL;

    if (why != NULL) {
        fail(options->url, why);
    }
}

redisAsyncContext *wire_open(struct event_base *base,
                             const struct measure_options *options)
{
    struct place place = split(options->url);
    redisAsyncContext *context = place.port ? redisAsyncConnect(place.host, place.port)
                                            : redisAsyncConnectUnix(place.host);
    struct wire *wire = calloc(1, sizeof(*wire));

    begin(context != NULL && wire != NULL ? &context->c : NULL, &place, options);
    wire->context = context;
    wire->read = event_new(base, context->c.fd, EV_READ | EV_PERSIST, on_readable, wire);
    wire->write = event_new(base, context->c.fd, EV_WRITE, on_writable, wire);
    if (wire->read == NULL || wire->write == NULL) {
        fail(options->url, "out of memory");
    }
    context->ev.data = wire;
    context->ev.addRead = want_read;
    context->ev.addWrite = want_write;
    context->ev.delWrite = no_write;
    redisAsyncSetConnectCallback(context, on_connected);
    redisAsyncSetDisconnectCallback(context, on_disconnected);
    return context;
}

redisContext *wire_open_waiting(const struct measure_options *options)
{
    struct place place = split(options->url);
    redisContext *context = place.port ? redisConnect(place.host, place.port)
                                       : redisConnectUnix(place.host);

    begin(context, &place, options);
    return context;
}

void wire_load(redisContext *link, const char *script, char sha[41])
{
    redisReply *reply = redisCommand(link, "SCRIPT LOAD %s", script);

    wire_check(reply);
    (void)snprintf(sha, 41, "%s", reply->str);
    freeReplyObject(reply);
}

char *wire_format(size_t *length, int argc, const char **argv)
{
    char *formatted;
    long long size = redisFormatCommandArgv(&formatted, argc, argv, NULL);
    char *copy = size < 0 ? NULL : malloc((size_t)size);

    if (copy == NULL) {
        fail("command", "out of memory");
    }
    memcpy(copy, formatted, (size_t)size);
    redisFreeCommand(formatted);
    *length = (size_t)size;
    return copy;
}
