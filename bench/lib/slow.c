/* SPDX-License-Identifier: MIT */
/*
 * Simulates a distant server: forwards connections to a port of 127.0.0.1 to another
 * port, and delays the data in both directions. Owns both sockets of each connection.
 * Independent of the protocol.
 *
 *     bench_slow PORT SERVER_PORT US
 *
 * Listens, prints {"ready": 1}, and delays each piece by US until it is killed. When one
 * side ends a connection, the other side's is ended too.
 */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

struct piece {
    struct piece *next;
    int64_t due_us;
    struct evbuffer *data;
};

/* One direction of a connection. */
struct way {
    struct bufferevent *from, *to;
    struct piece *first, **last;
    struct event *timer;
};

struct pair {
    struct way ways[2];
};

static struct event_base *base;
static struct sockaddr_in server;
static int64_t delay_us;

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void *must(void *made)
{
    if (made == NULL) {
        perror("bench_slow");
        exit(1);
    }
    return made;
}

static void send_first(struct way *way)
{
    struct piece *piece = way->first;

    way->first = piece->next;
    if (way->first == NULL) {
        way->last = &way->first;
    }
    (void)bufferevent_write_buffer(way->to, piece->data);
    evbuffer_free(piece->data);
    free(piece);
}

static void send_due(evutil_socket_t socket, short what, void *arg)
{
    struct way *way = arg;

    (void)socket, (void)what;
    while (way->first != NULL && way->first->due_us <= now_us()) {
        send_first(way);
    }
    if (way->first != NULL) {
        int64_t left = way->first->due_us - now_us();
        struct timeval delay = {.tv_usec = left > 0 ? left % 1000000 : 0,
                                .tv_sec = left > 0 ? left / 1000000 : 0};

        event_add(way->timer, &delay);
    }
}

static void on_read(struct bufferevent *from, void *arg)
{
    struct pair *pair = arg;
    struct way *way = &pair->ways[from == pair->ways[1].from];
    struct piece *piece = must(calloc(1, sizeof(*piece)));

    piece->data = must(evbuffer_new());
    piece->due_us = now_us() + delay_us;
    (void)bufferevent_read_buffer(from, piece->data);
    *way->last = piece;
    way->last = &piece->next;
    if (way->first == piece) {
        send_due(-1, 0, way);
    }
}

static void on_event(struct bufferevent *from, short what, void *arg)
{
    struct pair *pair = arg;

    (void)from;
    if (!(what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        struct way *way = &pair->ways[i];

        while (way->first != NULL) {
            send_first(way);
        }
        event_free(way->timer);
    }
    bufferevent_free(pair->ways[0].from);
    bufferevent_free(pair->ways[1].from);
    free(pair);
}

static struct bufferevent *side(evutil_socket_t socket, struct pair *pair)
{
    struct bufferevent *made =
        must(bufferevent_socket_new(base, socket, BEV_OPT_CLOSE_ON_FREE));

    bufferevent_setcb(made, on_read, NULL, on_event, pair);
    return made;
}

static void set_no_delay(struct bufferevent *of)
{
    int on = 1;

    (void)setsockopt(bufferevent_getfd(of), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t socket,
                      struct sockaddr *address, int length, void *arg)
{
    struct pair *pair = must(calloc(1, sizeof(*pair)));

    (void)listener, (void)address, (void)length, (void)arg;
    struct bufferevent *client = side(socket, pair), *far = side(-1, pair);

    for (int i = 0; i < 2; i++) {
        struct way *way = &pair->ways[i];

        way->from = i == 0 ? client : far;
        way->to = i == 0 ? far : client;
        way->last = &way->first;
        way->timer = must(event_new(base, -1, 0, send_due, way));
    }
    (void)bufferevent_enable(client, EV_READ | EV_WRITE);
    (void)bufferevent_enable(far, EV_READ | EV_WRITE);
    set_no_delay(client);
    if (bufferevent_socket_connect(far, (struct sockaddr *)&server, sizeof(server)) ==
        0) {
        set_no_delay(far);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct event_config *config = event_config_new();

    if (argc != 4) {
        (void)fprintf(stderr, "usage: %s PORT SERVER_PORT US\n", argv[0]);
        return 64;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = address;
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    server.sin_port = htons((uint16_t)atoi(argv[2]));
    delay_us = atoll(argv[3]);
    (void)event_config_set_flag(must(config), EVENT_BASE_FLAG_PRECISE_TIMER);
    base = must(event_base_new_with_config(config));
    event_config_free(config);
    (void)must(evconnlistener_new_bind(base, on_accept, NULL,
                                       LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE, 4096,
                                       (struct sockaddr *)&address, sizeof(address)));
    (void)printf("{\"ready\": 1}\n");
    (void)fflush(stdout);
    return event_base_dispatch(base) < 0;
}
