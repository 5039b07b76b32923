/* SPDX-License-Identifier: MIT */
/*
 * The example daemon's shared state: an HTTP gateway that must not give a user's gift
 * twice, however often the request comes and whichever gateway gets it.
 *
 * main.c owns the process (start, routes, shutdown), options.c its command line, gift.c a
 * request's life, ledger.c the file, metrics.c the statistics' text.
 */
#ifndef GATEWAY_H
#define GATEWAY_H
#include "ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_base;
struct evhttp;
struct evhttp_bound_socket;
struct evhttp_request;
struct gift;
struct lw_client;

enum outcome { GIVEN, ALREADY, BUSY, UNAVAILABLE, GONE, REJECTED, OUTCOMES };

struct gateway {
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *listener;
    struct lw_client *client;
    struct ledger ledger, grants; /* grants: every grant, in order; off by default */
    int64_t work_ms;
    uint32_t lease_ms;
    struct gift *gifts; /* requests being worked on */
    bool unlocked;      /* no lock at all, for measuring */
    bool link_up, stopping;
    char why_down[512], error[200];
    uint64_t outcomes[OUTCOMES]; /* how the requests ended */
};

/* Takes over the request: POST /gift/<user>[?wait=ms]. */
void gift_start(struct gateway *gateway, struct evhttp_request *http, const char *user,
                const char *query);
/* Answers the waiting requests with 503; those at work may finish. */
void gift_stop_waiting(struct gateway *gateway);
/* Called when `stopping` is set and the last request has ended; defined in main.c. */
void gateway_drained(struct gateway *gateway);

void metrics_reply(struct gateway *gateway, struct evhttp_request *http);
/* Writes a line for the operator. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Answers with a JSON text; headers may have been added before. */
void reply_json(struct evhttp_request *http, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies `text` up to `size` into `copy` and returns the copy, in which characters
 * that JSON would have to escape are replaced. */
const char *json_safe(char *copy, size_t size, const char *text);

#endif
