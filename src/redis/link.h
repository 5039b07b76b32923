/* SPDX-License-Identifier: MIT */
/* One connection to one Redis: bytes of commands out, replies in. Knows nothing of locks,
 * scripts or reconnecting. What it hands up is a neutral view of a reply, valid during
 * the call. Happy path: lw__link_open, `up`, lw__link_send with a request record for each
 * command (or pipelined pair), its `reply` for each answer in order, lw__link_close. */
#ifndef LW_LINK_H
#define LW_LINK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__link;
struct lw__loop;
struct lw__reply;
struct lw__tls_options;

struct lw__request;
struct lw__request_type {
    void (*reply)(struct lw__request *request, const struct lw__reply *reply);
    /* The connection ended (or could not take it) before all replies had come: the
     * outcome is unknown. The request is no longer known to the link. Called from the
     * loop. NULL: nobody wants to know. */
    void (*failed)(struct lw__request *request, const char *why);
};

/* What is sent once and answered once or more; embedded in its owner, who keeps it alive
 * until `expected` replies came or `failed` was called, or has it forgotten. `prev` is
 * not NULL while the link knows it; out of flight both belong to its sender's backlog. */
struct lw__request {
    struct lw__request *next, **prev;
    int64_t sent_us; /* when it was handed to the link */
    const struct lw__request_type *type;
    uint32_t second;  /* of two: where in the bytes the second command begins */
    uint8_t expected; /* replies still to come, one or two; the last one finds 0 */
    /* its sender's, of no meaning to the link */
    bool eval : 1, first_reply_seen : 1, redirected : 1, asking : 1, seeds_fence : 1;
    uint8_t hops;
};

struct lw__link_options {
    const char *host; /* numeric address; NULL: path */
    uint16_t port;
    const char *path; /* unix socket: connected to at once, or not at all */
    uint32_t connect_timeout_ms, request_timeout_ms;
    size_t reply_max;      /* bytes that one reply may take before the link is cut, */
    size_t reply_elements; /* and elements; 0: LW__REPLY_ELEMENTS */
    const struct lw__tls_options *tls; /* NULL: none; only to a host */
};

struct lw__link_events {
    void (*up)(void *arg);
    /* Ended by itself, also before `up`, after `failed` of all that was in flight. The
     * link frees itself after this call: the pointer is dead. */
    void (*down)(void *arg, const char *why);
    /* On a subscribed link, what concerns its channels: an error, or the three elements
     * of a confirmation ("subscribe", channel, count) or of a message ("message",
     * channel, text), with an s before them where a slot's, of which those are pushed,
     * too, that were never subscribed to. The words are in any case. */
    void (*push)(void *arg, const struct lw__reply *reply);
    /* A reply has come to a request that was forgotten: one less in flight. */
    void (*unclaimed)(void *arg);
};

/* Starts connecting. Events come from the loop, never from within a call. Returns 0,
 * LW_ENOMEM, LW_ECONN if the connect call failed at once, or LW_ESYSTEM if it failed
 * since this process or the system can open no more sockets; `why` (size LW__WHY_MAX)
 * tells.
 */
int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret);
/* Closes at once and in silence; requests in flight are detached without a call. Legal
 * anywhere, from within the link's own events too. NULL is fine. */
void lw__link_close(struct lw__link *link);
/* The next `room` bytes sent are wiped from the output buffer when they have gone out. */
void lw__link_wipe_sent(struct lw__link *link, size_t room);
/* As if the peer had ended it: `failed`, then `down(why)`, from the loop. */
void lw__link_fail(struct lw__link *link, const char *why);

/* Sends `length` bytes holding request->expected complete commands, before `up` too.
 * Behind a command of one word hiredis reads one byte more, which must be there. The
 * bytes are copied; the write happens at the end of the loop's turn, one for all. 0.
 * LW_ENOMEM, LW_ECONN: nothing was queued, the link is going down (or is subscribed) and
 * the request is not known to it. */
int lw__link_send(struct lw__link *link, struct lw__request *request, const char *bytes,
                  size_t length);
/* Its owner is going: late replies are swallowed. Fine if it is not in flight here. */
void lw__link_forget(struct lw__link *link, struct lw__request *request);
/* SUBSCRIBE to one channel, on a link that from then on carries nothing else but this
 * again (as a heartbeat) and other channels. Each confirmation, message and error comes
 * as `push`; a confirmation that has not come within request_timeout_ms takes the link
 * down. 0, LW_ENOMEM, LW_ECONN. */
int lw__link_subscribe(struct lw__link *link, const char *channel);
/* The same with a channel of a slot, and back: SSUBSCRIBE, SUNSUBSCRIBE. A node says the
 * latter, too, without having been asked. */
int lw__link_ssubscribe(struct lw__link *link, const char *channel);
int lw__link_sunsubscribe(struct lw__link *link, const char *channel);
/* Returns true once the peer has accepted the connection: a failure from then on is the
 * TLS handshake's, or comes after it. */
bool lw__link_has_connected(const struct lw__link *link);
/* Returns true if the peer has closed the connection, after an answer or more. */
bool lw__link_has_ended(const struct lw__link *link);
/* Returns true if the link failed because one side does not accept the other's TLS
 * certificate, version or cipher suites: another attempt fails as well. */
bool lw__link_is_rejected(const struct lw__link *link);
/* Replies still to come. */
size_t lw__link_inflight(const struct lw__link *link);
#endif
