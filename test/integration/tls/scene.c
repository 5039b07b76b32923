/* SPDX-License-Identifier: MIT */
/* Implements scene.h. Usual course of the relay: it accepts, and connects to the target.
 * A lane reads at most `chunk` bytes on one side, and writes them to the other before it
 * reads on. */
#include "tls/scene.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 256 /* among which sockets are looked for */

const char *tls_file(const char *name)
{
    static char paths[4][300];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", getenv("LOCKWIRE_CERTIFICATES"),
                   name);
    return path;
}

static bool set(struct server *server, const char *name, const char *value)
{
    redisReply *reply = server_try(server, "CONFIG SET %s %s", name, value);
    bool good = reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return good;
}

void tls_show(struct server *server, const char *certificate, bool ask)
{
    char file[64];

    (void)snprintf(file, sizeof(file), "%s.pem", certificate);
    if (!set(server, "tls-auth-clients", ask ? "yes" : "no")) {
        skip();
    }
    assert_true(set(server, "tls-key-file", tls_file("server.key")));
    assert_true(set(server, "tls-ca-cert-file", tls_file("ca.pem")));
    assert_true(set(server, "tls-cert-file", tls_file(file)));
}

/* The server reads the files if they change while it listens, or when it begins to. */
int tls_begin_to_listen(struct server *server)
{
    int port = server_free_port();
    char number[16];

    (void)snprintf(number, sizeof(number), "%d", port);
    assert_true(set(server, "bind", "127.0.0.1 -::1")); /* both are localhost */
    assert_true(set(server, "tls-port", number));
    return port;
}

int tls_listen(const char *certificate, bool ask)
{
    static int port;

    tls_show(&stage.server, certificate, ask);
    if (port == 0) {
        port = tls_begin_to_listen(&stage.server);
    }
    return port;
}

struct peer *tls_start_at(const char *label, const char *host, int port,
                          const struct lw_client_options *options)
{
    struct lw_client_options all = LW_CLIENT_OPTIONS_INIT;
    char url[300];

    if (options != NULL) {
        all = *options;
    } else {
        all.local_turns = 1;
    }
    if (all.tls_ca == NULL) {
        all.tls_ca = tls_file("ca.pem");
    }
    if (all.backoff_max_ms == 0) {
        all.backoff_max_ms = 100;
    }
    (void)snprintf(url, sizeof(url), "rediss://%s:%d", host, port);
    return peer_start_at(label, url, &all);
}

struct peer *tls_start(const char *label, int port,
                       const struct lw_client_options *options)
{
    return tls_start_at(label, "127.0.0.1", port, options);
}

void assert_down(struct peer *peer, const char *text)
{
    int before = peer->downs;

    UNTIL(peer->downs >= before + 2);
    if (strstr(peer->why, text) == NULL) {
        stage_fail("why: \"%s\" does not say %s", peer->why, text);
    }
    assert_false(peer->up);
    /* The host might take such an error for one of its own. */
    assert_int_equal(ERR_peek_error(), 0);
}

static bool leads_to(int fd, int port)
{
    struct sockaddr_in peer = {0};
    socklen_t size = sizeof(peer);

    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == port;
}

int shut_writing(int port)
{
    int count = 0;

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        count += leads_to(fd, port) && shutdown(fd, SHUT_WR) == 0;
    }
    return count;
}

void make_narrow(int port)
{
    int least = 1;

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        if (leads_to(fd, port)) {
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
        }
    }
}

/* The relay. */

struct lane {
    struct lane *next, *other;
    struct relay *relay;
    struct event *readable;
    int fd;
    bool to_client, dead;
    size_t body;        /* bytes of a record that are still to come */
    unsigned long head; /* of the next record, as far as it has come */
    int heads;          /* bytes of the head that have come */
};

static struct relay *relays;

