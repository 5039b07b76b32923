/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server that never works on a payment while an earlier copy of it is in work,
 * even if the copies reach different servers. Nothing ever blocks.
 *
 *     cc gateway.c $(pkg-config --cflags --libs lockwire) -levent_extra -o gateway
 *     export LOCKWIRE_URL=redis://localhost
 *     ./gateway [--map FROM=TO[,FROM=TO]...] PORT FOLDER [WAIT_MS [WORK_MS]]
 *     curl -i -X POST -H 'Idempotency-Key: 1f0c' http://127.0.0.1:8080/
 *
 * requested() acquires the lock "pay:1f0c". acquired() replies 200 if the folder, which
 * all servers share, has a file of that name. Otherwise it starts the work, here a timer;
 * then paid() writes the file and replies 200. A copy waits in the lock's queue, for at
 * most WAIT_MS (2000). After that the reply is 409, and Retry-After is the duration of
 * the work (WORK_MS, 1000). If Redis cannot be reached, or the lock is lost, it is 503.
 *
 * With --map it connects to TO in place of the address FROM that sentinels or cluster
 * nodes announce (HOST:PORT or HOST on both sides).
 *
 * If a client disconnects, its request leaves the queue, or its work ends, so that the
 * next copy is worked on. SIGTERM ends all requests and releases their locks.
 * (bench/gateway in the source tree is a complete daemon of this kind.)
 */
#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <lockwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct gateway {
    struct event_base *base;
    struct lw_client *client;
    struct evhttp *http;
    long wait_ms, work_ms;
};

struct payment {
    const struct gateway *gateway;
    struct evhttp_request *request; /* NULL: the client has disconnected */
    struct lw_lock *lock;
    struct event *work, *gone; /* the work is done; the client has disconnected */
    char key[65];
};

/* Every path ends here. Replies to the client, if it is still connected. Freeing the lock
 * releases it, or leaves the queue, in the background. */
static void end(struct payment *payment, int code, const char *reason)
{
    if (payment->gone != NULL) {
        event_free(payment->gone);
    }
    if (payment->request != NULL) {
        struct evkeyvalq *headers = evhttp_request_get_output_headers(payment->request);
        char seconds[24];

        /* not lw_lock_retry_ms: the lease is only a bound for the other copy's work */
        (void)snprintf(seconds, sizeof(seconds), "%ld",
                       (payment->gateway->work_ms + 999) / 1000);
        if (code != HTTP_OK) {
            (void)evhttp_add_header(headers, "Retry-After", seconds);
        }
        evhttp_connection_set_closecb(evhttp_request_get_connection(payment->request),
                                      NULL, NULL);
        evhttp_send_reply(payment->request, code, reason, NULL);
    }
    lw_lock_free(payment->lock);
    if (payment->work != NULL) {
        event_free(payment->work);
    }
    free(payment);
}

/* Called by evhttp, which frees the request with its connection. */
static void closed_connection(struct evhttp_connection *connection, void *arg)
{
    struct payment *payment = arg;

    (void)connection;
    payment->request = NULL;
    end(payment, 0, NULL);
}

/* The client has disconnected. evhttp does not read while a request waits for its reply,
 * and would notice that only when it sends the reply. */
static void gone(evutil_socket_t fd, short what, void *arg)
{
    struct payment *payment = arg;

    (void)fd, (void)what;
    evhttp_connection_free(evhttp_request_get_connection(payment->request));
}

/* If EV_CLOSED is not available, a disconnect is noticed only with the reply. */
static void watch_client(struct payment *payment, struct event_base *base)
{
    struct evhttp_connection *connection =
        evhttp_request_get_connection(payment->request);
    struct bufferevent *stream = evhttp_connection_get_bufferevent(connection);

    evhttp_connection_set_closecb(connection, closed_connection, payment);
    payment->gone = event_new(base, bufferevent_getfd(stream), EV_CLOSED, gone, payment);
    if (payment->gone != NULL) {
        (void)event_add(payment->gone, NULL);
    }
}

/* The work is done. A folder cannot refuse a small fencing token, so the file is written
 * only while time is left, and only if it does not exist. */
static void paid(evutil_socket_t none, short what, void *arg)
{
    struct payment *payment = arg;
    int file = -1;

    (void)none, (void)what;
    if (lw_lock_remaining_ms(payment->lock) > 0) {
        file = open(payment->key, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    }
    if (file < 0 || close(file) < 0) {
        end(payment, HTTP_SERVUNAVAIL, "Not done");
    } else {
        end(payment, HTTP_OK, "Paid");
    }
}

static void lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    end(arg, HTTP_SERVUNAVAIL, lw_strerror(reason));
}

