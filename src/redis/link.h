/* SPDX-License-Identifier: MIT */
/* One connection to a Redis server: sends the bytes of commands and passes on replies,
 * each as a neutral view that is valid during the call. Independent of locks, scripts and
 * reconnecting.
 *
 * lw__link_open connects, and `up` is called. lw__link_send sends a command, or a
 * pipelined pair, with a request record, whose `reply` is called for each reply in order.
 * lw__link_close ends the connection. */
#ifndef LW_LINK_H
#define LW_LINK_H
#include "lockwire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__link;
struct lw__deferred;
struct lw__loop;
struct lw__reply;
struct lw__tls_options;

struct lw__request;
struct lw__request_type {
    void (*reply)(struct lw__request *request, const struct lw__reply *reply);
    /* The connection ended before all replies had come: the outcome is unknown. The link
     * no longer knows the request. Called from the event loop. NULL if not needed. */
    void (*failed)(struct lw__request *request, const char *why);
};

/* One or two commands that are sent together. Embedded in its owner, which keeps it alive
 * until all replies have come or `failed` is called, or calls lw__link_forget. `prev` is
 * not NULL while the link knows the request. While it does not, the sender may use `next`
 * and `prev` for its own list. */
struct lw__request {
    struct lw__request *next, **prev;
    int64_t sent_us; /* when lw__link_send was called */
    const struct lw__request_type *type;
    uint32_t second;  /* if there are two: where in the bytes the second one begins */
    uint8_t expected; /* replies outstanding, 1 or 2; 0 when the last one is passed on */
    /* For the sender; the link does not use them. */
    bool eval : 1, first_reply_seen : 1, redirected : 1, asking : 1, seeds_fence : 1;
    bool one_key : 1; /* lw__node_send */
    uint8_t hops, priority;
};

struct lw__link_options {
    const char *host; /* a numeric address; NULL: `path` is used */
    uint16_t port;
    const char *path; /* of a unix socket, which connects at once or not at all */
    uint32_t connect_timeout_ms, request_timeout_ms;
    /* The bytes and elements that one reply may have; a longer one ends the link. */
    size_t reply_max;
    size_t reply_elements;             /* 0: LW__REPLY_ELEMENTS */
    const struct lw__tls_options *tls; /* for a host only; NULL: no TLS */
    /* Deferred when the link is found silent, and again while it stays so. NULL: none. */
    struct lw__deferred *silence;
    uint32_t busy_poll_us; /* of lw_client_options */
};

struct lw__link_events {
    void (*up)(void *arg);
    /* The connection has ended, maybe before `up`; `failed` has been called for all
     * requests in flight. The link frees itself after this call. */
    void (*down)(void *arg, const char *why);
    /* On a subscribed link: an error, or the three elements of a confirmation
     * ("subscribe", channel, count) or of a message ("message", channel, text) of one of
     * its channels. For sharded channels the word begins with an s, and any channel is
     * passed on, subscribed to or not. The word may be in upper or lower case. */
    void (*push)(void *arg, const struct lw__reply *reply);
    /* A reply to a forgotten request has come: one less is in flight. */
    void (*unclaimed)(void *arg);
};

/* Starts connecting. Events come from the event loop, never from within a call. Returns
 * 0, LW_ENOMEM, LW_ECONN if connecting failed at once, or LW_ESYSTEM if this process or
 * the system can open no more sockets; `why` (size LW_WHY_SIZE) has the reason. */
int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret);
/* Closes the link at once without an event, and forgets requests in flight. May be called
 * anywhere, also within the link's own events. NULL is fine. */
void lw__link_close(struct lw__link *link);
/* Wipes the next `room` bytes from the output buffer once they have been sent. */
void lw__link_wipe_sent(struct lw__link *link, size_t room);
/* Ends the link as if the peer had: `failed`, then `down`, are called from the event
 * loop. */
void lw__link_fail(struct lw__link *link, const char *why);

/* Sends `length` bytes with request->expected complete commands, also before `up`. One
 * more byte must be readable behind a command of one word, since hiredis reads it. The
 * bytes are copied; one write at the end of the loop's turn sends all. Returns 0; or
 * LW_ENOMEM or LW_ECONN, if the link is going down or is subscribed: then it does not
 * know the request. */
int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length);
/* Forgets a request, whose replies are ignored. No effect if it is not in flight. */
void lw__link_forget(struct lw__request *request);
/* Subscribes to one channel. From then on the link takes no commands, only further
 * subscriptions, also to the same channel again (as a heartbeat). Confirmations, messages
 * and errors are passed to `push`. The link goes down if a confirmation does not come
 * within request_timeout_ms. Returns 0, LW_ENOMEM or LW_ECONN. */
int lw__link_subscribe(struct lw__link *link, const char *channel);
/* Subscribes to a sharded channel, and unsubscribes from it. A node may also confirm the
 * latter unasked. */
int lw__link_ssubscribe(struct lw__link *link, const char *channel);
int lw__link_sunsubscribe(struct lw__link *link, const char *channel);
/* Returns true once the peer has accepted the connection: a failure from then on is the
 * TLS handshake's, or comes after it. */
bool lw__link_has_connected(const struct lw__link *link);
/* Returns true if the peer has closed the connection; not if it did so at once, without a
 * reply, as servers do that expect TLS. */
bool lw__link_has_ended(const struct lw__link *link);
/* Returns true if the link failed because one side does not accept the other's TLS
 * certificate, version or cipher suites: another attempt fails as well. */
bool lw__link_is_rejected(const struct lw__link *link);
/* Returns true if the oldest request has been unanswered for a sixteenth of
 * request_timeout_ms, and for 300 ms at least. */
bool lw__link_is_silent(const struct lw__link *link);
/* Returns the number of outstanding replies. */
size_t lw__link_inflight(const struct lw__link *link);
#endif
