/* SPDX-License-Identifier: MIT */
/* The server of front.h. Usual course: accepts, and connects to the stage's unix socket.
 * on_request decrypts what has come (secure.h) and passes it on, on_answered puts the
 * replies into records, and flush writes those. */
#include "tls/front.h"
#include "secure.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AHEAD 65536 /* bytes of an endless reply */

struct guest {
    struct guest *next;
    struct front *front;
    struct secure *secure;
    struct bufferevent *client, *server;
    long written; /* bytes to the client */
    bool ready, ending, dead;
};

static struct front *fronts;

static void dismiss(struct guest *guest, bool reset)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    if (guest->dead) {
        return;
    }
    guest->dead = true;
    if (reset) {
        setsockopt(bufferevent_getfd(guest->client), SOL_SOCKET, SO_LINGER, &hard,
                   sizeof(hard));
    }
    bufferevent_free(guest->client);
    bufferevent_free(guest->server);
    secure_free(guest->secure);
}

/* ---- to the client ---- */

/* Ends the connection as soon as all output has been sent. */
static void end(struct guest *guest)
{
    guest->ending = true;
    if (evbuffer_get_length(bufferevent_get_output(guest->client)) == 0) {
        dismiss(guest, guest->front->ends == RESET);
    }
}

static void write_raw(struct guest *guest, const char *bytes, size_t length)
{
    struct front *front = guest->front;
    bool last = front->left >= 0 && (long)length >= front->left;

    if (front->mute >= 0) {
        long room = guest->written < front->mute ? front->mute - guest->written : 0;

        length = (long)length < room ? length : (size_t)room;
    }
    if (front->left >= 0) {
        length = last ? (size_t)front->left : length;
        front->left -= (long)length;
    }
    guest->written += (long)length;
    bufferevent_write(guest->client, bytes, length);
    if (last) {
        end(guest);
    }
}

static void flush(struct guest *guest)
{
    char bytes[16384];
    size_t length;

    while (!guest->dead && !guest->ending &&
           (length = secure_fetch(guest->secure, bytes, sizeof(bytes))) > 0) {
        write_raw(guest, bytes, length);
    }
}

static void put(struct guest *guest, const char *bytes, size_t length)
{
    size_t most = guest->front->record > 0 ? guest->front->record : length;

    while (length > 0) {
        size_t part = length < most ? length : most;
        secure_put(guest->secure, bytes, part);
        bytes += part;
        length -= part;
    }
}

/* Sends the first part of a reply, and no more. */
static void put_half(struct guest *guest, const char *bytes)
{
    struct front *front = guest->front;

    put(guest, bytes, (size_t)front->half);
    front->half = -1;
    if (front->ends == CLOSED_WITH_NOTIFY) {
        secure_put_end(guest->secure);
    }
    flush(guest);
    end(guest);
}

static void on_answered(struct bufferevent *server, void *arg)
{
    struct guest *guest = arg;
    char bytes[16384];
    size_t length;

    while (guest->ready && !guest->dead && !guest->ending &&
           (length = bufferevent_read(server, bytes, sizeof(bytes))) > 0) {
        if (guest->front->half >= 0 && (size_t)guest->front->half < length) {
            put_half(guest, bytes);
        } else {
            put(guest, bytes, length);
            flush(guest);
        }
    }
}

static void go_on_and_on(struct guest *guest)
{
    struct evbuffer *output = bufferevent_get_output(guest->client);
    const char *endless = guest->front->endless;

    while (guest->ready && endless != NULL && !guest->dead &&
           evbuffer_get_length(output) < AHEAD) {
        put(guest, endless, strlen(endless));
        flush(guest);
    }
}

static void on_drained(struct bufferevent *client, void *arg)
{
    struct guest *guest = arg;

    (void)client;
    if (guest->ending) {
        dismiss(guest, guest->front->ends == RESET);
    } else {
        go_on_and_on(guest);
    }
}

/* ---- from the client ---- */

static void shaken(struct guest *guest)
{
    guest->ready = true;
    if (guest->front->endless != NULL) {
        go_on_and_on(guest);
    } else {
        on_answered(guest->server, guest);
    }
}

static void on_request(struct bufferevent *client, void *arg)
{
    struct guest *guest = arg;
    char bytes[16384];
    ssize_t length = (ssize_t)bufferevent_read(client, bytes, sizeof(bytes));

    if (guest->front->hole || guest->ending) {
        return;
    }
    secure_feed(guest->secure, bytes, (size_t)length);
    while ((length = secure_take(guest->secure, bytes, sizeof(bytes))) > 0) {
        if (guest->front->endless == NULL) {
            bufferevent_write(guest->server, bytes, (size_t)length);
        }
    }
    flush(guest);
    if (!guest->dead && length == 0) {
        end(guest);
    } else if (!guest->dead && !guest->ready && secure_ready(guest->secure)) {
        shaken(guest);
    }
}