static void acquired(struct lw_lock *lock, int status, void *arg)
{
    struct payment *payment = arg;
    long ms = payment->gateway->work_ms;
    struct timeval work = {ms / 1000, ms % 1000 * 1000};

    (void)lock;
    if (status == LW_EBUSY ||
        (status == LW_ETIMEOUT && lw_client_is_up(payment->gateway->client, NULL))) {
        end(payment, 409, "In work");
    } else if (status != LW_OK) { /* Redis is down or refuses: the holder is unknown */
        end(payment, HTTP_SERVUNAVAIL, lw_strerror(status));
    } else if (access(payment->key, F_OK) == 0) {
        end(payment, HTTP_OK, "Paid before");
    } else if (event_add(payment->work, &work) < 0) {
        end(payment, HTTP_SERVUNAVAIL, "No timer");
    }
}

/* Returns true if the key can also be the name of a file. */
static int is_key(const char *key)
{
    size_t length = strspn(key, "0123456789abcdefghijklmnopqrstuvwxyz-");

    return length > 0 && length < sizeof(((struct payment *)NULL)->key) &&
           key[length] == '\0';
}

static void requested(struct evhttp_request *request, void *arg)
{
    struct gateway *gateway = arg;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    const char *key =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Idempotency-Key");
    struct payment *payment;
    char name[80];

    if (key == NULL || !is_key(key)) {
        evhttp_send_error(request, HTTP_BADREQUEST, "Idempotency-Key: a-z, 0-9 and -");
        return;
    }
    payment = calloc(1, sizeof(*payment));
    if (payment == NULL) {
        evhttp_send_error(request, HTTP_SERVUNAVAIL, NULL);
        return;
    }
    payment->gateway = gateway;
    payment->request = request;
    (void)snprintf(payment->key, sizeof(payment->key), "%s", key);
    (void)snprintf(name, sizeof(name), "pay:%s", key);
    watch_client(payment, gateway->base);
    options.wait_ms = gateway->wait_ms;
    options.lost = lost;
    payment->work = event_new(gateway->base, -1, 0, paid, payment);
    if (payment->work == NULL || lw_acquire(gateway->client, name, &options, acquired,
                                            payment, &payment->lock) < 0) {
        end(payment, HTTP_SERVUNAVAIL, "Not asked for");
    }
}

static void closed(struct lw_client *client, void *arg)
{
    (void)client;
    event_base_loopbreak(arg);
}

static void terminated(evutil_socket_t number, short what, void *arg)
{
    struct gateway *gateway = arg;

    (void)number, (void)what;
    if (gateway->http != NULL) {    /* the first time */
        evhttp_free(gateway->http); /* and each connection: closed_connection() */
        gateway->http = NULL;
        (void)lw_client_close(gateway->client, closed, gateway->base);
    }
}

static void fail(const char *why)
{
    (void)fprintf(stderr, "gateway: %s\n", why);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */
    struct gateway gateway = {.base = event_base_new()};
    struct event *term;
    char why[LW_WHY_SIZE] = "out of memory"; /* or the library's text */

    if (argc > 2 && strcmp(argv[1], "--map") == 0) {
        options.address_map = argv[2];
        argc -= 2;
        argv += 2;
    }
    gateway.wait_ms = argc > 3 ? strtol(argv[3], NULL, 10) : 2000;
    gateway.work_ms = argc > 4 ? strtol(argv[4], NULL, 10) : 1000;
    if (argc < 3 || argc > 5 || gateway.wait_ms < 0 || gateway.work_ms < 0) {
        fail("usage: gateway [--map FROM=TO[,FROM=TO]...] PORT FOLDER [WAIT_MS "
             "[WORK_MS]]");
    }
    if (chdir(argv[2]) < 0) {
        fail(strerror(errno));
    }
    if (gateway.base == NULL) {
        fail(strerror(errno));
    }
    options.client_name = "gateway";
    options.errbuf = why;
    options.errbuf_size = sizeof(why);
    if (url == NULL || lw_client_new(gateway.base, url, &options, &gateway.client) < 0) {
        fail(url != NULL ? why : "LOCKWIRE_URL is not set");
    }
    (void)signal(SIGPIPE, SIG_IGN); /* for evhttp; the library does not need it */
    term = evsignal_new(gateway.base, SIGTERM, terminated, &gateway);
    gateway.http = evhttp_new(gateway.base);
    if (term == NULL || event_add(term, NULL) < 0 || gateway.http == NULL ||
        evhttp_bind_socket(gateway.http, "127.0.0.1",
                           (uint16_t)strtoul(argv[1], NULL, 10)) < 0) {
        fail("cannot listen");
    }
    evhttp_set_gencb(gateway.http, requested, &gateway);
    event_base_dispatch(gateway.base);
    lw_client_free(gateway.client);
    event_free(term);
    event_base_free(gateway.base);
    return 0;
}
