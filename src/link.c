/* SPDX-License-Identifier: MIT */
/*
 * One connection: hiredis' asynchronous context on its adapter for libevent, who waits for
 * which reply, and the time-out of the oldest that waits. Must not know what the commands
 * mean.
 *
 * Happy path: redisAsyncConnect; the connect callback, `up`; redisAsyncFormattedCommand for
 * each command, whose callback takes the reply to the oldest record, or to `push` once the
 * link is subscribed. Each failure (refused, time-out, end of file, a reply that the guard
 * refuses, no memory) ends in lw__link_fail, which frees the context and tells those who
 * waited from a deferred call.
 *
 * Any function called may close the link or free the loop: `entered` keeps the link's memory
 * until we have returned. Within its reply callbacks hiredis defers a free by itself; within
 * others nothing is called that could lead to one, since 0.14.1 would not bear it.
 */
#include "link.h"

#include "address.h"
#include "awaited.h"
#include "channels.h"
#include "guard.h"
#include "lockwire.h"
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_SIZE ((size_t)16384) /* hiredis' */

enum link_state { CONNECTING, UP, FAILED, CLOSED };

struct lw__link {
    struct lw__loop *loop;
    struct lw__link_events events;
    void *arg;
    uint32_t connect_timeout_ms, request_timeout_ms;
    enum link_state state;
    unsigned entered;
    bool told_up, listening;

    redisAsyncContext *context; /* NULL: hiredis has freed it, or was told to */
    struct lw__wire wire;
    struct lw__timer timer; /* connecting; then the oldest request, or earlier */
    struct lw__deferred came_up, broken, overdue, end;
    int64_t up_us;
    struct lw__awaited awaited;
    struct lw__channels channels;

    char peer[112], why[LW__WHY];
    struct lw__guard guard;
};

/* Ending */

/* Everything but memory; those who wait are told later, and not by hiredis. */
static void shut(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    lw__timer_cancel(link->loop, &link->timer);
    lw__loop_unreserve(link->loop, 1);
    lw__defer_cancel(link->loop, &link->came_up);
    lw__defer_cancel(link->loop, &link->overdue);
    lw__wire_detach(&link->wire);
    link->context = NULL;
    if (context != NULL) {
        redisAsyncFree(context);
    }
}

static bool is_open(const struct lw__link *link)
{
    return link->state == CONNECTING || link->state == UP;
}

static void destroy(struct lw__link *link)
{
    lw__awaited_clear(&link->awaited);
    lw__guard_clear(&link->guard);
    lw__channels_clear(&link->channels);
    free(link);
}

static void leave(struct lw__link *link)
{
    link->entered--;
    if (link->entered == 0 && link->state == CLOSED) {
        destroy(link);
    }
}

void lw__link_close(struct lw__link *link)
{
    if (link == NULL || link->state == CLOSED) {
        return;
    }
    if (is_open(link)) {
        shut(link);
    }
    link->state = CLOSED;
    lw__defer_cancel(link->loop, &link->end);
    lw__awaited_clear(&link->awaited);
    link->entered++;
    leave(link);
}

void lw__link_abandon(struct lw__link *link)
{
    lw__wire_close_childs(&link->wire);
    lw__link_close(link);
}

void lw__link_fail(struct lw__link *link, const char *why)
{
    if (!is_open(link)) {
        return;
    }
    (void)snprintf(link->why, sizeof(link->why), "%s", why);
    for (char *c = link->why; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?'; /* a server's words, on their way to a log */
        }
    }
    shut(link);
    link->state = FAILED;
    lw__defer(link->loop, &link->end, false);
}

static void fail_doing(struct lw__link *link, const char *what, const char *error)
{
    char why[sizeof(link->peer) + LW__WHY];

    (void)snprintf(why, sizeof(why), "%s %s: %s", what, link->peer, error);
    lw__link_fail(link, why);
}

static void on_end(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    while (link->state == FAILED && link->awaited.first != NULL) {
        struct lw__request *request = lw__awaited_pop(&link->awaited);
        if (request != NULL) {
            request->failed(request, link->why);
        }
    }
    if (link->state == FAILED) {
        link->events.down(link->arg, link->why);
    }
    link->state = CLOSED;
    leave(link);
}

