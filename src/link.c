/* SPDX-License-Identifier: MIT */
/*
 * One connection: its socket, what is still to be written, who waits for which reply, and
 * the time-out of the oldest that waits. Must not know what the commands mean.
 *
 * Happy path: dial; `up` when the socket is writable; commands gather in `out` and leave
 * in one write at the end of the loop's turn; what is read goes through the parser, each
 * reply to the oldest slot, or to `push` once the link is subscribed. Each failure
 * (refused, time-out, end of file, a reply that is illegal or that nobody asked for, no
 * memory) ends in lw__link_fail, which closes the socket at once and tells those who
 * waited from a deferred call. Any function called may close the link: `entered` keeps
 * its memory until we have returned.
 */
#include "link.h"

#include "dial.h"
#include "inflight.h"
#include "lockwire.h"
#include "outgoing.h"
#include "reply.h"
#include "told.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 16384

enum link_state { CONNECTING, UP, FAILED, CLOSED };

struct lw__link {
    struct lw__loop *loop;
    struct lw__link_events events;
    void *arg;
    uint32_t connect_timeout_ms, request_timeout_ms;
    enum link_state state;
    unsigned entered;

    int fd;
    struct lw__watch *watch;
    struct lw__reader *reader;
    struct lw__timer timer; /* connecting; then the oldest request, or earlier */
    struct lw__deferred flush, end, overdue;
    int64_t up_us;

    struct lw__outgoing out;
    struct lw__inflight inflight;
    char **channels; /* once subscribed; each once */
    size_t channel_count, channel_room;

    char peer[112], why[LW__WHY];
};

/* Ending */

/* Everything but memory. */
static void shut(struct lw__link *link, bool abandon)
{
    if (link->fd < 0) {
        return;
    }
    if (abandon) {
        lw__watch_abandon(link->watch);
    } else {
        lw__watch_free(link->watch);
    }
    (void)close(link->fd);
    link->fd = -1;
    lw__timer_cancel(link->loop, &link->timer);
    lw__loop_unreserve(link->loop, 1);
    lw__defer_cancel(link->loop, &link->flush);
    lw__defer_cancel(link->loop, &link->overdue);
}

static void destroy(struct lw__link *link)
{
    lw__inflight_clear(&link->inflight);
    lw__reader_free(link->reader);
    lw__outgoing_clear(&link->out);
    for (size_t i = 0; i < link->channel_count; i++) {
        free(link->channels[i]);
    }
    free(link->channels);
    free(link);
}

/* Around everything that comes from the loop. */
static void leave(struct lw__link *link)
{
    link->entered--;
    if (link->entered == 0 && link->state == CLOSED) {
        destroy(link);
    }
}

static void finish(struct lw__link *link, bool abandon)
{
    if (link->state == CLOSED) {
        return;
    }
    link->state = CLOSED;
    shut(link, abandon);
    lw__defer_cancel(link->loop, &link->end);
    lw__inflight_clear(&link->inflight);
    link->entered++;
    leave(link);
}

void lw__link_close(struct lw__link *link)
{
    if (link != NULL) {
        finish(link, false);
    }
}

void lw__link_abandon(struct lw__link *link)
{
    finish(link, true);
}

void lw__link_fail(struct lw__link *link, const char *why)
{
    if (link->state == FAILED || link->state == CLOSED) {
        return;
    }
    link->state = FAILED;
    lw__told(why, link->why, sizeof(link->why));
    shut(link, false);
    lw__defer(link->loop, &link->end, false);
}

static void fail_errno(struct lw__link *link, const char *what, int error)
{
    char why[LW__WHY];

    (void)snprintf(why, sizeof(why), "%s %s: %s", what, link->peer, strerror(error));
    lw__link_fail(link, why);
}

