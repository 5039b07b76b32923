/* SPDX-License-Identifier: MIT */
/* One connection: hiredis' asynchronous context, the requests that wait for a reply, the
 * time-out of the oldest one, and subscriptions. Independent of what the commands mean.
 *
 * lw__link_open connects, and the `up` event follows. lw__link_send writes a command; the
 * reply goes to the oldest pending request. Each failure (a refused connection, a
 * time-out, end of file, a reply that the reader rejects, no memory) ends in
 * lw__link_fail, which frees the context unless hiredis is about to. A deferred call,
 * on_end, then calls `failed` of each pending request, and `down`.
 *
 * SUBSCRIBE is sent past hiredis' own bookkeeping, and a callback waits for whatever the
 * server sends next (reader.c): confirmations and messages. An error is passed on as a
 * push if a confirmation was pending, or if it is MOVED; any other error takes the link
 * down. Messages of unknown channels are dropped, except for those of sharded channels.
 *
 * Any function that is called may close the link or free the loop: `refs` keeps the
 * link's memory until the caller has returned. Within its reply callbacks hiredis defers
 * freeing by itself. Its connect and disconnect callbacks call no function of the link's
 * owner, which might free what hiredis 0.14.1 still uses. */
#include "redis/link_private.h"

#include "base/address.h"
#include "base/asserts.h"
#include "base/buffer.h"
#include "base/container_of.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/slot.h"
#include "redis/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_SIZE ((size_t)16384) /* hiredis' */
#define SILENCE_LEAST_MS 300

/* ---- pending replies ----
 *
 * A record outlives its request, so that replies to a forgotten request are still
 * counted. Memory is allocated only when more records are in use than ever before, and
 * before anything is sent. While a request is pending it is in no list. Its `next` then
 * points to itself, by which lw__link_forget recognizes it. */

static void pending_init(struct lw__pending_list *pending)
{
    *pending = (struct lw__pending_list){.end = &pending->first};
}

static void detach(struct lw__pending *record)
{
    if (record->request != NULL) {
        record->request->next = NULL;
        record->request->prev = NULL;
        record->request = NULL;
    }
}

/* Makes sure that the next pending_push needs no memory. Returns NULL if there is none.
 */
static struct lw__pending *pending_reserve(struct lw__pending_list *pending)
{
    if (pending->spare == NULL) {
        pending->spare = calloc(1, sizeof(*pending->spare));
    }
    return pending->spare;
}

static void pending_push(struct lw__pending_list *pending, struct lw__request *request,
                         unsigned replies, int64_t sent_us)
{
    struct lw__pending *record = pending->spare;

    LW__ASSERT(record != NULL && (replies == 1 || replies == 2));
    pending->spare = record->next;
    *record = (struct lw__pending){NULL, request, sent_us, replies, 0};
    if (request != NULL) {
        request->next = request;
        request->prev = &record->request;
    }
    *pending->end = record;
    pending->end = &record->next;
    pending->replies += replies;
}

/* Returns the newest one, which must exist. */
static struct lw__pending *pending_last(struct lw__pending_list *pending)
{
    LW__ASSERT(pending->first != NULL);
    return LW__CONTAINER_OF(struct lw__pending, next, pending->end);
}

/* Removes the oldest one, which must exist. Returns its request, or NULL. */
static struct lw__request *pending_pop(struct lw__pending_list *pending)
{
    struct lw__pending *record = pending->first;
    struct lw__request *request = record->request;

    LW__ASSERT(pending->replies >= record->remaining);
    pending->first = record->next;
    if (pending->first == NULL) {
        pending->end = &pending->first;
    }
    pending->replies -= record->remaining;
    detach(record);
    record->next = pending->spare;
    pending->spare = record;
    return request;
}

static void pending_clear(struct lw__pending_list *pending)
{
    struct lw__pending *record;

    while (pending->first != NULL) {
        (void)pending_pop(pending);
    }
    while ((record = pending->spare) != NULL) {
        pending->spare = record->next;
        free(record);
    }
}

/* ---- ending ---- */

/* Returns true unless it has failed or was closed. */
static bool is_open(const struct lw__link *link)
{
    return link->state == LW__LINK_CONNECTING || link->state == LW__LINK_UP;
}

/* Frees the connection and what belongs to it, and cancels the timers of the link. Its
 * pending requests stay: on_end reports them, not hiredis. */