/* hiredis ends it, and frees the context when this returns. */
static void tell_why(struct lw__link *link, const redisContext *c)
{
    const char *refused = lw__guard_why(&link->guard);

    if (refused != NULL) {
        lw__link_fail(link, refused);
    } else if (c->err == REDIS_ERR_EOF) {
        lw__link_fail(link, "the server closed the connection");
    } else if (c->err == REDIS_ERR_IO) {
        fail_doing(link, "reading from", c->errstr);
    } else if (c->err == REDIS_ERR_OOM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else {
        lw__link_fail(link, c->errstr);
    }
}

/* Time-outs */

static int64_t oldest_due(const struct lw__link *link)
{
    const struct lw__record *oldest = link->awaited.first;
    int64_t since = INT64_MAX;

    if (oldest !=
        NULL) { /* what was sent before `up` has waited for the connection only */
        since = oldest->sent_us > link->up_us ? oldest->sent_us : link->up_us;
        since += (int64_t)link->request_timeout_ms * 1000;
    }
    return since;
}

/* Set once, it is left alone while requests come and go, and looks for the oldest
 * then. */
static void arm(struct lw__link *link)
{
    if (link->state == UP && link->awaited.first != NULL &&
        !lw__timer_is_set(&link->timer)) {
        lw__timer_set(link->loop, &link->timer, oldest_due(link));
    }
}

/* A loop that stalled is no reason to give up what has arrived meanwhile: first look. But not
 * while timers run, since a reply may only be believed when all that were due have been. */
static void on_overdue(void *arg)
{
    struct lw__link *link = arg;
    char why[LW__WHY], byte;

    link->entered++;
    if (link->state == UP && oldest_due(link) <= lw__now_us()) {
        if (recv(link->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
            errno == EAGAIN) {
            (void)snprintf(why, sizeof(why), "no answer from %s within %u ms", link->peer,
                           (unsigned)link->request_timeout_ms);
            lw__link_fail(link, why);
        } else {
            redisAsyncHandleRead(link->context);
        }
    }
    arm(link);
    leave(link);
}

static bool is_decided(int fd)
{
    struct pollfd wait = {fd, POLLOUT, 0};

    return poll(&wait, 1, 0) == 1;
}

static void on_timer(void *arg)
{
    struct lw__link *link = arg;
    char why[LW__WHY];

    link->entered++;
    if (link->state == CONNECTING) {
        if (is_decided(link->context->c.fd)) {
            lw__wire_look(&link->wire);
        } else {
            (void)snprintf(why, sizeof(why), "no connection to %s within %u ms",
                           link->peer, (unsigned)link->connect_timeout_ms);
            lw__link_fail(link, why);
        }
    } else if (oldest_due(link) <= lw__now_us()) {
        lw__defer(link->loop, &link->overdue, false);
    } else {
        arm(link);
    }
    leave(link);
}

/* Something is wrong that is only told outside of hiredis. The server's last words may lie
 * unread. */
static void on_broken(void *arg)
{
    struct lw__link *link = arg;
    int error = link->wire.error;
    char why[LW__WHY];

    link->entered++;
    if (error == EMSGSIZE) {
        (void)snprintf(why, sizeof(why), "a reply is longer than %zu bytes",
                       link->guard.max);
        lw__link_fail(link, why);
    } else if (error == ENOMEM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else if (link->state == UP) {
        redisAsyncHandleRead(link->context);
        fail_doing(link, "writing to", strerror(error));
    }
    leave(link);
}

/* Reading */

/* Everything that hiredis calls for a reply goes through here. Its link, or NULL where it has
 * gone, as it may when timers run that were due before the reply: once for all of a read. */
static struct lw__link *enter(const redisAsyncContext *context, const void *reply)
{
    struct lw__link *link = lw__wire_owner(context);

    if (link == NULL || reply == NULL) {
        return NULL; /* hiredis ends it: those who wait are told by on_end */
    }
    link->entered++;
    if (!link->wire.fresh) {
        lw__loop_enter_again(link->loop);
        return link;
    }
    link->wire.fresh = false;
    if (!lw__loop_enter(link->loop)) {
        leave(link);
        return NULL;
    }
    return link;
}

static void leave_both(struct lw__link *link)
{
    struct lw__loop *loop = link->loop;

    leave(link);
    lw__loop_leave(loop);
}

static void tell_up(struct lw__link *link)
{
    if (!link->told_up) {
        link->told_up = true;
        lw__defer_cancel(link->loop, &link->came_up);
        link->events.up(link->arg);
    }
}

static void take(struct lw__link *link, const struct lw__reply *reply)
{
    struct lw__record *oldest = link->awaited.first;
    struct lw__request *request = oldest->request;

    oldest->remaining--;
    link->awaited.replies--;
    if (oldest->remaining == 0) {
        (void)lw__awaited_pop(&link->awaited);
    }
    if (request != NULL) {
        request->expected--;
        request->reply(request, reply);
    } else {
        link->events.unclaimed(link->arg);
    }
}

static void on_reply(redisAsyncContext *context, void *reply, void *data)
{
    struct lw__link *link = enter(context, reply);

    if (link == NULL) {
        return;
    }
    tell_up(link);
    if (link->state == UP) {
        if (data == link->awaited.first) {
            take(link, reply);
        } else {
            lw__link_fail(link, "hiredis lost count of the replies");
        }
    }
    leave_both(link);
}

static void take_push(struct lw__link *link, const struct lw__reply *reply)
{
    enum lw__said said = lw__guard_said(reply);
    bool awaited = link->awaited.first != NULL; /* then it is a confirmation that is */

    switch (said) {
    case LW__SAID_NONSENSE:
        lw__link_fail(link, "no message and no confirmation from the subscription");
        return;
    case LW__SAID_ERROR:
        if (!awaited) { /* "max number of clients reached", and the like */
            lw__link_fail(link, lw__reply_text(reply, NULL));
            return;
        }
        break;
    default:
        if (!lw__channels_have(&link->channels,
                               lw__reply_text(lw__reply_at(reply, 1), NULL))) {
            return; /* of a channel that is not ours */
        }
    }
    if (awaited && said != LW__SAID_MESSAGE) {
        (void)lw__awaited_pop(&link->awaited);
    }
    link->events.push(link->arg, reply);
}

static void on_push(redisAsyncContext *context, void *reply, void *data)
{
    struct lw__link *link = enter(context, reply);

    if (link == NULL) {
        return;
    }
    if (link->state == UP && lw__guard_listen(context, on_push, data) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    }
    tell_up(link);
    if (link->state == UP) {
        take_push(link, reply);
    }
    leave_both(link);
}

/* Writing */

static void sent(struct lw__link *link, struct lw__request *request, unsigned replies)
{
    int64_t now_us = lw__now_us();

    lw__awaited_push(&link->awaited, request, replies, now_us);
    if (request != NULL) {
        request->sent_us = now_us;
    }
    arm(link);
}

int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length)
{
    struct lw__record *record;
    int status;

    if (!is_open(link) || link->listening || request->expected == 0) {
        return LW_ECONN;
    }
    record = lw__awaited_reserve(&link->awaited);
    status = record != NULL ? 0 : LW_ENOMEM;
    for (unsigned left = request->expected; status == 0 && left > 0; left--) {
        size_t size = left > 1 ? lw__guard_command(bytes, length) : length;

        status = lw__guard_send(link->context, on_reply, record, bytes, size);
        bytes += size;
        length -= size;
    }
    if (status != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return status;
    }
    sent(link, request, request->expected);
    return 0;
}

static int subscribe(struct lw__link *link, const char *channel)
{
    const char *words[] = {"SUBSCRIBE", channel};
    char *command = NULL;
    int length, status = LW_ENOMEM;

    if (lw__awaited_reserve(&link->awaited) == NULL ||
        lw__channels_add(&link->channels, channel) != 0) {
        return LW_ENOMEM;
    }
    length = (int)redisFormatCommandArgv(&command, 2, words, NULL);
    if (length > 0) {
        status = lw__guard_send_unseen(link->context, command, (size_t)length);
        redisFreeCommand(command);
    }
    if (status == 0 && !link->listening) {
        status = lw__guard_listen(link->context, on_push, NULL);
        link->listening = true;
    }
    return status;
}

int lw__link_subscribe(struct lw__link *link, const char *channel)
{
    if (!is_open(link)) {
        return LW_ECONN;
    }
    if (subscribe(link, channel) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    sent(link, NULL, 1);
    return 0;
}

void lw__link_forget(struct lw__link *link, struct lw__request *request)
{
    (void)link;
    lw__awaited_forget(request);
}

size_t lw__link_inflight(const struct lw__link *link)
{
    return link->awaited.replies;
}

/* Opening */

static void on_came_up(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    tell_up(link);
    leave(link);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    if (link == NULL) {
        return;
    }
    if (status != REDIS_OK) {
        link->context = NULL;
        fail_doing(link, "connecting to", context->c.errstr);
        return;
    }
    link->state = UP;
    link->up_us = lw__now_us();
    lw__timer_cancel(link->loop, &link->timer);
    arm(link);
    lw__defer(link->loop, &link->came_up, false);
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    (void)status;
    if (link != NULL) {
        link->context = NULL;
        tell_why(link, &context->c);
    }
}

static void name_peer(struct lw__link *link, const struct lw__link_options *options)
{
    if (options->host == NULL) {
        (void)snprintf(link->peer, sizeof(link->peer), "%s", options->path);
    } else {
        bool v6 = strchr(options->host, ':') != NULL;
        (void)snprintf(link->peer, sizeof(link->peer), "%s%s%s:%u", v6 ? "[" : "",
                       options->host, v6 ? "]" : "", (unsigned)options->port);
    }
}

static struct lw__link *link_new(struct lw__loop *loop,
                                 const struct lw__link_options *options,
                                 const struct lw__link_events *events, void *arg)
{
    struct lw__link *link = malloc(sizeof(*link));

    if (link == NULL) {
        return NULL;
    }
    memset(link, 0, offsetof(struct lw__link, guard));
    link->loop = loop;
    link->events = *events;
    link->arg = arg;
    link->connect_timeout_ms = options->connect_timeout_ms;
    link->request_timeout_ms = options->request_timeout_ms;
    lw__timer_init(&link->timer, on_timer, link);
    lw__deferred_init(&link->came_up, on_came_up, link);
    lw__deferred_init(&link->broken, on_broken, link);
    lw__deferred_init(&link->overdue, on_overdue, link);
    lw__deferred_init(&link->end, on_end, link);
    lw__awaited_init(&link->awaited);
    lw__guard_init(&link->guard, options->reply_max);
    lw__wire_init(&link->wire, loop, link, &link->broken, options->reply_max + READ_SIZE);
    name_peer(link, options);
    return link;
}

/* hiredis would look a name up, and cut a path off. NULL: no memory, or `error` is set. */
static redisAsyncContext *start(const struct lw__link_options *options, int *error)
{
    struct lw__address address;

    if (options->host == NULL) {
        if (strlen(options->path) < sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
            return redisAsyncConnectUnix(options->path);
        }
    } else if (lw__address_parse(options->host, &address)) {
        lw__address_number_zone(&address);
        return redisAsyncConnect(address.text, options->port);
    }
    *error = EINVAL;
    return NULL;
}

/* 0, LW_ENOMEM, LW_ECONN: `why` tells. */
static int connect_link(struct lw__link *link, const struct lw__link_options *options,
                        char *why)
{
    int error = 0;
    redisAsyncContext *context = start(options, &error);
    const char *text = error != 0 ? strerror(error) : NULL;

    if (context != NULL && context->err != 0 && context->err != REDIS_ERR_OOM) {
        text = context->errstr;
    }
    if (text != NULL) {
        (void)snprintf(why, LW__WHY, "connecting to %s: %s", link->peer, text);
    }
    if (context == NULL || context->err != 0 ||
        lw__wire_attach(&link->wire, context) != 0) {
        if (context != NULL) {
            redisAsyncFree(context);
        }
        return text != NULL ? LW_ECONN : LW_ENOMEM;
    }
    link->context = context;
    lw__guard_attach(&link->guard, context);
    (void)redisAsyncSetConnectCallback(context, on_connect);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
    return 0;
}

int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret)
{
    struct lw__link *link = link_new(loop, options, events, arg);
    int status = LW_ENOMEM;

    (void)snprintf(why, LW__WHY, "%s", lw_strerror(LW_ENOMEM));
    if (link == NULL || lw__loop_reserve(loop, 1) < 0) {
        free(link);
        return LW_ENOMEM;
    }
    status = connect_link(link, options, why);
    if (status != 0) {
        lw__loop_unreserve(loop, 1);
        destroy(link);
        return status;
    }
    lw__timer_set(loop, &link->timer,
                  lw__now_us() + (int64_t)link->connect_timeout_ms * 1000);
    *ret = link;
    return 0;
}
