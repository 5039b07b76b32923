/* SPDX-License-Identifier: MIT */
/* Attaches a redisAsyncContext to the loop with hiredis' own adapter for libevent, and
 * writes its bytes: gathered during a turn, with one write at its end, without SIGPIPE,
 * and with a buffer that is kept. Independent of which request waits for which reply.
 *
 * lw__wire_init, then lw__wire_attach to a context that connects; lw__wire_detach before
 * the context is freed, or when hiredis reports that it frees it. */
#ifndef LW_WIRE_H
#define LW_WIRE_H
#include "loop/loop.h"

#include <hiredis/async.h>
#include <stdbool.h>
#include <stddef.h>

struct lw__wire {
    struct lw__loop *loop;
    void *owner;
    redisAsyncContext *context; /* NULL: not attached */
    size_t buffered_max;        /* bytes that may be read without making a reply */
    /* Called when the connection has become unusable. `error` has the reason: the errno
     * of a write, EMSGSIZE for a reply that is too long, ENOMEM, or EPROTO for TLS. */
    struct lw__deferred *broken;
    int error;
    struct lw__deferred flush;
    struct lw__deferred *written; /* deferred after each write of a turn's end; or NULL */
    bool reading;                 /* the event loop watches for input */
    bool waiting;                 /* the event loop watches until it is writable */
    bool flushing;
    bool wiping; /* the output buffer has bytes that must not stay in memory */
    bool fresh;  /* bytes were read since the last reply was passed on */
#if HIREDIS_MAJOR >= 1
    const redisContextFuncs *original; /* of hiredis, or of its TLS */
    redisContextFuncs functions;       /* in use */
#endif
};

void lw__wire_init(struct lw__wire *wire, struct lw__loop *loop, void *owner,
                   struct lw__deferred *broken, size_t buffered_max);
/* Afterwards the context's `data` is the wire's. Returns 0, or LW_ENOMEM: then the caller
 * has to free the context. */
int lw__wire_attach(struct lw__wire *wire, redisAsyncContext *context);
/* A unix socket is connected as soon as connect(2) has succeeded. 1.x would verify that
 * by a second call, which fails, or has to wait, if the path is gone or its queue is full
 * by then. */
void lw__wire_connected(struct lw__wire *wire);
/* Watches until it is writable, even if hiredis has nothing to write. */
void lw__wire_watch(struct lw__wire *wire);
/* Makes the deferred call `broken`, with this errno. */
void lw__wire_abort(struct lw__wire *wire, int error);
#if HIREDIS_MAJOR >= 1
/* Makes the context's present functions, those of TLS, the original ones, and uses these
 * two in place of theirs. */
void lw__wire_wrap(struct lw__wire *wire, void (*async_read)(redisAsyncContext *),
                   void (*async_write)(redisAsyncContext *));
#endif
/* Has hiredis check whether it has connected or failed, and write. Must not be called
 * within hiredis. */
void lw__wire_check_error(struct lw__wire *wire);
/* Wipes the next `room` bytes that are put into the output buffer, as soon as they have
 * been sent or never will be. */
void lw__wire_wipe(struct lw__wire *wire, size_t room);
/* Restores hiredis' own functions. Afterwards the context has no owner. */
void lw__wire_detach(struct lw__wire *wire);
/* Returns NULL once the wire has been detached. */
static inline void *lw__wire_owner(const redisAsyncContext *context)
{
    const struct lw__wire *wire = context->data;

    return wire != NULL ? wire->owner : NULL;
}
#endif
