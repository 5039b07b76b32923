/* SPDX-License-Identifier: MIT */
/*
 * Owns the adapter between hiredis and libevent. Must not know what is sent.
 *
 * Happy path: hiredis wants to write, the write event is made active by hand, so that it
 * runs once, after the replies of this turn were read, and without a system call of its
 * own. Only where the socket is full it waits for the socket.
 */
#include "wire.h"

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

/* The parts of redis://host:port; false: it is a unix:///path, whose path is in host. */
static bool split(const char *url, char host[256], int *port)
{
    if (strncmp(url, "unix://", 7) == 0) {
        (void)snprintf(host, 256, "%s", url + 7);
        return false;
    }
    if (sscanf(url, "redis://%255[^:/]:%d", host, port) != 2) {
        fail(url, "neither redis://host:port nor unix:///path");
    }
    return true;
}

redisAsyncContext *wire_open(struct event_base *base, const char *url)
{
    char host[256];
    int port;
    redisAsyncContext *context = split(url, host, &port) ? redisAsyncConnect(host, port)
                                                         : redisAsyncConnectUnix(host);
    struct wire *wire = calloc(1, sizeof(*wire));

    if (context == NULL || wire == NULL || context->err) {
        fail(url, context != NULL ? context->errstr : "out of memory");
    }
    wire->context = context;
    wire->read = event_new(base, context->c.fd, EV_READ | EV_PERSIST, on_readable, wire);
    wire->write = event_new(base, context->c.fd, EV_WRITE, on_writable, wire);
    if (wire->read == NULL || wire->write == NULL) {
        fail(url, "out of memory");
    }
    context->ev.data = wire;
    context->ev.addRead = want_read;
    context->ev.addWrite = want_write;
    context->ev.delWrite = no_write;
    redisAsyncSetConnectCallback(context, on_connected);
    redisAsyncSetDisconnectCallback(context, on_disconnected);
    return context;
}

redisContext *wire_open_waiting(const char *url)
{
    char host[256];
    int port;
    redisContext *context = split(url, host, &port) ? redisConnect(host, port)
                                                    : redisConnectUnix(host);

    if (context == NULL || context->err) {
        fail(url, context != NULL ? context->errstr : "out of memory");
    }
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
