/* SPDX-License-Identifier: MIT */
/* One connection: hiredis' asynchronous context on its adapter for libevent, who waits
 * for which reply, and the time-out of the oldest that waits. Must not know what the
 * commands mean.
 *
 * Happy path: lw__link_open (link_open.c), `up`; redisAsyncFormattedCommand for each
 * command, whose callback takes the reply to the oldest record. Each failure (refused,
 * time-out, end of file, a reply that the guard refuses, no memory) ends in
 * lw__link_fail, which frees the context and tells those who waited from a deferred call.
 *
 * Any function called may close the link or free the loop: `entered` keeps the link's
 * memory until we have returned. Within its reply callbacks hiredis defers a free by
 * itself. */
#include "redis/link.h"

#include "lockwire.h"
#include "loop/loop.h"
#include "redis/link_inside.h"
#include "redis/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE ((size_t)16384) /* hiredis' */

/* Ending */

/* Everything but memory; those who wait are told later, and not by hiredis. */
static void shut(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    lw__timer_cancel(link->loop, &link->timer);
    lw__timer_unreserve(link->loop, 1);
    lw__defer_cancel(link->loop, &link->came_up);
    lw__defer_cancel(link->loop, &link->overdue);
    lw__defer_cancel(link->loop, &link->more);
    lw__tls_free(link->tls);
    link->tls = NULL;
    lw__wire_detach(&link->wire);
    link->context = NULL;
    if (context != NULL) {
        redisAsyncFree(context);
    }
}

bool lw__link_is_open(const struct lw__link *link)
{
    return link->state == LW__LINK_CONNECTING || link->state == LW__LINK_UP;
}

static void forget_channels(struct lw__link *link)
{
    struct lw__channel *channel;

    while ((channel = link->channels) != NULL) {
        link->channels = channel->older;
        free(channel);
    }
}

void lw__link_destroy(struct lw__link *link)
{
    lw__awaited_clear(&link->awaited);
    lw__guard_clear(&link->guard);
    lw__tls_free(link->tls);
    forget_channels(link);
    free(link);
}

void lw__link_let_go(struct lw__link *link)
{
    link->entered--;
    if (link->entered == 0 && link->state == LW__LINK_CLOSED) {
        lw__link_destroy(link);
    }
}

void lw__link_close(struct lw__link *link)
{
    if (link == NULL || link->state == LW__LINK_CLOSED) {
        return;
    }
    if (lw__link_is_open(link)) {
        shut(link);
    }
    link->state = LW__LINK_CLOSED;
    lw__defer_cancel(link->loop, &link->end);
    lw__awaited_clear(&link->awaited);
    link->entered++;
    lw__link_let_go(link);
}

void lw__link_fail(struct lw__link *link, const char *why)
{
    if (!lw__link_is_open(link)) {
        return;
    }
    lw__escape(why, link->why, sizeof(link->why));
    link->rejected = link->tls != NULL && lw__tls_is_rejected(link->tls);
    shut(link);
    link->state = LW__LINK_FAILED;
    lw__defer(link->loop, &link->end, false);
}

void lw__link_wipe_sent(struct lw__link *link, size_t room)
{
    if (lw__link_is_open(link)) {
        lw__wire_wipe(&link->wire, room);
    }
}

