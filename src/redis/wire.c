/* SPDX-License-Identifier: MIT */
/* hiredis' adapter for libevent, and how a context's bytes go out. Independent of what
 * the bytes mean.
 *
 * hiredis requests by the hook addWrite, for each command, that the descriptor be watched
 * until it is writable. While connected, this file makes a deferred call of
 * redisAsyncHandleWrite at the end of the turn instead, which costs no system call except
 * the write. If the socket takes less than all, the adapter's own hook follows, and
 * nothing is deferred until the rest has been sent.
 *
 * This file also writes: hiredis' own write raises SIGPIPE if the peer has closed, and
 * frees its buffer after each write. 1.x has a table of functions for that; with 0.14.1
 * our write precedes hiredis', which then finds nothing left, and the adapter's events,
 * which are one-shot, are replaced by persistent ones that call this file. A failed write
 * is reported by a deferred call, after the server's last bytes have been read.
 *
 * The adapter's callbacks call this file in place of hiredis (the macros below), because
 * in a forked child they must do nothing. */
#include "redis/wire.h"

#include "base/container_of.h"
#include "base/process.h"
#include "base/wipe.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/sds.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_read(redisAsyncContext *context);
static void on_write(redisAsyncContext *context);
#define redisAsyncHandleRead on_read
#define redisAsyncHandleWrite on_write
#include <hiredis/adapters/libevent.h>
#undef redisAsyncHandleRead
#undef redisAsyncHandleWrite

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE does it there */
#endif

/* An empty output buffer that is larger than this is freed. */
#define KEPT_MAX ((size_t)256 * 1024)

void lw__wire_abort(struct lw__wire *wire, int error)
{
    wire->error = error;
    lw__defer(wire->loop, wire->broken, false);
}

/* ---- writing ---- */

static void wipe(const struct lw__wire *wire, char *bytes, size_t length)
{
    if (wire->wiping) {
        lw__wipe(bytes, length);
    }
}

static void empty(struct lw__wire *wire, redisContext *c)
{
    wipe(wire, c->obuf, sdslen(c->obuf));
    wire->wiping = false;
    sdssetlen(c->obuf, 0);
    c->obuf[0] = '\0';
}

static void shrink(redisContext *c)
{
    sds fresh = sdsalloc(c->obuf) > KEPT_MAX ? sdsempty() : NULL;

    if (fresh != NULL) {
        sdsfree(c->obuf);
        c->obuf = fresh;
    }
}

/* Removes the bytes that were written from the buffer. */
static void remove_written(struct lw__wire *wire, redisContext *c, size_t written)
{
    size_t length = sdslen(c->obuf);

    if (written == length) {
        empty(wire, c);
        shrink(c);
    } else if (written > 0) {
        memmove(c->obuf, c->obuf + written, length - written + 1);
        sdssetlen(c->obuf, length - written);
        wipe(wire, c->obuf + sdslen(c->obuf) + 1, written - 1);
    }
}

/* Makes one write. */
static void write_out(struct lw__wire *wire, redisContext *c)
{
    size_t length = sdslen(c->obuf);
    ssize_t written = length > 0 ? send(c->fd, c->obuf, length, MSG_NOSIGNAL) : 0;

    if (written < 0 && errno != EAGAIN && errno != EINTR) {
        lw__wire_abort(wire, errno);
        empty(wire, c);
    } else if (written >= 0) {
        remove_written(wire, c, (size_t)written);
    }
}

#if HIREDIS_MAJOR >= 1

/* hiredis learns that nothing was written, and finds nothing left in the buffer. */
static ssize_t write_for_hiredis(redisContext *c)
{
    write_out(LW__CONTAINER_OF(redisAsyncContext, c, c)->data, c);
    return 0;
}

static void use_our_write(struct lw__wire *wire)
{
    redisContext *c = &wire->context->c;

    wire->original = c->funcs;
    wire->functions = *c->funcs;
    wire->functions.write = write_for_hiredis;
    c->funcs = &wire->functions;
}

static void restore_write(struct lw__wire *wire)
{
    wire->context->c.funcs = wire->original;
}

static ssize_t write_by_original(redisContext *c)
{
    struct lw__wire *wire = LW__CONTAINER_OF(redisAsyncContext, c, c)->data;
    ssize_t written = wire->original->write(c);

    if (written > 0) {
        remove_written(wire, c, (size_t)written);
        written = 0;
    }
    return written;
}

