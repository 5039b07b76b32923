/* SPDX-License-Identifier: MIT */
/*
 * The life of POST /gift/<user>: the lock, the work, the answer. Independent of sockets
 * and of the other gateways: the gifts that they gave are in the ledger, which is read
 * under the lock.
 *
 * Usual course: gift_start requests the lock, on_acquired starts the work's timer, and
 * on_worked adds one line to the ledger and answers 200. A copy of the request that comes
 * in between gets LW_EBUSY, which is answered with 409 and Retry-After. With ?wait the
 * copy queues, and on_acquired finds the gift in the ledger and answers 200, already.
 *
 * Every request ends in end(). If the client is still connected, it has been answered
 * before. lw_lock_free then leaves the queue or releases the lock. If the lock is lost
 * during the work, the request ends without a line (503). When a client disconnects, its
 * request ends too; the copy that the client sends next does the work.
 */
#include "gateway.h"

#include "lockwire.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define USER_MAX 64
#define WAIT_MAX 600000 /* ms */

struct gift {
    struct gift *next, **prev; /* linked into gateway->gifts */
    struct gateway *gateway;
    struct evhttp_request *http;
    struct lw_lock *lock;
    struct event *work, *gone; /* the end of the work; the client's disconnection */
    int64_t asked_ms, waited_ms;
    char user[USER_MAX + 1];
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Ends the request, answered or not. */
static void end(struct gift *gift, enum outcome outcome)
{
    struct gateway *gateway = gift->gateway;

    gateway->outcomes[outcome]++;
    lw_lock_free(gift->lock);
    if (gift->work != NULL) {
        event_free(gift->work);
    }
    if (gift->gone != NULL) {
        event_free(gift->gone);
    }
    *gift->prev = gift->next;
    if (gift->next != NULL) {
        gift->next->prev = gift->prev;
    }
    free(gift);
    if (gateway->stopping && gateway->gifts == NULL) {
        gateway_drained(gateway);
    }
}

static void add_header(struct gift *gift, const char *name, int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    evhttp_add_header(evhttp_request_get_output_headers(gift->http), name, text);
}

static void unwatch_client(struct gift *gift)
{
    evhttp_connection_set_closecb(evhttp_request_get_connection(gift->http), NULL, NULL);
}

/* Answers 200: the gift was given by this request or by an earlier one. */
static void answer_gift(struct gift *gift, enum outcome outcome, uint64_t fence)
{
    unwatch_client(gift);
    evhttp_add_header(evhttp_request_get_output_headers(gift->http), "X-Gift",
                      outcome == GIVEN ? "given" : "already");
    add_header(gift, "X-Waited-Ms", gift->waited_ms);
    reply_json(gift->http, HTTP_OK,
               "{\"user\": \"%s\", \"already\": %s, \"fence\": %" PRIu64 "}", gift->user,
               outcome == GIVEN ? "false" : "true", fence);
    end(gift, outcome);
}

/* Answers 409 if another request is at work on the gift, else 503: its state is
 * unknown. */
static void answer_later(struct gift *gift, enum outcome outcome, const char *why)
{
    int64_t retry_ms = outcome == BUSY ? lw_lock_retry_ms(gift->lock) : 0;
    char text[200];

    unwatch_client(gift);
    add_header(gift, "Retry-After", retry_ms > 1000 ? (retry_ms + 999) / 1000 : 1);
    reply_json(gift->http, outcome == BUSY ? 409 : HTTP_SERVUNAVAIL,
               "{\"user\": \"%s\", \"error\": \"%s\"}", gift->user,
               json_safe(text, sizeof(text), why));
    end(gift, outcome);
}

/* Reports errno's text to the operator and returns it. */
static const char *told(const char *file)
{
    const char *why = strerror(errno);

    report("the %s: %s", file, why);
    return why;
}

static void on_worked(evutil_socket_t fd, short what, void *arg)
{
    struct gift *gift = arg;
    struct ledger *ledger = &gift->gateway->ledger;
    bool unlocked = gift->gateway->unlocked;
    uint64_t fence = unlocked ? 0 : lw_lock_fence(gift->lock);
    const char *why = NULL;

    (void)fd, (void)what;
    /* The ledger is a plain file and cannot reject a stale fencing token. So the
     * lock is checked as late as possible, after this gateway has got the turn to
     * write. A resource that compares tokens does not need this check. */
    if (ledger_lock(ledger) < 0) {
        why = told("ledger");
    } else {
        if (!unlocked && lw_lock_remaining_ms(gift->lock) == 0) {
            why = lw_strerror(LW_ELOST);
        } else if (ledger_append(ledger, gift->user, fence) < 0) {
            why = told("ledger");
        }
        ledger_unlock(ledger);
    }
    if (why != NULL) {
        answer_later(gift, UNAVAILABLE, why);
    } else {
        answer_gift(gift, GIVEN, fence);
    }
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    answer_later(arg, UNAVAILABLE, lw_strerror(reason));
}

static int note_grant(struct ledger *grants, struct gift *gift)
{
    int result = ledger_lock(grants);

    if (result < 0) {
        return -1;
    }
    result = ledger_append(grants, gift->user, lw_lock_fence(gift->lock));
    ledger_unlock(grants);
    return result;
}

static void on_held(struct gift *gift)
{
    struct gateway *gateway = gift->gateway;
    struct timeval work = {(time_t)(gateway->work_ms / 1000),
                           (gateway->work_ms % 1000) * 1000};
    uint64_t fence;
    int found;

    if (!gateway->unlocked && note_grant(&gateway->grants, gift) < 0) {
        answer_later(gift, UNAVAILABLE, told("grants"));
        return;
    }
    found = ledger_find(&gateway->ledger, gift->user, &fence);
    if (found > 0) {
        answer_gift(gift, ALREADY, fence);
    } else if (found < 0) {
        answer_later(gift, UNAVAILABLE, told("ledger"));
    } else if (event_add(gift->work, &work) < 0) {
        answer_later(gift, UNAVAILABLE, lw_strerror(LW_ENOMEM));
    }
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    struct gift *gift = arg;

    gift->waited_ms = now_ms() - gift->asked_ms;
    if (status == LW_OK) {
        on_held(gift);
    } else if (status == LW_EBUSY ||
               (status == LW_ETIMEOUT && lw_lock_error(lock) == LW_OK)) {
        answer_later(gift, BUSY, lw_strerror(status));
    } else {
        answer_later(gift, UNAVAILABLE,
                     *lw_lock_errstr(lock) ? lw_lock_errstr(lock) : lw_strerror(status));
    }
}

/* Called by evhttp when the connection and its request are being freed. */
static void on_closed(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    end(arg, GONE);
}

/* Ends the request when its client disconnects. evhttp does not read while a
 * request is being answered, and would notice the disconnection only when it sends the
 * answer. */
static void on_gone(evutil_socket_t fd, short what, void *arg)
{
    struct gift *gift = arg;

    (void)fd, (void)what;
    evhttp_connection_free(evhttp_request_get_connection(gift->http));
}

static void watch_client(struct gift *gift)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(gift->http);
    evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(connection));

    evhttp_connection_set_closecb(connection, on_closed, gift);
    gift->gone = event_new(gift->gateway->base, fd, EV_CLOSED, on_gone, gift);
    if (gift->gone != NULL) {
        event_add(gift->gone, NULL); /* if that fails, evhttp notices with the answer */
    }
}