void lw__link_fail_doing(struct lw__link *link, const char *what, const char *error)
{
    char why[sizeof(link->peer) + LW__WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s %s: %s", what, link->peer, error);
    lw__link_fail(link, why);
}

static void on_end(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    while (link->state == LW__LINK_FAILED && link->awaited.first != NULL) {
        struct lw__request *request = lw__awaited_pop(&link->awaited);
        if (request != NULL && request->type->failed != NULL) {
            request->type->failed(request, link->why);
        }
    }
    if (link->state == LW__LINK_FAILED) {
        link->events.down(link->arg, link->why);
    }
    link->state = LW__LINK_CLOSED;
    lw__link_let_go(link);
}

/* Time-outs */

static int64_t oldest_due(const struct lw__link *link)
{
    const struct lw__record *oldest = link->awaited.first;
    int64_t since = INT64_MAX;

    /* What was sent before `up` has waited for the connection only. */
    if (oldest != NULL) {
        since = oldest->sent_us > link->up_us ? oldest->sent_us : link->up_us;
        since += (int64_t)link->request_timeout_ms * 1000;
    }
    return since;
}

/* Set once, it is left alone while requests come and go, and then looks anew. */
void lw__link_arm(struct lw__link *link)
{
    if (link->state == LW__LINK_UP && link->awaited.first != NULL &&
        !lw__timer_is_set(&link->timer)) {
        lw__timer_set(link->loop, &link->timer, oldest_due(link));
    }
}

/* Something to read, or an end. OpenSSL may have taken it from the socket. */
static bool has_arrived(const struct lw__link *link)
{
    char byte;

    return (link->tls != NULL && lw__tls_has_more(link->tls)) ||
           recv(link->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           errno != EAGAIN;
}

/* A loop that stalled is no reason to give up what has arrived meanwhile: first look. But
 * not while timers run, since a reply may only be believed when all that were due have
 * been. */
static void on_overdue(void *arg)
{
    struct lw__link *link = arg;
    char why[LW__WHY_MAX];

    link->entered++;
    if (link->state == LW__LINK_UP && oldest_due(link) <= lw__now_us()) {
        if (has_arrived(link)) {
            redisAsyncHandleRead(link->context);
        } else {
            (void)snprintf(why, sizeof(why), "no answer from %s within %u ms", link->peer,
                           (unsigned)link->request_timeout_ms);
            lw__link_fail(link, why);
        }
    }
    lw__link_arm(link);
    lw__link_let_go(link);
}

static bool is_decided(int fd)
{
    struct pollfd wait = {fd, POLLOUT, 0};

    return poll(&wait, 1, 0) == 1;
}

static void fail_connecting(struct lw__link *link)
{
    bool shaking = (link->context->c.flags & REDIS_CONNECTED) != 0;
    bool mute = shaking && lw__tls_heard(link->tls) == 0;
    char why[LW__WHY_MAX];

    (void)snprintf(why, sizeof(why), "no %s %.60s within %u ms%s",
                   shaking ? "TLS handshake with" : "connection to", link->peer,
                   (unsigned)link->connect_timeout_ms,
                   mute ? ": nothing came, as from a Redis without TLS (redis://)" : "");
    lw__link_fail(link, why);
}

static void on_timer(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    if (link->state == LW__LINK_CONNECTING) {
        if (is_decided(link->context->c.fd)) {
            lw__wire_look(&link->wire);
        }
        if (link->state == LW__LINK_CONNECTING && link->wire.error == 0) {
            fail_connecting(link);
        }
    } else if (oldest_due(link) <= lw__now_us()) {
        lw__defer(link->loop, &link->overdue, false);
    } else {
        lw__link_arm(link);
    }
    lw__link_let_go(link);
}

/* Something is wrong that is only told outside of hiredis. What the server said last may
 * lie unread, and hiredis reads a part of it each time. */
static void on_broken(void *arg)
{
    struct lw__link *link = arg;
    int error = link->wire.error;
    char why[LW__WHY_MAX];

    link->entered++;
    if (error == EMSGSIZE) {
        (void)snprintf(why, sizeof(why), "a reply is longer than %zu bytes",
                       link->guard.max);
        lw__link_fail(link, why);
    } else if (error == ENOMEM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else if (error == EPROTO) {
        lw__link_fail_doing(link, "TLS with", lw__tls_why(link->tls));
    } else if (has_arrived(link)) {
        redisAsyncHandleRead(link->context);
        if (lw__link_is_open(link)) {
            lw__defer(link->loop, &link->broken, false);
        }
    } else {
        lw__link_fail_doing(link, "writing to", strerror(error));
    }
    lw__link_let_go(link);
}

/* Reading */

struct lw__link *lw__link_enter(const redisAsyncContext *context, const void *reply)
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
        lw__link_let_go(link);
        return NULL;
    }
    return link;
}

void lw__link_leave(struct lw__link *link)
{
    struct lw__loop *loop = link->loop;

    lw__link_let_go(link);
    lw__loop_leave(loop);
}

void lw__link_tell_up(struct lw__link *link)
{
    if (!link->told_up && link->state == LW__LINK_UP) {
        link->told_up = true;
        lw__defer_cancel(link->loop, &link->came_up);
        link->events.up(link->arg);
    }
}

static void take(struct lw__link *link, const struct lw__reply *reply)
{
    struct lw__record *oldest = link->awaited.first;
    struct lw__request *request = oldest->request;

    link->answered = true;
    oldest->remaining--;
    link->awaited.replies--;
    if (oldest->remaining == 0) {
        (void)lw__awaited_pop(&link->awaited);
    }
    if (request != NULL) {
        request->expected--;
        request->type->reply(request, reply);
    } else {
        link->events.unclaimed(link->arg);
    }
}

static void on_reply(redisAsyncContext *context, void *reply, void *data)
{
    struct lw__link *link = lw__link_enter(context, reply);

    if (link == NULL) {
        return;
    }
    lw__link_tell_up(link);
    if (link->state == LW__LINK_UP) {
        if (data == link->awaited.first) {
            take(link, reply);
        } else {
            lw__link_fail(link, "hiredis lost count of the replies");
        }
    }
    lw__link_leave(link);
}

/* Writing */

void lw__link_sent(struct lw__link *link, struct lw__request *request, unsigned replies)
{
    int64_t now_us = lw__now_us();

    lw__awaited_push(&link->awaited, request, replies, now_us);
    if (request != NULL) {
        request->sent_us = now_us;
    }
    lw__link_arm(link);
}

int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length)
{
    struct lw__record *record;
    size_t first = request->expected == 2 ? request->second : length;
    int status;

    if (!lw__link_is_open(link) || link->listening || request->expected == 0) {
        return LW_ECONN;
    }
    record = lw__awaited_reserve(&link->awaited);
    status = record != NULL
                 ? lw__guard_send(link->context, on_reply, record, bytes, first)
                 : LW_ENOMEM;
    if (status == 0 && first < length) {
        status = lw__guard_send(link->context, on_reply, record, bytes + first,
                                length - first);
    }
    if (status != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return status;
    }
    lw__link_sent(link, request, request->expected);
    return 0;
}