void lw__wire_wrap(struct lw__wire *wire, void (*async_read)(redisAsyncContext *),
                   void (*async_write)(redisAsyncContext *))
{
    use_our_write(wire);
    wire->functions.write = write_by_original;
    wire->functions.async_read = async_read;
    wire->functions.async_write = async_write;
}

static void handle_write(redisAsyncContext *context)
{
    redisAsyncHandleWrite(context);
}

#else

/* Has hiredis check whether it has connected; if so it makes the first write. */
static void handle_connected(redisAsyncContext *context)
{
    struct lw__process_sigpipe held;

    lw__process_block_sigpipe(&held);
    redisAsyncHandleWrite(context);
    lw__process_unblock_sigpipe(&held);
}

static void handle_write(redisAsyncContext *context)
{
    if ((context->c.flags & REDIS_CONNECTED) == 0) {
        handle_connected(context);
        return;
    }
    write_out(context->data, &context->c);
    if (sdslen(context->c.obuf) > 0) {
        context->ev.addWrite(context->ev.data);
    } else {
        redisAsyncHandleWrite(context);
    }
}

static void use_our_write(struct lw__wire *wire)
{
    redisLibeventEvents *e = wire->context->ev.data;
    struct event_base *base = event_get_base(e->wev);

    (void)event_del(e->rev);
    (void)event_del(e->wev);
    (void)event_assign(e->rev, base, wire->context->c.fd, EV_READ | EV_PERSIST,
                       redisLibeventReadEvent, e);
    (void)event_assign(e->wev, base, wire->context->c.fd, EV_WRITE | EV_PERSIST,
                       redisLibeventWriteEvent, e);
}

static void restore_write(struct lw__wire *wire)
{
    (void)wire;
}

#endif

/* Returns true in a forked child. A context that was detached is about to be freed, and
 * belongs to no loop. */
static bool is_skipped(const redisAsyncContext *context)
{
    const struct lw__wire *wire = context->data;

    return wire != NULL && lw__loop_skips(wire->loop);
}

static void on_read(redisAsyncContext *context)
{
    if (!is_skipped(context)) {
        redisAsyncHandleRead(context);
    }
}

static void on_write(redisAsyncContext *context)
{
    if (!is_skipped(context)) {
        handle_write(context);
    }
}

static void flush(void *arg)
{
    struct lw__wire *wire = arg;

    wire->flushing = true;
    handle_write(wire->context);
    wire->flushing = false;
    if (wire->written != NULL && wire->context != NULL) {
        lw__defer(wire->loop, wire->written, true);
    }
}

/* The adapter does not check that libevent had memory to change what it watches for. */
static bool is_watched(const redisLibeventEvents *e, short what)
{
#if HIREDIS_MAJOR >= 1
    return event_pending(e->ev, what, NULL) != 0;
#else
    return event_pending(what == EV_READ ? e->rev : e->wev, what, NULL) != 0;
#endif
}

/* The adapter of 1.x assigns its event again for each change, which resets the priority;
 * with 0.14.1 it is lost when our events replace the adapter's. */
static void prioritize(const struct lw__wire *wire, redisLibeventEvents *e)
{
    int priority = lw__loop_priority(wire->loop);

#if HIREDIS_MAJOR >= 1
    (void)event_priority_set(e->ev, priority);
#else
    (void)event_priority_set(e->rev, priority);
    (void)event_priority_set(e->wev, priority);
#endif
}

void lw__wire_watch(struct lw__wire *wire)
{
    redisLibeventEvents *e = wire->context->ev.data;

    if (wire->waiting) {
        return;
    }
    redisLibeventAddWrite(e);
    prioritize(wire, e);
    wire->waiting = true;
    if (!is_watched(e, EV_WRITE)) {
        lw__wire_abort(wire, ENOMEM);
    }
}

/* ---- the hooks of the context, in place of the adapter's ---- */

static void add_write(void *data)
{
    const redisLibeventEvents *e = data;
    struct lw__wire *wire = e->context->data;

    if (wire->waiting) {
        return;
    }
    if ((e->context->c.flags & REDIS_CONNECTED) != 0 && !wire->flushing) {
        lw__defer(wire->loop, &wire->flush, true);
    } else {
        lw__wire_watch(wire);
    }
}

