/* SPDX-License-Identifier: MIT */
/* A link over TLS. Must not know what TLS is made of.
 *
 * Happy path: lw__link_tls_begin from the connect callback; whatever can be read or
 * written goes on with the handshake, for as long as connecting may take; then the link
 * is up, and hiredis_ssl's functions read and write. When they do is as without TLS:
 * hiredis_ssl would, once it has found a part of a record only, not go on with a write
 * that the socket did not take whole before more is read. What fails is told by a
 * deferred call, outside of hiredis. */
#include "redis/link_inside.h"

#include "loop/loop.h"
#include "redis/tls.h"

#include <errno.h>

#if HIREDIS_MAJOR >= 1

static void on_broken_write(void *arg, int error)
{
    struct lw__link *link = arg;

    lw__wire_give_up(&link->wire, error);
}

static void on_more(void *arg)
{
    struct lw__link *link = arg;

    if (link->state == LW__LINK_UP) {
        redisAsyncHandleRead(link->context);
    }
}

/* OpenSSL reads ahead, and no descriptor wakes for what it has. */
static void read_more(struct lw__link *link)
{
    if (lw__tls_has_more(link->tls)) {
        lw__defer(link->loop, &link->more, false);
    }
}

/* What was sent meanwhile goes out now. */
static void shaken(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    lw__link_connected(link);
    context->ev.delWrite(context->ev.data);
    context->ev.addWrite(context->ev.data);
    context->ev.addRead(context->ev.data);
    read_more(link);
}

static void shake(struct lw__link *link)
{
    redisAsyncContext *context = link->context;

    switch (lw__tls_shake(link->tls)) {
    case LW__TLS_DONE:
        shaken(link);
        break;
    case LW__TLS_WANTS_WRITE:
        lw__wire_watch(&link->wire);
        break;
    case LW__TLS_WANTS_READ:
        context->ev.delWrite(context->ev.data);
        context->ev.addRead(context->ev.data);
        break;
    case LW__TLS_FAILED:
        lw__wire_give_up(&link->wire, EPROTO);
        break;
    }
}

/* Whether there is more. hiredis frees the context where it finds an end, and callbacks
 * may close the link. */
static bool read_record(struct lw__link *link, redisAsyncContext *context)
{
    lw__tls_forget_errors(link->tls);
    redisAsyncRead(context);
    return link->context == context && lw__tls_has_more(link->tls);
}

/* What came together is answered together: were each record answered by a write, the
 * server's answers would be records of their own again. What comes meanwhile waits until
 * others have had their turn. */
static void read_records(struct lw__link *link, redisAsyncContext *context)
{
    bool more = read_record(link, context);
    uint64_t heard = more ? lw__tls_heard(link->tls) : 0;

    while (more && lw__tls_heard(link->tls) == heard) {
        more = read_record(link, context);
    }
    if (more) {
        lw__defer(link->loop, &link->more, false);
    }
}

static void on_readable(redisAsyncContext *context)
{
    struct lw__link *link = lw__wire_owner(context);

    link->entered++;
    if (link->state == LW__LINK_CONNECTING) {
        shake(link);
    } else {
        read_records(link, context);
    }
    lw__link_let_go(link);
}

static void on_writable(redisAsyncContext *context)
{
    struct lw__link *link = lw__wire_owner(context);

    link->entered++;
    if (link->state == LW__LINK_CONNECTING) {
        shake(link);
    } else {
        lw__tls_forget_errors(link->tls);
        redisAsyncWrite(context);
    }
    lw__link_let_go(link);
}

void lw__link_tls_begin(struct lw__link *link)
{
    lw__defer_init(&link->more, on_more, link);
    if (lw__tls_begin(link->tls, link->context, on_broken_write, link) == 0) {
        lw__wire_wrap(&link->wire, on_readable, on_writable);
    } /* else hiredis finds its error when this returns */
}

#else

void lw__link_tls_begin(struct lw__link *link)
{
    lw__wire_give_up(&link->wire, EPROTO);
}

#endif