static void on_end(void *arg)
{
    struct lw__link *link = arg;

    link->entered++;
    while (link->state == FAILED && link->inflight.count > 0) {
        struct lw__request *request = lw__inflight_pop(&link->inflight);
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

/* Time-outs */

static int64_t oldest_due(struct lw__link *link)
{
    const struct lw__slot *oldest = lw__inflight_oldest(&link->inflight);
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
    if (link->state == UP && link->inflight.count > 0 && !lw__timer_is_set(&link->timer)) {
        lw__timer_set(link->loop, &link->timer, oldest_due(link));
    }
}

/* Writing */

static void write_out(struct lw__link *link)
{
    int error = lw__outgoing_write(&link->out, link->fd);

    if (error != 0) {
        fail_errno(link, "writing to", error);
    } else if (lw__watch_write(link->watch, link->out.end > 0) < 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    }
}

static void on_flush(void *arg)
{
    struct lw__link *link = arg;

    if (link->state == UP) {
        write_out(link);
    }
}

/* `request` NULL: a SUBSCRIBE. */
static int send_bytes(struct lw__link *link, struct lw__request *request,
                      unsigned replies, const char *bytes, size_t length)
{
    int64_t now_us = lw__now_us();

    if (lw__inflight_reserve(&link->inflight) < 0 ||
        lw__outgoing_reserve(&link->out, length) < 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    lw__outgoing_add(&link->out, bytes, length);
    lw__inflight_push(&link->inflight, request, replies, now_us);
    if (request != NULL) {
        request->sent_us = now_us;
    }
    if (link->state == UP) {
        lw__defer(link->loop, &link->flush, true);
        arm(link);
    }
    return 0;
}

int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length)
{
    if (link->state == FAILED || link->state == CLOSED || link->channel_count > 0 ||
        request->expected == 0) {
        return LW_ECONN;
    }
    return send_bytes(link, request, request->expected, bytes, length);
}

static bool has_channel(const struct lw__link *link, const char *channel)
{
    for (size_t i = link->channel_count; i > 0; i--) {
        if (strcmp(link->channels[i - 1], channel) == 0) {
            return true;
        }
    }
    return false;
}

/* From now on what comes on it is pushed. 0, LW_ENOMEM. */
static int add_channel(struct lw__link *link, const char *channel)
{
    if (has_channel(link, channel)) {
        return 0;
    }
    if (link->channel_count == link->channel_room) {
        size_t room = link->channel_room == 0 ? 1 : 2 * link->channel_room;
        char **channels = realloc(link->channels, room * sizeof(*channels));

        if (channels == NULL) {
            return LW_ENOMEM;
        }
        link->channels = channels;
        link->channel_room = room;
    }
    link->channels[link->channel_count] = strdup(channel);
    if (link->channels[link->channel_count] == NULL) {
        return LW_ENOMEM;
    }
    link->channel_count++;
    return 0;
}

int lw__link_subscribe(struct lw__link *link, const char *channel)
{
    char head[64];
    size_t length = strlen(channel), head_length;
    char *command;
    int status;

    if (link->state == FAILED || link->state == CLOSED) {
        return LW_ECONN;
    }
    head_length =
        (size_t)snprintf(head, sizeof(head), "*2\r\n$9\r\nSUBSCRIBE\r\n$%zu\r\n", length);
    command = malloc(head_length + length + 2);
    if (command == NULL || add_channel(link, channel) != 0) {
        free(command);
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    memcpy(command, head, head_length);
    memcpy(command + head_length, channel, length);
    memcpy(command + head_length + length, "\r\n", 2);
    status = send_bytes(link, NULL, 1, command, head_length + length + 2);
    free(command);
    return status;
}

void lw__link_forget(struct lw__link *link, struct lw__request *request)
{
    lw__inflight_forget(&link->inflight, request);
}

size_t lw__link_inflight(const struct lw__link *link)
{
    return link->inflight.replies;
}

/* Reading */

static bool is_text(const struct lw__reply *reply, const char *text)
{
    size_t length;
    const char *got = lw__reply_text(reply, &length);

    return lw__reply_type(reply) == LW__REPLY_STRING && length == strlen(text) &&
           strcasecmp(got, text) == 0;
}

/* A reply that belongs to no request: from the subscription, or it should not be. */
static void take_push(struct lw__link *link, const struct lw__reply *reply)
{
    bool awaited = link->inflight.count > 0; /* then it is a confirmation that is */

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        if (!awaited) { /* "max number of clients reached", and the like */
            lw__link_fail(link, lw__reply_text(reply, NULL));
            return;
        }
        (void)lw__inflight_pop(&link->inflight);
    } else if (link->channel_count == 0) {
        lw__link_fail(link, "a reply that nobody asked for");
        return;
    } else {
        bool confirms = lw__reply_count(reply) == 3 &&
                        is_text(lw__reply_at(reply, 0), "subscribe");
        bool message = lw__reply_count(reply) == 3 &&
                       is_text(lw__reply_at(reply, 0), "message");
        if (!confirms && !message) {
            lw__link_fail(link, "no message and no confirmation from the subscription");
            return;
        }
        if (!has_channel(link, lw__reply_text(lw__reply_at(reply, 1), NULL))) {
            return; /* of a channel that is not ours */
        }
        if (confirms && awaited) {
            (void)lw__inflight_pop(&link->inflight);
        }
    }
    link->events.push(link->arg, reply);
}

static void take(struct lw__link *link, const struct lw__reply *reply)
{
    struct lw__slot *oldest = lw__inflight_oldest(&link->inflight);
    struct lw__request *request;

    if (oldest == NULL || oldest->confirmation) {
        take_push(link, reply);
        return;
    }
    request = oldest->request;
    oldest->remaining--;
    link->inflight.replies--;
    if (oldest->remaining == 0) {
        (void)lw__inflight_pop(&link->inflight);
    }
    if (request != NULL) {
        request->expected--;
        request->reply(request, reply);
    } else {
        link->events.unclaimed(link->arg);
    }
}

/* One read, and all that it completes. The number of bytes read. */
static size_t read_in(struct lw__link *link)
{
    char bytes[READ_SIZE], why[LW__WHY];
    ssize_t length = recv(link->fd, bytes, sizeof(bytes), 0);
    struct lw__reply *reply;
    int status;

    if (length == 0) {
        lw__link_fail(link, "the server closed the connection");
        return 0;
    }
    if (length < 0) {
        if (errno != EAGAIN) {
            fail_errno(link, "reading from", errno);
        }
        return 0;
    }
    if (lw__reader_feed(link->reader, bytes, (size_t)length) < 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return 0;
    }
    while (link->state == UP &&
           (status = lw__reader_next(link->reader, &reply, why)) != 0) {
        if (status < 0) {
            lw__link_fail(link, why);
            break;
        }
        take(link, reply);
        lw__reply_free(reply);
    }
    return (size_t)length;
}

static void came_up(struct lw__link *link)
{
    int error = lw__dial_result(link->fd);

    if (error != 0) {
        fail_errno(link, "connecting to", error);
        return;
    }
    link->state = UP;
    link->up_us = lw__now_us();
    lw__timer_cancel(link->loop, &link->timer);
    (void)lw__watch_write(link->watch, false);
    if (link->out.end > 0) {
        lw__defer(link->loop, &link->flush, true);
    }
    arm(link);
    link->events.up(link->arg);
}

static void on_socket(void *arg, bool readable, bool writable)
{
    struct lw__link *link = arg;

    link->entered++;
    if (link->state == CONNECTING) {
        came_up(link);
    } else if (readable) {
        (void)read_in(link);
    } else if (writable) {
        write_out(link);
    }
    leave(link);
}

/* A loop that stalled is no reason to give up what has arrived meanwhile: first look. But not
 * while timers run, since a reply may only be believed when all that were due have been. */
static void on_overdue(void *arg)
{
    struct lw__link *link = arg;
    char why[LW__WHY];

    link->entered++;
    if (link->state == UP && oldest_due(link) <= lw__now_us() && read_in(link) == 0) {
        (void)snprintf(why, sizeof(why), "no answer from %s within %u ms", link->peer,
                       (unsigned)link->request_timeout_ms);
        lw__link_fail(link, why);
    }
    arm(link);
    leave(link);
}

static void on_timer(void *arg)
{
    struct lw__link *link = arg;
    char why[LW__WHY];

    link->entered++;
    if (link->state == CONNECTING) {
        if (lw__dial_decided(link->fd)) {
            came_up(link);
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

/* Opening */

int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret)
{
    struct lw__link *link = calloc(1, sizeof(*link));
    int status = LW_ENOMEM;

    (void)snprintf(why, LW__WHY, "%s", lw_strerror(LW_ENOMEM));
    if (link == NULL) {
        return LW_ENOMEM;
    }
    link->loop = loop;
    link->events = *events;
    link->arg = arg;
    link->connect_timeout_ms = options->connect_timeout_ms;
    link->request_timeout_ms = options->request_timeout_ms;
    lw__timer_init(&link->timer, on_timer, link);
    lw__deferred_init(&link->flush, on_flush, link);
    lw__deferred_init(&link->end, on_end, link);
    lw__deferred_init(&link->overdue, on_overdue, link);
    lw__dial_name(options, link->peer, sizeof(link->peer));
    link->reader = lw__reader_new(options->reply_max);
    link->fd = -1;
    if (link->reader == NULL || lw__loop_reserve(loop, 1) < 0) {
        destroy(link);
        return LW_ENOMEM;
    }
    link->fd = lw__dial(options);
    if (link->fd < 0) {
        (void)snprintf(why, LW__WHY, "connecting to %s: %s", link->peer,
                       strerror(-link->fd));
        status = LW_ECONN;
        goto fail;
    }
    if (lw__watch_new(loop, link->fd, on_socket, link, &link->watch) < 0 ||
        lw__watch_write(link->watch, true) < 0) {
        goto fail;
    }
    lw__timer_set(loop, &link->timer,
                  lw__now_us() + (int64_t)link->connect_timeout_ms * 1000);
    *ret = link;
    return 0;

fail:
    lw__watch_free(link->watch);
    if (link->fd >= 0) {
        (void)close(link->fd);
    }
    lw__loop_unreserve(loop, 1);
    destroy(link);
    return status;
}