static void delete_write(void *data)
{
    struct lw__wire *wire = ((redisLibeventEvents *)data)->context->data;

    if (wire->waiting) {
        wire->waiting = false;
        wire->reading = false; /* the adapter adds both again */
        redisLibeventDelWrite(data);
        prioritize(wire, data);
    }
}

/* Called when bytes have been read and not yet parsed. */
static void add_read(void *data)
{
    redisLibeventEvents *e = data;
    struct lw__wire *wire = e->context->data;
    const redisReader *reader = e->context->c.reader;

    wire->fresh = true;
    if (reader->len - reader->pos > wire->buffered_max) {
        lw__wire_abort(wire, EMSGSIZE);
    }
    if (!wire->reading) {
        redisLibeventAddRead(data);
        prioritize(wire, data);
        wire->reading = is_watched(e, EV_READ);
        if (!wire->reading) {
            lw__wire_abort(wire, ENOMEM);
        }
    }
}

/* ---- attaching ---- */

void lw__wire_init(struct lw__wire *wire, struct lw__loop *loop, void *owner,
                   struct lw__deferred *broken, size_t buffered_max)
{
    memset(wire, 0, sizeof(*wire));
    wire->loop = loop;
    wire->owner = owner;
    wire->broken = broken;
    wire->buffered_max = buffered_max;
    lw__defer_init(&wire->flush, flush, wire);
}

#if HIREDIS_MAJOR >= 1

static int avoid_fd_zero(redisContext *c)
{
    (void)c;
    return 0;
}

#else

/* In a host without a standard input the connection may get descriptor 0, which hiredis
 * takes for none and never closes. */
static int avoid_fd_zero(redisContext *c)
{
    if (c->fd == 0) {
        c->fd = fcntl(0, F_DUPFD_CLOEXEC, 1);
        (void)close(0);
    }
    return c->fd < 0 ? LW_ENOMEM : 0;
}

#endif

/* If one of these fails the connection works nevertheless. */
static void set_socket_options(const redisContext *c)
{
    int on = 1;

    (void)fcntl(c->fd, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    (void)setsockopt(c->fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
#endif
    (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/* The adapter does not check that libevent had memory for its event. */
static int attach_adapter(redisAsyncContext *context, struct event_base *base)
{
    if (redisLibeventAttach(context, base) != REDIS_OK) {
        return LW_ENOMEM;
    }
#if HIREDIS_MAJOR >= 1
    redisLibeventEvents *e = context->ev.data;

    if (e->ev == NULL) {
        memset(&context->ev, 0, sizeof(context->ev));
        hi_free(e);
        return LW_ENOMEM;
    }
#endif
    return 0;
}

int lw__wire_attach(struct lw__wire *wire, redisAsyncContext *context)
{
    if (avoid_fd_zero(&context->c) != 0 ||
        attach_adapter(context, lw__loop_base(wire->loop)) != 0) {
        return LW_ENOMEM;
    }
    set_socket_options(&context->c);
    wire->context = context;
    context->data = wire;
    use_our_write(wire);
    context->ev.addRead = add_read;
    context->ev.addWrite = add_write;
    context->ev.delWrite = delete_write;
    return 0;
}

void lw__wire_connected(struct lw__wire *wire)
{
    wire->context->c.flags |= REDIS_CONNECTED;
    wire->context->ev.addRead(wire->context->ev.data);
}

void lw__wire_check_error(struct lw__wire *wire)
{
    handle_write(wire->context);
}

/* A buffer that grows leaves its old bytes in memory, so it grows before the secret is in
 * it. Without memory for that, putting the secret into it fails as well. */
void lw__wire_wipe(struct lw__wire *wire, size_t room)
{
    redisContext *c = &wire->context->c;
    sds larger = sdsMakeRoomFor(c->obuf, room);

    if (larger != NULL) {
        c->obuf = larger;
    }
    wire->wiping = true;
}

void lw__wire_detach(struct lw__wire *wire)
{
    lw__defer_cancel(wire->loop, &wire->flush);
    lw__defer_cancel(wire->loop, wire->broken);
    if (wire->context != NULL) {
        wipe(wire, wire->context->c.obuf, sdslen(wire->context->c.obuf));
        restore_write(wire);
        if (lw__loop_shares_set(wire->loop)) { /* see loop.c */
            (void)close(wire->context->c.fd);
            wire->context->c.fd = -1;
        }
        wire->context->data = NULL;
        wire->context = NULL;
    }
}