void lw__link_forget(struct lw__link *link, struct lw__request *request)
{
    (void)link;
    lw__awaited_forget(request);
}

bool lw__link_has_connected(const struct lw__link *link)
{
    return link->connected;
}

bool lw__link_is_rejected(const struct lw__link *link)
{
    return link->rejected;
}

bool lw__link_has_ended(const struct lw__link *link)
{
    return link->ended;
}

size_t lw__link_inflight(const struct lw__link *link)
{
    return link->awaited.replies;
}

/* Beginning */

void lw__link_connected(struct lw__link *link)
{
    link->state = LW__LINK_UP;
    link->connected = true;
    link->up_us = lw__now_us();
    lw__timer_cancel(link->loop, &link->timer);
    lw__link_arm(link);
    lw__defer(link->loop, &link->came_up, false);
}

static void on_came_up(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    lw__link_tell_up(link);
    lw__link_let_go(link);
}

struct lw__link *lw__link_new(struct lw__loop *loop,
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
    link->to_host = options->host != NULL;
    link->connect_timeout_ms = options->connect_timeout_ms;
    link->request_timeout_ms = options->request_timeout_ms;
    lw__timer_init(&link->timer, on_timer, link);
    lw__defer_init(&link->came_up, on_came_up, link);
    lw__defer_init(&link->broken, on_broken, link);
    lw__defer_init(&link->overdue, on_overdue, link);
    lw__defer_init(&link->end, on_end, link);
    lw__awaited_init(&link->awaited);
    lw__guard_init(&link->guard, options->reply_max);
    if (options->reply_elements != 0) {
        link->guard.max_elements = options->reply_elements;
    }
    lw__wire_init(&link->wire, loop, link, &link->broken, options->reply_max + READ_SIZE);
    return link;
}
