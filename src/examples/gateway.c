/* SPDX-License-Identifier: MIT */
/*
 * An HTTP server that never works on a payment while its first copy is still in work,
 * whichever of several servers the copies come to, and that waits for nothing.
 *
 *     cc gateway.c $(pkg-config --cflags --libs lockwire) -levent_extra -o gateway
 *     LOCKWIRE_URL=redis://localhost ./gateway PORT FOLDER
 *     curl -i -X POST -H 'Idempotency-Key: 1f0c' http://127.0.0.1:8080/
 *
 * Happy path: requested -> lw_acquire("pay:1f0c"), once -> acquired: 200 if a file of
 * that name is in the folder, which the servers share; else the work, a timer here ->
 * paid: the file, 200. Somebody else is at it: 409 and when to ask again. No server, the
 * lock lost: 503. A client that goes finds it paid when it asks again. SIGTERM: no more
 * requests, no more work, the locks are given back. (bench/gateway in the source tree is
 * this as a whole daemon.)
 */
#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <inttypes.h>
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
};

struct payment {
    struct evhttp_request *request; /* NULL: the client is gone */
    struct lw_lock *lock;
    struct event *work;
    char key[65];
};

/* The one end of all: answers, if there is somebody; the lock is released as it is freed,
 * in the background. */
static void end(struct payment *payment, int code, const char *reason)
{
    if (payment->request != NULL) {
        struct evkeyvalq *headers = evhttp_request_get_output_headers(payment->request);
        int64_t retry_ms = payment->lock != NULL ? lw_lock_retry_ms(payment->lock) : 0;
        char seconds[24];

        (void)snprintf(seconds, sizeof(seconds), "%" PRId64,
                       retry_ms > 1000 ? (retry_ms + 999) / 1000 : 1);
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

/* evhttp frees the request with its connection: of a client that it knows to be gone, and
 * of all at the end. */
static void gone(struct evhttp_connection *connection, void *arg)
{
    struct payment *payment = arg;

    (void)connection;
    payment->request = NULL;
    end(payment, 0, NULL);
}

/* The work is done. What cannot refuse a small fencing token, as a folder, is written to
 * only while there is time left, and so that nothing is written twice. */
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
    struct timeval second = {1, 0};

    (void)lock;
    if (status == LW_EBUSY) {
        end(payment, 409, "In work");
    } else if (status != LW_OK) { /* no server, or it refuses: nobody can tell */
        end(payment, HTTP_SERVUNAVAIL, lw_strerror(status));
    } else if (access(payment->key, F_OK) == 0) {
        end(payment, HTTP_OK, "Paid before");
    } else if (event_add(payment->work, &second) < 0) {
        end(payment, HTTP_SERVUNAVAIL, "No timer");
    }
}

/* The key is a file's name, too. */
static int is_key(const char *key)
{
    size_t length = strspn(key, "0123456789abcdefghijklmnopqrstuvwxyz-");

    return length > 0 && length < sizeof(((struct payment *)NULL)->key) &&
           key[length] == '\0';
}

static void requested(struct evhttp_request *request, void *arg)
{
    struct gateway *gateway = arg;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT; /* wait_ms 0: once */
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
    payment->request = request;
    (void)snprintf(payment->key, sizeof(payment->key), "%s", key);
    (void)snprintf(name, sizeof(name), "pay:%s", key);
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), gone, payment);
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
        evhttp_free(gateway->http); /* with the connections, each request: gone() */
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
    char why[200] = "out of memory"; /* or what the library says */

    if (argc != 3 || chdir(argv[2]) < 0) {
        fail(argc != 3 ? "usage: gateway PORT FOLDER" : strerror(errno));
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
    (void)signal(SIGPIPE, SIG_IGN); /* evhttp's; the library takes care of its own */
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
