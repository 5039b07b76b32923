/* SPDX-License-Identifier: MIT */
/* How a connection comes and goes: hiredis' connect and disconnect callbacks, neither of
 * which calls what could end the link, which 0.14.1 would not bear. Must not know what is
 * said in between. Happy path: redisAsyncConnect, the adapter, the guard; on_connect, and
 * `up` from a deferred call; on_disconnect. What fails at once (an address, a path, no
 * memory) is the call's result; what fails later is `down`, from a deferred call. */
#include "redis/link_inside.h"

#include "base/address.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/tls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* What a server that speaks TLS answers to plain text, if it answers: an alert, whose
 * first byte hiredis takes for a type. */
static bool is_alert(const redisContext *c)
{
    return c->err == REDIS_ERR_PROTOCOL && strstr(c->errstr, "\"\\x15\"") != NULL;
}

static bool is_end(const redisContext *c)
{
    return c->err == REDIS_ERR_EOF || (c->err == REDIS_ERR_IO && errno == ECONNRESET);
}

/* Many answer nothing at all. */
static bool may_want_tls(const struct lw__link *link)
{
    return link->tls == NULL && !link->answered && link->awaited.first != NULL &&
           link->to_host;
}

/* hiredis ends it, and frees the context when this returns. */
static void tell_why(struct lw__link *link, const redisContext *c)
{
    const char *refused = lw__guard_why(&link->guard);
    const char *tls = link->tls != NULL ? lw__tls_why(link->tls) : NULL;

    if (refused != NULL) {
        lw__link_fail(link, refused);
    } else if (tls != NULL) {
        lw__link_fail_doing(link, "TLS with", tls);
    } else if (is_alert(c)) {
        lw__link_fail_doing(link, "reading from", "the server speaks TLS: rediss://");
    } else if (is_end(c) && may_want_tls(link)) {
        lw__link_fail_doing(link, "no answer from",
                            "it closed the connection at once, as servers do that speak "
                            "TLS (rediss://), or proxies that do not know CLIENT");
    } else if (c->err == REDIS_ERR_EOF) {
        link->ended = true;
        lw__link_fail(link, "the server closed the connection");
    } else if (c->err == REDIS_ERR_IO) {
        lw__link_fail_doing(link, "reading from", c->errstr);
    } else if (c->err == REDIS_ERR_OOM) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    } else {
        lw__link_fail(link, c->errstr);
    }
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    if (link == NULL) {
        return;
    }
    if (status != REDIS_OK) {
        link->context = NULL;
        lw__link_fail_doing(link, "connecting to", context->c.errstr);
        return;
    }
    link->connected = true;
    if (link->tls != NULL) {
        lw__link_tls_begin(link);
    } else {
        lw__link_connected(link);
    }
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct lw__link *link = lw__wire_owner(context);

    (void)status;
    if (link != NULL) {
        link->context = NULL;
        tell_why(link, &context->c);
    }
}

static void name_peer(struct lw__link *link, const struct lw__link_options *options)
{
    if (options->host == NULL) {
        (void)snprintf(link->peer, sizeof(link->peer), "%s", options->path);
    } else {
        bool v6 = strchr(options->host, ':') != NULL;
        (void)snprintf(link->peer, sizeof(link->peer), "%s%s%s:%u", v6 ? "[" : "",
                       options->host, v6 ? "]" : "", (unsigned)options->port);
    }
}

/* hiredis would look a name up, cut a path off, and not end one that fills its place.
 * NULL: no memory, or `error` is set. */
static redisAsyncContext *start(const struct lw__link_options *options, int *error)
{
    struct lw__address address;

    if (options->host == NULL) {
        if (strlen(options->path) + 1 < sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
            return redisAsyncConnectUnix(options->path);
        }
    } else if (lw__address_parse(options->host, &address)) {
        lw__address_number_zone(&address);
        return redisAsyncConnect(address.text, options->port);
    }
    *error = EINVAL;
    return NULL;
}

/* A path is connected to at once or not at all: one whose queue is full is no beginning,
 * though 1.4 takes it for one. */
static bool is_refused(const struct lw__link_options *options,
                       const redisAsyncContext *context)
{
    struct sockaddr_un peer;
    socklen_t size = sizeof(peer);

    return options->host == NULL && context != NULL && context->err == 0 &&
           getpeername(context->c.fd, (struct sockaddr *)&peer, &size) < 0;
}

/* True if this process, or the system, can open no more sockets. hiredis keeps errno's
 * text alone. */
static bool is_exhausted(const char *error)
{
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS};

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        if (strstr(error, strerror(errors[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* Returns 0, LW_ENOMEM, LW_ECONN or LW_ESYSTEM: `why` tells. */
static int connect_link(struct lw__link *link, const struct lw__link_options *options,
                        char *why)
{
    int error = 0;
    redisAsyncContext *context = start(options, &error);
    const char *text = error != 0 ? strerror(error) : NULL;

    if (context != NULL && context->err != 0 && context->err != REDIS_ERR_OOM) {
        text = context->errstr;
    } else if (is_refused(options, context)) {
        text = strerror(EAGAIN);
    }
    if (text != NULL) {
        (void)snprintf(why, LW__WHY_MAX, "connecting to %s: %s", link->peer, text);
    }
    if (text != NULL || context == NULL || context->err != 0 ||
        lw__wire_attach(&link->wire, context) != 0) {
        if (context != NULL) {
            redisAsyncFree(context);
        }
        if (text == NULL) {
            return LW_ENOMEM;
        }
        return is_exhausted(why) ? LW_ESYSTEM : LW_ECONN;
    }
    link->context = context;
    lw__guard_attach(&link->guard, context);
    (void)redisAsyncSetDisconnectCallback(context, on_disconnect);
    if (options->host == NULL) {
        lw__wire_connected(&link->wire);
        lw__link_connected(link);
    } else {
        (void)redisAsyncSetConnectCallback(context, on_connect);
        lw__timer_set(link->loop, &link->timer,
                      lw__now_us() + (int64_t)link->connect_timeout_ms * 1000);
    }
    return 0;
}

int lw__link_open(struct lw__loop *loop, const struct lw__link_options *options,
                  const struct lw__link_events *events, void *arg, char *why,
                  struct lw__link **ret)
{
    struct lw__link *link = lw__link_new(loop, options, events, arg);
    int status;

    (void)snprintf(why, LW__WHY_MAX, "%s", lw_strerror(LW_ENOMEM));
    if (link == NULL) {
        return LW_ENOMEM;
    }
    if (options->tls != NULL) {
        status = lw__tls_new(options->tls, why, LW__WHY_MAX, &link->tls);
        if (status != 0) {
            lw__link_destroy(link);
            if (status == LW_EINVAL) { /* a file that cannot be used, or not be opened */
                status = is_exhausted(why) ? LW_ESYSTEM : LW_ECONN;
            }
            return status;
        }
    }
    if (lw__timer_reserve(loop, 1) < 0) {
        lw__link_destroy(link);
        return LW_ENOMEM;
    }
    name_peer(link, options);
    status = connect_link(link, options, why);
    if (status != 0) {
        lw__timer_unreserve(loop, 1);
        lw__link_destroy(link);
        return status;
    }
    *ret = link;
    return 0;
}