static void close_connection(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    LW__ASSERT(is_open(link));
    lw__timer_cancel(link->loop, &link->timer);
    lw__timer_unreserve(link->loop, 1);
    lw__defer_cancel(link->loop, &link->came_up);
    lw__defer_cancel(link->loop, &link->overdue);
    lw__defer_cancel(link->loop, &link->more);
    lw__defer_cancel(link->loop, &link->written);
    lw__tls_free(link->tls);
    link->tls = NULL;
    lw__wire_detach(&link->wire);
    link->context = NULL;
    if (context != NULL) {
        redisAsyncFree(context);
    }
}

static void forget_channels(struct lw__link *link)
{
    struct lw__link_channel *channel;

    while ((channel = link->channels) != NULL) {
        link->channels = channel->older;
        free(channel);
    }
}

static void destroy(struct lw__link *link)
{
    LW__ASSERT(link->refs == 0 && link->context == NULL);
    pending_clear(&link->pending);
    lw__reader_clear(&link->reader);
    lw__tls_free(link->tls);
    forget_channels(link);
    free(link);
}

void lw__link_unref(struct lw__link *link)
{
    LW__ASSERT(link->refs > 0);
    link->refs--;
    if (link->refs == 0 && link->state == LW__LINK_CLOSED) {
        destroy(link);
    }
}

void lw__link_close(struct lw__link *link)
{
    if (link == NULL || link->state == LW__LINK_CLOSED) {
        return;
    }
    if (is_open(link)) {
        close_connection(link);
    }
    link->state = LW__LINK_CLOSED;
    lw__defer_cancel(link->loop, &link->end);
    pending_clear(&link->pending);
    link->refs++;
    lw__link_unref(link);
}

void lw__link_fail(struct lw__link *link, const char *why)
{
    if (!is_open(link)) {
        return;
    }
    lw__escape(why, link->why, sizeof(link->why));
    link->rejected = link->tls != NULL && lw__tls_is_rejected(link->tls);
    close_connection(link);
    link->state = LW__LINK_FAILED;
    lw__defer(link->loop, &link->end, false);
}

void lw__link_wipe_sent(struct lw__link *link, size_t room)
{
    if (is_open(link)) {
        lw__wire_wipe(&link->wire, room);
    }
}

/* Fails with what was being done, the peer, and the error. */
static void fail_doing(struct lw__link *link, const char *what, const char *error)
{
    char why[sizeof(link->peer) + LW_WHY_SIZE];

    (void)snprintf(why, sizeof(why), "%s %s: %s", what, link->peer, error);
    lw__link_fail(link, why);
}

static void on_end(void *arg)
{
    struct lw__link *link = arg;

    LW__ASSERT(link->state == LW__LINK_FAILED && link->context == NULL);
    link->refs++;
    while (link->state == LW__LINK_FAILED && link->pending.first != NULL) {
        struct lw__request *request = pending_pop(&link->pending);
        if (request != NULL && request->type->failed != NULL) {
            request->type->failed(request, link->why);
        }
    }
    if (link->state == LW__LINK_FAILED) {
        link->events.down(link->arg, link->why);
    }
    link->state = LW__LINK_CLOSED;
    lw__link_unref(link);
}

/* ---- time-outs ---- */

/* Returns when the oldest request will have been unanswered for this time; INT64_MAX if
 * there is no request. One that was sent before `up` has only waited for the connection.
 */
static int64_t oldest_after(const struct lw__link *link, int64_t ms)
{
    const struct lw__pending *oldest = link->pending.first;

    if (oldest == NULL) {
        return INT64_MAX;
    }
    return (oldest->sent_us > link->up_us ? oldest->sent_us : link->up_us) + ms * LW__MS;
}

static int64_t oldest_due(const struct lw__link *link)
{
    return oldest_after(link, link->request_timeout_ms);
}

static int64_t silence_ms(const struct lw__link *link)
{
    int64_t part_ms = link->request_timeout_ms / 16;

    return part_ms > SILENCE_LEAST_MS ? part_ms : SILENCE_LEAST_MS;
}

bool lw__link_is_silent(const struct lw__link *link)
{
    return link->state == LW__LINK_UP &&
           oldest_after(link, silence_ms(link)) <= lw__now_us();
}