static void end(struct lane *lane, bool reset)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    if (lane->dead) {
        return;
    }
    lane->dead = true;
    event_free(lane->readable);
    if (reset) {
        setsockopt(lane->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    close(lane->fd);
    end(lane->other, reset);
}

static bool pass(int fd, const char *bytes, ssize_t length)
{
    while (length > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        ssize_t written = send(fd, bytes, (size_t)length, MSG_NOSIGNAL);
        if (written < 0 && (errno != EAGAIN || poll(&wait, 1, 10000) != 1)) {
            return false;
        }
        if (written > 0) {
            bytes += written;
            length -= written;
        }
    }
    return true;
}

/* Each record begins with five bytes, of which the last two are the length of the
 * rest. */
static void count_records(struct lane *lane, const char *bytes, size_t length)
{
    for (size_t step; length > 0; bytes += step, length -= step) {
        step = lane->body < length ? lane->body : length;
        lane->body -= step;
        if (step == 0) {
            step = 1;
            lane->head = lane->head << 8 | (unsigned char)*bytes;
            lane->heads++;
        }
        if (lane->heads == 5) {
            lane->body = lane->head & 0xffff;
            lane->heads = 0;
            lane->relay->records++;
        }
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;
    struct relay *relay = lane->relay;
    char bytes[16384];
    size_t most = relay->chunk > 0 ? relay->chunk : sizeof(bytes);
    ssize_t length;

    (void)what;
    if (lane->to_client && relay->left >= 0 && most > (size_t)relay->left) {
        most = (size_t)relay->left;
    }
    length = most > 0 ? recv(fd, bytes, most, 0) : 0;
    if (length <= 0) {
        end(lane, false);
        return;
    }
    if (relay->says != NULL && !lane->to_client) {
        (void)pass(lane->fd, relay->says, (ssize_t)strlen(relay->says));
        end(lane, false);
        return;
    }
    if (lane->to_client && relay->left >= 0) {
        relay->left -= length;
    }
    if (!lane->to_client) {
        count_records(lane, bytes, (size_t)length);
    }
    if (!relay->hole) {
        relay->given += lane->to_client ? 1 : 0;
        if (!pass(lane->other->fd, bytes, length)) {
            end(lane, false);
        }
    }
}

static struct lane *lane_new(struct relay *relay, int fd, bool to_client)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    int on = 1;

    assert_non_null(lane);
    *lane = (struct lane){
        .next = relay->lanes, .relay = relay, .fd = fd, .to_client = to_client};
    relay->lanes = lane;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    evutil_make_socket_nonblocking(fd);
    lane->readable = event_new(stage.base, fd, EV_READ | EV_PERSIST, on_readable, lane);
    event_add(lane->readable, NULL);
    return lane;
}

static void on_connection(evutil_socket_t listening, short what, void *arg)
{
    struct relay *relay = arg;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)relay->target),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int client = accept(listening, NULL, NULL);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct lane *up, *down;

    (void)what;
    if (client < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)) < 0) {
        stage_complain("the relay cannot connect: %s", strerror(errno));
        return;
    }
    relay->accepted++;
    up = lane_new(relay, client, false);
    down = lane_new(relay, server, true);
    up->other = down;
    down->other = up;
    if (relay->greets != NULL) {
        (void)pass(client, relay->greets, (ssize_t)strlen(relay->greets));
    }
    if (relay->on_accept != NULL) {
        relay->on_accept(relay);
    }
}

static void stop(struct relay *relay)
{
    struct lane *lane;

    relay_cut(relay);
    while ((lane = relay->lanes) != NULL) {
        relay->lanes = lane->next;
        free(lane);
    }
    close(event_get_fd(relay->listening));
    event_free(relay->listening);
    free(relay);
}

static void stop_all(bool in_good_order)
{
    struct relay *relay;

    (void)in_good_order;
    while ((relay = relays) != NULL) {
        relays = relay->next;
        stop(relay);
    }
}

struct relay *relay_start(int target)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct relay *relay = calloc(1, sizeof(*relay));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_non_null(relay);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    *relay = (struct relay){
        .next = relays, .port = ntohs(address.sin_port), .target = target, .left = -1};
    relays = relay;
    relay->listening =
        event_new(stage.base, fd, EV_READ | EV_PERSIST, on_connection, relay);
    event_add(relay->listening, NULL);
    stage_at_exit(stop_all);
    return relay;
}

void relay_hold(struct relay *relay, bool on)
{
    for (struct lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        if (lane->to_client && !lane->dead && on) {
            event_del(lane->readable);
        } else if (lane->to_client && !lane->dead) {
            struct pollfd there = {.fd = lane->fd, .events = POLLIN};
            event_add(lane->readable, NULL);
            if (poll(&there, 1, 0) == 1) {
                on_readable(lane->fd, EV_READ, lane);
            }
        }
    }
}

void relay_cut(struct relay *relay)
{
    for (struct lane *lane = relay->lanes; lane != NULL; lane = lane->next) {
        end(lane, true);
    }
}
