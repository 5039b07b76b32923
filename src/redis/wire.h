/* SPDX-License-Identifier: MIT */
/* A redisAsyncContext on the loop, by hiredis' own adapter for libevent, and how its
 * bytes go out: gathered during a turn, one write at its end, no signal raised, the
 * buffer kept. Independent of which request waits for which reply. Init, then attach to a
 * context that connects; detach before the context is freed, or when hiredis reports that
 * it frees it. */
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
    size_t buffered_max;        /* bytes that may be read and make no reply yet */
    /* Made when the connection is of no use any more, with the reason in `error`: an
     * errno that writing met, EMSGSIZE of a reply that is too long, ENOMEM, EPROTO of
     * TLS. */
    struct lw__deferred *broken;
    int error;
    struct lw__deferred flush;
    bool reading; /* the loop looks for what comes in */
    bool waiting; /* the loop tells when it can be written */
    bool flushing;
    bool wiping; /* the output buffer has what shall not stay in memory */
    bool fresh;  /* something was read, of which no reply was taken yet */
#if HIREDIS_MAJOR >= 1
    const redisContextFuncs *original; /* hiredis' functions, and its own */
    redisContextFuncs functions;
#endif
};

void lw__wire_init(struct lw__wire *wire, struct lw__loop *loop, void *owner,
                   struct lw__deferred *broken, size_t buffered_max);
/* The context's data is the wire's then. 0, LW_ENOMEM: the context is to be freed. */
int lw__wire_attach(struct lw__wire *wire, redisAsyncContext *context);
/* A unix socket is connected once connect(2) was fine. 1.x would make sure by a second
 * one, which fails or has to wait where the path is gone or its queue full by then. */
void lw__wire_connected(struct lw__wire *wire);
/* The loop tells when it can be written, also if hiredis has nothing to write. */
void lw__wire_watch(struct lw__wire *wire);
/* `broken` will be told, with this errno. */
void lw__wire_give_up(struct lw__wire *wire, int error);
#if HIREDIS_MAJOR >= 1
/* The context's functions have become others, of TLS: they are the original ones now,
 * but these two are called in their place. */
void lw__wire_wrap(struct lw__wire *wire, void (*async_read)(redisAsyncContext *),
                   void (*async_write)(redisAsyncContext *));
#endif
/* Has hiredis look whether it is connected by now, and write. Not from within hiredis. */
void lw__wire_look(struct lw__wire *wire);
/* The next `room` bytes that are put into the output buffer are wiped there when they
 * have gone, or never will. */
void lw__wire_wipe(struct lw__wire *wire, size_t room);
/* Its functions are hiredis' own again, and it has no owner. */
void lw__wire_detach(struct lw__wire *wire);
/* NULL once detached. */
void *lw__wire_owner(const redisAsyncContext *context);
#endif