/* The timer is not moved while requests come and go: when it fires, it is set again. */
static void arm_timer(struct lw__link *link)
{
    int64_t due_us;

    if (link->state == LW__LINK_UP && link->pending.first != NULL &&
        !lw__timer_is_set(&link->timer)) {
        due_us = oldest_due(link);
        if (link->silence != NULL && due_us > lw__now_us() + silence_ms(link) * LW__MS) {
            due_us = lw__now_us() + silence_ms(link) * LW__MS;
        }
        lw__timer_set(link->loop, &link->timer, due_us);
    }
}

/* Returns true if there is data, an end of file or an error to read. OpenSSL may have
 * read data from the socket already. */
static bool has_arrived(const struct lw__link *link)
{
    char byte;

    LW__ASSERT(link->context != NULL);
    return (link->tls != NULL && lw__tls_has_more(link->tls)) ||
           recv(link->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
           errno != EAGAIN;
}

/* After a stall of the loop a reply may have arrived in time, so this reads before
 * failing. It does not read while timers run: a reply may only be used after all
 * timers that were due. */
static void on_overdue(void *arg)
{
    struct lw__link *link = arg;
    char why[LW_WHY_SIZE];

    link->refs++;
    if (link->state == LW__LINK_UP && oldest_due(link) <= lw__now_us()) {
        if (has_arrived(link)) {
            redisAsyncHandleRead(link->context);
        } else {
            (void)snprintf(why, sizeof(why), "no reply from %s within %u ms", link->peer,
                           (unsigned)link->request_timeout_ms);
            lw__link_fail(link, why);
        }
    }
    arm_timer(link);
    lw__link_unref(link);
}

/* Looks at the socket for a while, so that the loop need not sleep if a reply comes soon.
 * If several links have written, the last one looks; none does while other calls wait. */
static void on_written(void *arg)
{
    struct lw__link *link = arg;
    int64_t until_us;
    unsigned times = 1;
    bool arrived;

    if (link->state != LW__LINK_UP || link->wire.waiting || link->wire.error != 0 ||
        link->pending.first == NULL || lw__loop_has_calls(link->loop) ||
        !lw__busy_poll_wants(&link->busy_poll)) {
        return;
    }
    until_us = lw__now_us() + link->busy_poll_us;
    while (!(arrived = has_arrived(link)) && lw__now_us() < until_us) {
        times++;
    }
    lw__busy_poll_note(&link->busy_poll, times, arrived);
}

static bool is_decided(int fd)
{
    struct pollfd wait = {fd, POLLOUT, 0};

    return poll(&wait, 1, 0) == 1;
}

static void fail_connecting(struct lw__link *link)
{
    bool handshaking = (link->context->c.flags & REDIS_CONNECTED) != 0;
    bool silent = handshaking && lw__tls_heard(link->tls) == 0;
    char why[LW_WHY_SIZE];

    (void)snprintf(why, sizeof(why), "no %s %.60s within %u ms%s",
                   handshaking ? "TLS handshake with" : "connection to", link->peer,
                   (unsigned)link->connect_timeout_ms,
                   silent ? ": it sent nothing (no TLS? try redis:// or valkey://)" : "");
    lw__link_fail(link, why);
}

static void on_timer(void *arg)
{
    struct lw__link *link = arg;

    LW__ASSERT(is_open(link));
    link->refs++;
    if (link->state == LW__LINK_CONNECTING) {
        if (is_decided(link->context->c.fd)) {
            lw__wire_check_error(&link->wire);
        }
        if (link->state == LW__LINK_CONNECTING && link->wire.error == 0) {
            fail_connecting(link);
        }
    } else if (oldest_due(link) <= lw__now_us()) {
        lw__defer(link->loop, &link->overdue, false);
    } else {
        if (link->silence != NULL && lw__link_is_silent(link) && !has_arrived(link)) {
            lw__defer(link->loop, link->silence, false);
        }
        arm_timer(link);
    }
    lw__link_unref(link);
}

/* Handles an error that must not be handled within hiredis. What the server sent last may
 * still be unread, and hiredis reads a part of it each time. */
static void on_broken(void *arg)
{
    struct lw__link *link = arg;
    int error = link->wire.error;
    char why[64];

    LW__ASSERT(is_open(link) && error != 0);
    link->refs++;
    if (error == EMSGSIZE) {
        (void)snprintf(why, sizeof(why), "longer than %zu bytes", link->reader.max);
        fail_doing(link, "invalid reply from", why);
    } else if (error == ENOMEM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else if (error == EPROTO) {
        fail_doing(link, "TLS with", lw__tls_why(link->tls));
    } else if (has_arrived(link)) {
        redisAsyncHandleRead(link->context);
        if (is_open(link)) {
            lw__defer(link->loop, &link->broken, false);
        }
    } else {
        fail_doing(link, "writing to", strerror(error));
    }
    lw__link_unref(link);
}

/* ---- reading ---- */

/* enter() and leave() enclose each callback of hiredis for a reply. Timers that are due
 * run first, once for all replies of a read. Returns NULL if there is no reply, because
 * the connection ends, or if a timer closed the link's loop. */
static struct lw__link *enter(const redisAsyncContext *context, const void *reply)
{
    struct lw__link *link = lw__wire_owner(context);

    if (link == NULL || reply == NULL) {
        return NULL; /* the connection ends: on_disconnect follows, or has come */
    }
    link->refs++;
    if (!link->wire.fresh) {
        lw__loop_enter_again(link->loop);
        return link;
    }
    link->wire.fresh = false;
    if (!lw__loop_enter(link->loop)) {
        lw__link_unref(link);
        return NULL;
    }
    return link;
}

static void leave(struct lw__link *link)
{
    struct lw__loop *loop = link->loop;

    lw__link_unref(link);
    lw__loop_leave(loop);
}

/* Calls `up`, unless that was done or the link has failed. */
static void report_up(struct lw__link *link)
{
    if (!link->reported_up && link->state == LW__LINK_UP) {
        link->reported_up = true;
        lw__defer_cancel(link->loop, &link->came_up);
        link->events.up(link->arg);
    }
}

static void pass_on_reply(struct lw__link *link, const struct lw__reply *reply)
{
    struct lw__pending *oldest = link->pending.first;
    struct lw__request *request = oldest->request;

    LW__ASSERT(oldest->remaining > 0 && (request == NULL || request->expected > 0));
    link->answered = true;
    oldest->remaining--;
    link->pending.replies--;
    if (oldest->remaining == 0) {
        (void)pending_pop(&link->pending);
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
    struct lw__link *link = enter(context, reply);

    if (link == NULL) {
        return;
    }
    report_up(link);
    if (link->state == LW__LINK_UP) {
        if (data == link->pending.first) {
            pass_on_reply(link, reply);
        } else {
            lw__link_fail(link, "hiredis delivered a reply out of order");
        }
    }
    leave(link);
}

/* ---- writing ---- */

/* Notes that replies are pending, with their time-out. `request` is NULL if the reply is
 * a confirmation. */
static void note_sent(struct lw__link *link, struct lw__request *request,
                      unsigned replies)
{
    int64_t now_us = lw__loop_now_us(link->loop);

    pending_push(&link->pending, request, replies, now_us);
    if (request != NULL) {
        request->sent_us = now_us;
    }
    arm_timer(link);
}

int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length)
{
    struct lw__pending *record;
    size_t first = request->expected == 2 ? request->second : length;
    int status;

    if (!is_open(link) || link->subscribing || request->expected == 0) {
        return LW_ECONN;
    }
    LW__ASSERT(request->expected <= 2 && first <= length);
    record = pending_reserve(&link->pending);
    status = record != NULL
                 ? lw__reader_send(link->context, on_reply, record, bytes, first)
                 : LW_ENOMEM;
    if (status == 0 && first < length) {
        status = lw__reader_send(link->context, on_reply, record, bytes + first,
                                 length - first);
    }
    if (status != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return status;
    }
    note_sent(link, request, request->expected);
    return 0;
}

void lw__link_forget(struct lw__request *request)
{
    if (request->prev != NULL && request->next == request) {
        *request->prev = NULL;
        request->next = NULL;
        request->prev = NULL;
    }
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
    return link->pending.replies;
}

/* ---- subscriptions ---- */

static bool is_subscribed(const struct lw__link *link, const char *name)
{
    const struct lw__link_channel *channel = link->channels;

    while (channel != NULL && strcmp(channel->name, name) != 0) {
        channel = channel->older;
    }
    return channel != NULL;
}

/* Adds a channel to the list, once. Returns 0, or LW_ENOMEM. */
static int add_channel(struct lw__link *link, const char *name)
{
    size_t size = strlen(name) + 1;
    struct lw__link_channel *channel;

    if (is_subscribed(link, name)) {
        return 0;
    }
    channel = malloc(sizeof(*channel) + size);
    if (channel == NULL) {
        return LW_ENOMEM;
    }
    memcpy(channel->name, name, size);
    channel->older = link->channels;
    link->channels = channel;
    return 0;
}

/* Returns true if the push is about a sharded channel. There may be one for each slot, so
 * the list does not have them; the owner of the link knows their slots. */
static bool is_sharded(const struct lw__reply *reply)
{
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);

    return strncasecmp(kind, "ss", 2) == 0 || strncasecmp(kind, "sm", 2) == 0 ||
           strncasecmp(kind, "sun", 3) == 0;
}

/* Returns 1 + the slot of a sharded channel, which identifies it: a client has one such
 * channel for each slot. */
static unsigned unsubscribed_by(const char *channel)
{
    return 1 + lw__slot_of(channel, strlen(channel));
}

/* Returns true if the push is the pending confirmation, or an error in place of it. A
 * node also sends SUNSUBSCRIBE confirmations unasked, when a slot is no longer its own.
 */
static bool is_pending(const struct lw__link *link, enum lw__push_kind kind,
                       const struct lw__reply *reply)
{
    const struct lw__pending *first = link->pending.first;

    if (first == NULL || kind == LW__PUSH_MESSAGE || kind == LW__PUSH_INVALIDATION) {
        return false;
    }
    return kind != LW__PUSH_UNSUBSCRIBED ||
           first->unsubscribed ==
               unsubscribed_by(lw__reply_text(lw__reply_at(reply, 1), NULL));
}

static void pass_on_push(struct lw__link *link, const struct lw__reply *reply)
{
    enum lw__push_kind kind = lw__reader_push_kind(reply);
    bool pending = is_pending(link, kind, reply);

    switch (kind) {
    case LW__PUSH_INVALID:
        fail_doing(link, "invalid reply from",
                   "neither a message nor a confirmation of a subscription");
        return;
    case LW__PUSH_ERROR:
        if (!pending && !lw__classify_moved(lw__reply_text(reply, NULL))) {
            /* such as "max number of clients reached". MOVED may be the reply to
             * SUNSUBSCRIBE, after an unasked confirmation was taken for it */
            lw__link_fail(link, lw__reply_text(reply, NULL));
            return;
        }
        break;
    case LW__PUSH_INVALIDATION:
        break;
    default:
        if (!is_subscribed(link, lw__reply_text(lw__reply_at(reply, 1), NULL)) &&
            !is_sharded(reply)) {
            return; /* not one of our channels */
        }
    }
    if (pending) {
        (void)pending_pop(&link->pending);
    }
    link->events.push(link->arg, reply);
}

static void on_push(redisAsyncContext *context, void *reply, void *data)
{
    struct lw__link *link = enter(context, reply);

    if (link == NULL) {
        return;
    }
    LW__ASSERT(link->subscribing);
    if (link->state == LW__LINK_UP && lw__reader_listen(context, on_push, data) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    }
    report_up(link);
    if (link->state == LW__LINK_UP) {
        pass_on_push(link, reply);
    }
    leave(link);
}

static int send_channel(struct lw__link *link, const char *verb, const char *channel)
{
    struct lw__buffer out = {0};
    int status = LW_ENOMEM;

    if (pending_reserve(&link->pending) == NULL) {
        return LW_ENOMEM;
    }
    lw__resp_words(&out, 2, (const char *[]){verb, channel});
    if (!out.failed) {
        status = lw__reader_send_unseen(link->context, out.data, out.length);
    }
    lw__buffer_clear(&out);
    if (status == 0 && !link->subscribing) {
        status = lw__reader_listen(link->context, on_push, NULL);
        link->subscribing = true;
    }
    return status;
}

static int send_or_fail(struct lw__link *link, const char *verb, const char *channel)
{
    if (!is_open(link)) {
        return LW_ECONN;
    }
    if (send_channel(link, verb, channel) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    note_sent(link, NULL, 1);
    return 0;
}

int lw__link_subscribe(struct lw__link *link, const char *channel)
{
    if (is_open(link) && add_channel(link, channel) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    return send_or_fail(link, "SUBSCRIBE", channel);
}

int lw__link_ssubscribe(struct lw__link *link, const char *channel)
{
    return send_or_fail(link, "SSUBSCRIBE", channel);
}

int lw__link_sunsubscribe(struct lw__link *link, const char *channel)
{
    int status = send_or_fail(link, "SUNSUBSCRIBE", channel);

    if (status == 0) {
        pending_last(&link->pending)->unsubscribed = unsubscribed_by(channel);
    }
    return status;
}

/* ---- connecting ---- */

/* Returns true if the server has replied to plain text with a TLS alert. hiredis then
 * reports the alert's first byte as an unknown type of reply. */
static bool is_alert(const redisContext *c)
{
    return c->err == REDIS_ERR_PROTOCOL && strstr(c->errstr, "\"\\x15\"") != NULL;
}

static bool is_end(const redisContext *c)
{
    return c->err == REDIS_ERR_EOF || (c->err == REDIS_ERR_IO && errno == ECONNRESET);
}

/* Returns true if the peer may expect TLS: many such servers close a plain connection
 * without an answer. */
static bool may_want_tls(const struct lw__link *link)
{
    return link->tls == NULL && !link->answered && link->pending.first != NULL &&
           link->to_host;
}

/* hiredis ends the connection, and frees the context after this. */
static void fail_by_context(struct lw__link *link, const redisContext *c)
{
    const char *refused = lw__reader_why(&link->reader);
    const char *tls = link->tls != NULL ? lw__tls_why(link->tls) : NULL;
    char why[sizeof(link->peer) + LW_WHY_SIZE];

    if (refused != NULL) {
        fail_doing(link, "invalid reply from", refused);
    } else if (tls != NULL) {
        fail_doing(link, "TLS with", tls);
    } else if (is_alert(c)) {
        fail_doing(link, "reading from",
                   "the server uses TLS (try rediss:// or valkeys://)");
    } else if (is_end(c) && may_want_tls(link)) {
        fail_doing(link, "no reply from",
                   "connection closed at once (by a TLS server? try rediss:// or "
                   "valkeys://; or by a proxy without CLIENT?)");
    } else if (c->err == REDIS_ERR_EOF) {
        link->ended = true;
        (void)snprintf(why, sizeof(why), "%s closed the connection", link->peer);
        lw__link_fail(link, why);
    } else if (c->err == REDIS_ERR_IO) {
        fail_doing(link, "reading from", c->errstr);
    } else if (c->err == REDIS_ERR_OOM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else if (c->err == REDIS_ERR_PROTOCOL) {
        fail_doing(link, "invalid reply from", c->errstr);
    } else { /* the server's own words */
        lw__link_fail(link, c->errstr);
    }
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    if (link == NULL) {
        return;
    }
    LW__ASSERT(link->state == LW__LINK_CONNECTING);
    if (status != REDIS_OK) {
        link->context = NULL;
        fail_doing(link, "connecting to", context->c.errstr);
        return;
    }
    link->connected = true;
    if (link->tls != NULL) {
        lw__link_tls_begin(link);
    } else {
        lw__link_connected(link);
    }
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    (void)status;
    if (link != NULL) {
        link->context = NULL;
        fail_by_context(link, &context->c);
    }
}

void lw__link_connected(struct lw__link *link)
{
    LW__ASSERT(link->state == LW__LINK_CONNECTING);
    link->state = LW__LINK_UP;
    link->connected = true;
    link->up_us = lw__now_us();
    lw__timer_cancel(link->loop, &link->timer);
    arm_timer(link);
    lw__defer(link->loop, &link->came_up, false);
}

static void on_came_up(void *arg)
{
    struct lw__link *link = arg;

    LW__ASSERT(link->state == LW__LINK_UP && !link->reported_up);
    link->refs++;
    report_up(link);
    lw__link_unref(link);
}

/* Returns NULL if there is no memory. */
static struct lw__link *new_link(struct lw__loop *loop,
                                 const struct lw__link_options *options,
                                 const struct lw__link_events *events, void *arg)
{
    struct lw__link *link = malloc(sizeof(*link));

    if (link == NULL) {
        return NULL;
    }
    memset(link, 0, offsetof(struct lw__link, reader));
    link->loop = loop;
    link->events = *events;
    link->arg = arg;
    link->to_host = options->host != NULL;
    link->connect_timeout_ms = options->connect_timeout_ms;
    link->request_timeout_ms = options->request_timeout_ms;
    link->silence = options->silence;
    lw__timer_init(&link->timer, on_timer, link);
    lw__defer_init(&link->came_up, on_came_up, link);
    lw__defer_init(&link->broken, on_broken, link);
    lw__defer_init(&link->overdue, on_overdue, link);
    lw__defer_init(&link->end, on_end, link);
    pending_init(&link->pending);
    lw__reader_init(&link->reader, options->reply_max);
    if (options->reply_elements != 0) {
        link->reader.max_elements = options->reply_elements;
    }
    lw__wire_init(&link->wire, loop, link, &link->broken, options->reply_max + READ_SIZE);
    lw__defer_init(&link->written, on_written, link);
    link->busy_poll_us = options->busy_poll_us;
    link->wire.written = link->busy_poll_us > 0 ? &link->written : NULL;
    return link;
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

/* Starts connecting. Checks what hiredis would not: it would resolve names, truncate long
 * paths, and omit the NUL of a path that just fits. Returns NULL without memory, or with
 * `error` set. */
static redisAsyncContext *connect_context(const struct lw__link_options *options,
                                          int *error)
{
    struct lw__address address;

    if (options->host == NULL) {
        if (strlen(options->path) + 1 < sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
            return redisAsyncConnectUnix(options->path);
        }
    } else if (lw__address_parse(options->host, &address)) {
        lw__address_number_zone(&address);
        return redisAsyncConnect(address.text, options->port);
    }
    *error = EINVAL;
    return NULL;
}

/* A unix socket connects at once or not at all. If its queue is full it has not
 * connected, although hiredis 1.4 takes it for connecting. */
static bool is_refused(const struct lw__link_options *options,
                       const redisAsyncContext *context)
{
    struct sockaddr_un peer;
    socklen_t size = sizeof(peer);

    return options->host == NULL && context != NULL && context->err == 0 &&
           getpeername(context->c.fd, (struct sockaddr *)&peer, &size) < 0;
}

/* Returns true if this process, or the system, can open no more sockets. hiredis keeps
 * only the text of errno. */
static bool is_exhausted(const char *error)
{
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS};

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (strstr(error, strerror(errors[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* Returns 0, or LW_ENOMEM, LW_ECONN or LW_ESYSTEM with the reason in `why`. */
static int connect_link(struct lw__link *link, const struct lw__link_options *options,
                        char *why)
{
    int error = 0;
    redisAsyncContext *context = connect_context(options, &error);
    const char *text = error != 0 ? strerror(error) : NULL;

    if (context != NULL && context->err != 0 && context->err != REDIS_ERR_OOM) {
        text = context->errstr;
    } else if (is_refused(options, context)) {
        text = strerror(EAGAIN);
    }
    if (text != NULL) {
        (void)snprintf(why, LW_WHY_SIZE, "connecting to %s: %s", link->peer, text);
    }
    if (text != NULL || context == NULL || context->err != 0 ||
        lw__wire_attach(&link->wire, context) != 0) {
        if (context != NULL) {
            redisAsyncFree(context);
        }
        if (text == NULL) {
            return LW_ENOMEM;
        }
        return is_exhausted(why) ? LW_ESYSTEM : LW_ECONN;
    }
    link->context = context;
    lw__reader_attach(&link->reader, context);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
    if (options->host == NULL) {
        lw__wire_connected(&link->wire);
        lw__link_connected(link);
    } else {
        (void)redisAsyncSetConnectCallback(context, on_connect);
        lw__timer_set(link->loop, &link->timer,
                      lw__now_us() + (int64_t)link->connect_timeout_ms * 1000);
    }
    return 0;
}

int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret)
{
    struct lw__link *link = new_link(loop, options, events, arg);
    int status;

    (void)snprintf(why, LW_WHY_SIZE, "%s", lw_strerror(LW_ENOMEM));
    if (link == NULL) {
        return LW_ENOMEM;
    }
    if (options->tls != NULL) {
        status = lw__tls_new(options->tls, why, LW_WHY_SIZE, &link->tls);
        if (status != 0) {
            destroy(link);
            if (status == LW_EINVAL) { /* a file is unusable, or cannot be opened */
                status = is_exhausted(why) ? LW_ESYSTEM : LW_ECONN;
            }
            return status;
        }
    }
    if (lw__timer_reserve(loop, 1) < 0) {
        destroy(link);
        return LW_ENOMEM;
    }
    name_peer(link, options);
    status = connect_link(link, options, why);
    if (status != 0) {
        lw__timer_unreserve(loop, 1);
        destroy(link);
        return status;
    }
    *ret = link;
    return 0;
}