static void on_end(struct bufferevent *side, short what, void *arg)
{
    struct guest *guest = arg;

    (void)side;
    if ((what & BEV_EVENT_CONNECTED) == 0) {
        dismiss(guest, false);
    }
}

/* ---- connections ---- */

static void note_message(int sent, int version, int type, const void *bytes,
                         size_t length, SSL *ssl, void *arg)
{
    struct front *front = arg;

    (void)version, (void)ssl;
    if (!sent && type == SSL3_RT_HANDSHAKE && length > 0) {
        front->updated += *(const unsigned char *)bytes == SSL3_MT_KEY_UPDATE;
        front->greeted += *(const unsigned char *)bytes == SSL3_MT_CLIENT_HELLO;
    }
}

static void on_connection(evutil_socket_t listening, short what, void *arg)
{
    struct front *front = arg;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct guest *guest = calloc(1, sizeof(*guest));
    int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)what;
    assert_non_null(guest);
    guest->front = front;
    guest->next = front->guests;
    front->guests = guest;
    front->accepted++;
    if (front->says != NULL) {
        (void)send(fd, front->says, front->says_length, MSG_NOSIGNAL);
    }
    guest->secure = secure_new("server");
    SSL_set_msg_callback(secure_ssl(guest->secure), note_message);
    SSL_set_msg_callback_arg(secure_ssl(guest->secure), front);
    if (front->prepare != NULL) {
        front->prepare(secure_ssl(guest->secure));
    }
    guest->client = bufferevent_socket_new(stage.base, fd, BEV_OPT_CLOSE_ON_FREE);
    guest->server = bufferevent_socket_new(stage.base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(guest->client, on_request, on_drained, on_end, guest);
    bufferevent_setcb(guest->server, on_answered, NULL, on_end, guest);
    bufferevent_enable(guest->client, EV_READ | EV_WRITE);
    bufferevent_enable(guest->server, EV_READ | EV_WRITE);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", stage.server.path);
    (void)bufferevent_socket_connect(guest->server, (struct sockaddr *)&address,
                                     sizeof(address));
}

static void stop(struct front *front)
{
    struct guest *guest;

    front_cut(front);
    event_base_loop(stage.base, EVLOOP_NONBLOCK); /* libevent frees them there */
    while ((guest = front->guests) != NULL) {
        front->guests = guest->next;
        free(guest);
    }
    close(event_get_fd(front->listening));
    event_free(front->listening);
    free(front);
}

static void stop_all(bool in_good_order)
{
    struct front *front;

    (void)in_good_order;
    while ((front = fronts) != NULL) {
        fronts = front->next;
        stop(front);
    }
}

struct front *front_start(void (*prepare)(SSL *ssl))
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct front *front = calloc(1, sizeof(*front));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_non_null(front);
    (void)signal(SIGPIPE, SIG_IGN); /* caused by libevent; secured.c tests the library */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    *front = (struct front){.next = fronts,
                            .prepare = prepare,
                            .half = -1,
                            .left = -1,
                            .mute = -1,
                            .port = ntohs(address.sin_port)};
    fronts = front;
    front->listening =
        event_new(stage.base, fd, EV_READ | EV_PERSIST, on_connection, front);
    event_add(front->listening, NULL);
    stage_at_exit(stop_all);
    return front;
}

/* ---- faults ---- */

static void each(struct front *front, void (*what)(SSL *ssl))
{
    for (struct guest *guest = front->guests; guest != NULL; guest = guest->next) {
        if (!guest->dead && guest->ready) {
            what(secure_ssl(guest->secure));
            flush(guest);
        }
    }
}

static void update_keys(SSL *ssl)
{
    assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(ssl), 1);
}

void front_update_keys(struct front *front)
{
    each(front, update_keys);
}

static void renegotiate(SSL *ssl)
{
    assert_int_equal(SSL_renegotiate(ssl), 1);
    assert_int_equal(SSL_do_handshake(ssl), 1);
}

void front_renegotiate(struct front *front)
{
    each(front, renegotiate);
}

void front_read(struct front *front, bool on)
{
    for (struct guest *guest = front->guests; guest != NULL; guest = guest->next) {
        if (!guest->dead) {
            (on ? bufferevent_enable : bufferevent_disable)(guest->client, EV_READ);
        }
    }
}

void front_say(struct front *front, const char *bytes, size_t length)
{
    for (struct guest *guest = front->guests; guest != NULL; guest = guest->next) {
        if (!guest->dead && guest->ready) {
            put(guest, bytes, length);
            flush(guest);
        }
    }
}

void front_say_raw(struct front *front, const char *bytes, size_t length)
{
    for (struct guest *guest = front->guests; guest != NULL; guest = guest->next) {
        if (!guest->dead) {
            bufferevent_write(guest->client, bytes, length);
        }
    }
}

void front_cut(struct front *front)
{
    for (struct guest *guest = front->guests; guest != NULL; guest = guest->next) {
        dismiss(guest, true);
    }
}