static bool valid_user(const char *user)
{
    size_t length = strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789._-");

    return length > 0 && length <= USER_MAX && user[length] == '\0';
}

/* Parses ?wait=MS; without it `wait_ms` is 0. Returns false if MS is not a number
 * of milliseconds from 0 to WAIT_MAX. */
static bool parse_wait(const char *query, int64_t *wait_ms)
{
    struct evkeyvalq pairs;
    const char *text;
    char *rest;

    *wait_ms = 0;
    if (query == NULL) {
        return true;
    }
    if (evhttp_parse_query_str(query, &pairs) < 0) {
        return false;
    }
    text = evhttp_find_header(&pairs, "wait");
    if (text != NULL) {
        errno = 0;
        *wait_ms = strtoll(text, &rest, 10);
        if (errno || rest == text || *rest) {
            *wait_ms = -1;
        }
    }
    evhttp_clear_headers(&pairs);
    return *wait_ms >= 0 && *wait_ms <= WAIT_MAX;
}

static struct gift *gift_new(struct gateway *gateway, struct evhttp_request *http,
                             const char *user)
{
    struct gift *gift = calloc(1, sizeof(*gift));

    if (gift == NULL) {
        return NULL;
    }
    gift->gateway = gateway;
    gift->http = http;
    gift->asked_ms = now_ms();
    (void)snprintf(gift->user, sizeof(gift->user), "%s", user);
    gift->next = gateway->gifts;
    gift->prev = &gateway->gifts;
    if (gift->next != NULL) {
        gift->next->prev = &gift->next;
    }
    gateway->gifts = gift;
    gift->work = event_new(gateway->base, -1, 0, on_worked, gift);
    return gift;
}

static void reject(struct gateway *gateway, struct evhttp_request *http, const char *what)
{
    gateway->outcomes[REJECTED]++;
    reply_json(http, HTTP_BADREQUEST, "{\"error\": \"%s\"}", what);
}

/* Returns 0 if the gift is on its way or already answered, else a negative error. */
static int lock_for(struct gift *gift, struct lw_acquire_options *options)
{
    char name[USER_MAX + 8];

    if (gift->work == NULL) {
        return LW_ENOMEM;
    }
    if (gift->gateway->unlocked) {
        on_held(gift);
        return 0;
    }
    (void)snprintf(name, sizeof(name), "gift:%s", gift->user);
    options->lease_ms = gift->gateway->lease_ms;
    options->lost = on_lost;
    return lw_acquire(gift->gateway->client, name, options, on_acquired, gift,
                      &gift->lock);
}

void gift_start(struct gateway *gateway, struct evhttp_request *http, const char *user,
                const char *query)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct gift *gift;
    int error;

    if (!valid_user(user)) {
        reject(gateway, http, "user: 1 to 64 letters, digits, '.', '_' or '-' expected");
        return;
    }
    if (!parse_wait(query, &options.wait_ms)) {
        reject(gateway, http, "wait: milliseconds expected, at most 600000");
        return;
    }
    gift = gift_new(gateway, http, user);
    if (gift == NULL) {
        evhttp_send_error(http, HTTP_SERVUNAVAIL, NULL);
        return;
    }
    watch_client(gift);
    error = lock_for(gift, &options);
    if (error < 0) {
        answer_later(gift, UNAVAILABLE, lw_strerror(error));
    }
}

void gift_stop_waiting(struct gateway *gateway)
{
    struct gift *gift, *next;

    for (gift = gateway->gifts; gift != NULL; gift = next) {
        next = gift->next;
        if (gift->lock != NULL && lw_lock_state(gift->lock) == LW_WAITING) {
            answer_later(gift, UNAVAILABLE, "shutting down");
        }
    }
}
