/* SPDX-License-Identifier: MIT */
/* A link over TLS. Independent of OpenSSL.
 *
 * lw__link_tls_begin is called by the connect callback. Whenever the socket is readable
 * or writable the handshake continues, for at most the time that connecting may take.
 * Then the link is up, and hiredis_ssl's functions read and write. Readiness is handled
 * as without TLS: hiredis_ssl itself, after reading an incomplete record, would not
 * finish a partial write before more is read. Errors are handled by a deferred call,
 * outside of hiredis. */
#include "redis/link_private.h"

#include "loop/loop.h"
#include "redis/tls.h"

#include <errno.h>

#ifdef HAVE_TLS

static void on_broken_write(void *arg, int error)
{
    struct lw__link *link = arg;

    lw__wire_abort(&link->wire, error);
}

static void on_more(void *arg)
{
    struct lw__link *link = arg;

    if (link->state == LW__LINK_UP) {
        redisAsyncHandleRead(link->context);
    }
}

/* OpenSSL reads ahead, and the socket does not become readable for what it has. */
static void read_more(struct lw__link *link)
{
    if (lw__tls_has_more(link->tls)) {
        lw__defer(link->loop, &link->more, false);
    }
}

/* Writes what was sent during the handshake. */
static void handshake_done(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    lw__link_connected(link);
    context->ev.delWrite(context->ev.data);
    context->ev.addWrite(context->ev.data);
    context->ev.addRead(context->ev.data);
    read_more(link);
}

static void continue_handshake(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    switch (lw__tls_shake(link->tls)) {
    case LW__TLS_DONE:
        handshake_done(link);
        break;
    case LW__TLS_WANTS_WRITE:
        lw__wire_watch(&link->wire);
        break;
    case LW__TLS_WANTS_READ:
        context->ev.delWrite(context->ev.data);
        context->ev.addRead(context->ev.data);
        break;
    case LW__TLS_FAILED:
        lw__wire_abort(&link->wire, EPROTO);
        break;
    }
}

/* Returns true if there is more to read. hiredis frees the context at the end of file,
 * and callbacks may close the link. */
static bool read_record(struct lw__link *link, redisAsyncContext *context)
{
    lw__tls_forget_errors(link->tls);
    redisAsyncRead(context);
    return link->context == context && lw__tls_has_more(link->tls);
}

/* Reads all records that have arrived together before anything is written: if each were
 * answered by a write of its own, the server's replies would come in single records
 * again. Records that arrive in the meantime wait until other events have had their turn.
 */
static void read_records(struct lw__link *link, redisAsyncContext *context)
{
    bool more = read_record(link, context);
    uint64_t received = more ? lw__tls_heard(link->tls) : 0;

    while (more && lw__tls_heard(link->tls) == received) {
        more = read_record(link, context);
    }
    if (more) {
        lw__defer(link->loop, &link->more, false);
    }
}

/* hiredis calls the next two for as long as the context has a wire. */
static struct lw__link *link_of(const redisAsyncContext *context)
{
    const struct lw__wire *wire = context->data;

    return wire->owner;
}

static void on_readable(redisAsyncContext *context)
{
    struct lw__link *link = link_of(context);

    link->refs++;
    if (link->state == LW__LINK_CONNECTING) {
        continue_handshake(link);
    } else {
        read_records(link, context);
    }
    lw__link_unref(link);
}

static void on_writable(redisAsyncContext *context)
{
    struct lw__link *link = link_of(context);

    link->refs++;
    if (link->state == LW__LINK_CONNECTING) {
        continue_handshake(link);
    } else {
        lw__tls_forget_errors(link->tls);
        redisAsyncWrite(context);
    }
    lw__link_unref(link);
}

void lw__link_tls_begin(struct lw__link *link)
{
    lw__defer_init(&link->more, on_more, link);
    if (lw__tls_begin(link->tls, link->context, on_broken_write, link) == 0) {
        lw__wire_wrap(&link->wire, on_readable, on_writable);
    } /* else hiredis handles the context's error when this returns */
}

#else

void lw__link_tls_begin(struct lw__link *link)
{
    lw__wire_abort(&link->wire, EPROTO);
}

#endif
