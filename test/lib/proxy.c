/* SPDX-License-Identifier: MIT */
/*
 * proxy.h's proxy. Independent of what passes through it, except for the words SUBSCRIBE
 * and message.
 *
 * Usual course: it accepts, and connects to the target. Bytes that are read on one side
 * become a parcel with a due time, which is written to the other side when it is due and
 * not held.
 */
#include "proxy.h"
#include "secure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WRITE_LIMIT_MS 10000

struct parcel {
    struct parcel *next;
    int64_t due_ms;
    size_t length;
    char bytes[];
};

struct lane {
    struct proxy_pair *pair;
    enum proxy_way way;
    int from, to;
    struct event *readable, *timer;
    struct parcel *first, **last;
    bool ended; /* end of file; passed on after the last parcel */
};

struct proxy_pair {
    struct proxy_pair *next;
    struct proxy *proxy;
    const char *target;
    enum proxy_kind kind;
    uint64_t host;         /* the bit of the client's address; 0: another one */
    struct secure *secure; /* the client's side; NULL: without TLS */
    struct lane lanes[PROXY_WAYS];
    bool deserted; /* the client's side is closed */
    bool dead;     /* closed, to be freed at a safe moment */
};

static void drop_parcels(struct lane *lane)
{
    event_del(lane->timer);
    while (lane->first != NULL) {
        struct parcel *parcel = lane->first;
        lane->first = parcel->next;
        free(parcel);
    }
    lane->last = &lane->first;
}

static void close_side(int fd, bool reset)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    if (reset) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    close(fd);
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t count = send(fd, bytes, length, MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            if (poll(&wait, 1, WRITE_LIMIT_MS) != 1) {
                return false;
            }
        } else if (count < 0) {
            return false;
        } else {
            bytes += count;
            length -= (size_t)count;
        }
    }
    return true;
}

/* Sends the bytes that TLS has for the client. Returns false if the client does not take
 * them. */
static bool flush_secure(struct proxy_pair *pair)
{
    char bytes[16384];
    size_t length;

    while ((length = secure_fetch(pair->secure, bytes, sizeof(bytes))) > 0) {
        if (!write_all(pair->lanes[TO_CLIENT].to, bytes, length)) {
            return false;
        }
    }
    return true;
}

static bool pass_on(struct lane *lane, const struct parcel *parcel)
{
    if (lane->way == TO_SERVER || lane->pair->secure == NULL) {
        return write_all(lane->to, parcel->bytes, parcel->length);
    }
    secure_put(lane->pair->secure, parcel->bytes, parcel->length);
    return flush_secure(lane->pair);
}

static void end_secure(struct proxy_pair *pair, bool reset)
{
    if (pair->secure != NULL && !pair->deserted && !reset) {
        secure_put_end(pair->secure);
        (void)flush_secure(pair);
    }
    secure_free(pair->secure);
    pair->secure = NULL;
}

static void close_pair(struct proxy_pair *pair, bool reset)
{
    if (pair->dead) {
        return;
    }
    end_secure(pair, reset);
    for (int way = 0; way < PROXY_WAYS; way++) {
        struct lane *lane = &pair->lanes[way];
        drop_parcels(lane);
        event_free(lane->readable);
        event_free(lane->timer);
    }
    if (!pair->deserted) {
        close_side(pair->lanes[TO_SERVER].from, reset);
    }
    close_side(pair->lanes[TO_CLIENT].from, reset);
    pair->dead = true;
    pair->proxy->open--;
}

static void desert(struct proxy_pair *pair)
{
    if (pair->dead || pair->deserted) {
        return;
    }
    event_del(pair->lanes[TO_SERVER].readable);
    drop_parcels(&pair->lanes[TO_SERVER]);
    drop_parcels(&pair->lanes[TO_CLIENT]);
    close_side(pair->lanes[TO_SERVER].from, true);
    pair->deserted = true;
}

static void sweep(struct proxy *proxy)
{
    for (struct proxy_pair **at = &proxy->pairs, *pair; (pair = *at) != NULL;) {
        if (!pair->dead) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        free(pair);
    }
}

static const struct proxy_rule *rule_of(const struct lane *lane)
{
    return &lane->pair->proxy->rules[lane->pair->kind][lane->way];
}

/* A server may send first, before the client has completed the TLS handshake. */
static bool is_held(const struct lane *lane)
{
    const struct proxy_pair *pair = lane->pair;

    return rule_of(lane)->hold || (pair->proxy->apart & pair->host) != 0 ||
           (lane->way == TO_CLIENT && pair->secure != NULL &&
            !secure_ready(pair->secure));
}

/* Passes on the parcels that are due. */
static void forward(struct lane *lane)
{
    int64_t now = now_ms();

    while (lane->first != NULL && !is_held(lane) && lane->first->due_ms <= now) {
        struct parcel *parcel = lane->first;
        lane->first = parcel->next;
        if (lane->first == NULL) {
            lane->last = &lane->first;
        }
        bool good = pass_on(lane, parcel);
        free(parcel);
        if (!good) {
            close_pair(lane->pair, false);
            return;
        }
    }
    if (lane->first != NULL && !is_held(lane)) {
        int64_t wait = lane->first->due_ms - now;
        struct timeval after = {wait / 1000, (wait % 1000) * 1000};
        event_add(lane->timer, &after);
    } else if (lane->first == NULL && lane->ended) {
        close_pair(lane->pair, false);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    forward(arg);
}

static void note_subscription(struct proxy_pair *pair)
{
    struct proxy *proxy = pair->proxy;

    pair->kind = SUBSCRIPTION;
    proxy->subscriptions++;
    if (proxy->listen != NULL && strcmp(proxy->listen, pair->target) != 0) {
        close_pair(pair, true);
    }
}

static void note_words(struct lane *lane, const char *bytes, size_t length)
{
    struct proxy_pair *pair = lane->pair;

    if (lane->way == TO_CLIENT) {
        pair->proxy->messages += memmem(bytes, length, "\nmessage\r", 9) != NULL;
    } else if (pair->kind == COMMANDS &&
               memmem(bytes, length, "\nSUBSCRIBE\r", 11) != NULL) {
        note_subscription(pair);
    }
}

static void take_parcel(struct lane *lane, const char *bytes, size_t length)
{
    struct parcel *parcel;

    note_words(lane, bytes, length);
    lane->pair->proxy->bytes[lane->pair->kind][lane->way] += (long long)length;
    if (rule_of(lane)->swallow || lane->pair->dead) {
        return;
    }
    parcel = malloc(sizeof(*parcel) + length);
    if (parcel == NULL) {
        abort();
    }
    *parcel =
        (struct parcel){.due_ms = now_ms() + rule_of(lane)->delay_ms, .length = length};
    memcpy(parcel->bytes, bytes, length);
    *lane->last = parcel;
    lane->last = &parcel->next;
    forward(lane);
}

static void end_lane(struct lane *lane)
{
    lane->ended = true;
    event_del(lane->readable);
    forward(lane);
}

/* Takes the plain text out of the client's bytes. In a black hole there is no
 * handshake. */
static void take_secured(struct lane *lane, const char *raw, size_t length)
{
    struct proxy_pair *pair = lane->pair;
    bool ready = secure_ready(pair->secure);
    char bytes[16384];
    ssize_t count;

    if (!ready && rule_of(lane)->swallow) {
        return;
    }
    secure_feed(pair->secure, raw, length);
    do {
        count = secure_take(pair->secure, bytes, sizeof(bytes));
        if (!flush_secure(pair)) {
            count = 0;
        }
        if (count > 0) {
            take_parcel(lane, bytes, (size_t)count);
        }
    } while (count > 0 && !pair->dead);
    if (!pair->dead && count == 0) {
        end_lane(lane);
    } else if (!pair->dead && !ready && secure_ready(pair->secure)) {
        forward(&pair->lanes[TO_CLIENT]);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct lane *lane = arg;
    char bytes[16384];
    ssize_t count = recv(fd, bytes, sizeof(bytes), 0);

    (void)what;
    if (count < 0 && errno == EAGAIN) {
        return;
    }
    if (count <= 0) {
        end_lane(lane);
    } else if (lane->pair->deserted) {
        return;
    } else if (lane->way == TO_SERVER && lane->pair->secure != NULL) {
        take_secured(lane, bytes, (size_t)count);
    } else {
        take_parcel(lane, bytes, (size_t)count);
    }
}

static void open_lane(struct proxy_pair *pair, enum proxy_way way, int from, int to)
{
    struct lane *lane = &pair->lanes[way];

    *lane = (struct lane){.pair = pair, .way = way, .from = from, .to = to};
    lane->last = &lane->first;
    lane->timer = evtimer_new(stage.base, on_timer, lane);
    lane->readable = event_new(stage.base, from, EV_READ | EV_PERSIST, on_readable, lane);
    if (lane->timer == NULL || lane->readable == NULL ||
        event_add(lane->readable, NULL) < 0) {
        abort();
    }
}

static const char *next_target(const struct proxy *proxy)
{
    return proxy->other != NULL && proxy->accepted % 2 == 0 ? proxy->other
                                                            : proxy->target;
}

/* Returns n for 127.0.0.<n>, and a larger number for any other address. A connection on a
 * unix socket is a client's, and counts as 1. */
static uint32_t host_of(int client)
{
    struct sockaddr_in from = {0};
    socklen_t size = sizeof(from);

    if (getpeername(client, (struct sockaddr *)&from, &size) < 0 ||
        from.sin_family != AF_INET) {
        return 1;
    }
    return ntohl(from.sin_addr.s_addr) - (INADDR_LOOPBACK - 1);
}

static void note_origin(struct proxy_pair *pair, int client)
{
    uint32_t host = host_of(client);

    pair->kind = host == 1 ? COMMANDS : SERVERS;
    pair->host = host < 64 ? (uint64_t)1 << host : 0;
}

/* Returns -1 if the server does not listen. */
static int connect_unix(const char *path)
{
    struct sockaddr_un target = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(target.sun_path, sizeof(target.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&target, sizeof(target)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int connect_port(int port)
{
    struct sockaddr_in target = {.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        connect(fd, (struct sockaddr *)&target, sizeof(target)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void open_pair(struct proxy *proxy, int client, int server, const char *path)
{
    struct proxy_pair *pair = calloc(1, sizeof(*pair));

    if (pair == NULL) {
        abort();
    }
    pair->proxy = proxy;
    pair->target = path;
    note_origin(pair, client);
    pair->secure = secure_wanted() && proxy->target_port == 0 ? secure_new("server")
                                                              : NULL;
    pair->next = proxy->pairs;
    proxy->pairs = pair;
    proxy->open++;
    open_lane(pair, TO_SERVER, client, server);
    open_lane(pair, TO_CLIENT, server, client);
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
    struct proxy *proxy = arg;
    const char *path;
    int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), server = -1;

    (void)what;
    sweep(proxy);
    if (client < 0) {
        return;
    }
    proxy->accepted++;
    path = next_target(proxy);
    if (!proxy->refusing) {
        server = proxy->target_port != 0 ? connect_port(proxy->target_port)
                                         : connect_unix(path);
    }
    if (server < 0) {
        close(client);
        return;
    }
    evutil_make_socket_nonblocking(server);
    open_pair(proxy, client, server, path);
}

static int listen_tcp(struct proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    proxy->keeper = server_reserve_port(&proxy->port);
    address.sin_port = htons((uint16_t)proxy->port);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 || /* inherited */
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 64) < 0) {
        stage_fail("proxy: %s", strerror(errno));
    }
    (void)snprintf(proxy->url, sizeof(proxy->url), "redis%s://127.0.0.1:%d",
                   secure_wanted() ? "s" : "", proxy->port);
    return fd;
}

static int listen_unix(struct proxy *proxy)
{
    static int number;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)snprintf(proxy->path, sizeof(proxy->path), "%s/proxy-%d", stage.server.dir,
                   ++number);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", proxy->path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 64) < 0) {
        stage_fail("proxy: %s", strerror(errno));
    }
    (void)snprintf(proxy->url, sizeof(proxy->url), "unix://%s", proxy->path);
    return fd;
}

static struct proxy *proxies;

void proxy_stop(struct proxy *proxy)
{
    if (proxy->listening == NULL) {
        return;
    }
    for (struct proxy_pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        close_pair(pair, false);
    }
    sweep(proxy);
    int fd = event_get_fd(proxy->listening);
    event_free(proxy->listening);
    proxy->listening = NULL;
    close(fd);
    if (proxy->path[0]) {
        unlink(proxy->path);
    }
}

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    while (proxies != NULL) {
        struct proxy *proxy = proxies;
        proxy_stop(proxy);
        proxies = proxy->next;
        if (proxy->keeper > 0) {
            close(proxy->keeper);
        }
        free(proxy);
    }
}

static struct proxy *start(struct proxy wanted, bool tcp)
{
    struct proxy *proxy = malloc(sizeof(*proxy));

    if (proxy == NULL) {
        stage_fail("proxy: memory");
    }
    *proxy = wanted;
    stage_at_exit(all_leave);
    int fd = tcp || secure_wanted() ? listen_tcp(proxy) : listen_unix(proxy);
    proxy->listening =
        event_new(stage.base, fd, EV_READ | EV_PERSIST, on_connection, proxy);
    if (proxy->listening == NULL || event_add(proxy->listening, NULL) < 0) {
        stage_fail("proxy: memory");
    }
    proxy->next = proxies;
    proxies = proxy;
    return proxy;
}

struct proxy *proxy_start(const char *target, bool tcp)
{
    return start((struct proxy){.target = target}, tcp);
}

struct proxy *proxy_start_at_port(int target_port)
{
    return start((struct proxy){.target_port = target_port}, true);
}

/* ---- the rules ---- */

void proxy_lead(struct proxy *proxy, const char *target, const char *other)
{
    proxy->target = target;
    proxy->other = other;
}

void proxy_listen_only(struct proxy *proxy, const char *target)
{
    proxy->listen = target;
}

void proxy_desert(struct proxy *proxy, enum proxy_kind kind)
{
    for (struct proxy_pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        if (pair->kind == kind) {
            desert(pair);
        }
    }
}

void proxy_delay(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way,
                 int64_t ms)
{
    proxy->rules[kind][way].delay_ms = ms;
}

void proxy_hold(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way, bool on)
{
    proxy->rules[kind][way].hold = on;
    for (struct proxy_pair *pair = proxy->pairs; !on && pair != NULL; pair = pair->next) {
        if (!pair->dead && pair->kind == kind) {
            forward(&pair->lanes[way]);
        }
    }
}

void proxy_part(struct proxy *proxy, int host, bool on)
{
    uint64_t bit = (uint64_t)1 << host;

    proxy->apart = on ? proxy->apart | bit : proxy->apart & ~bit;
    for (struct proxy_pair *pair = proxy->pairs; !on && pair != NULL; pair = pair->next) {
        for (int way = 0; way < PROXY_WAYS && pair->host == bit; way++) {
            if (!pair->dead) {
                forward(&pair->lanes[way]);
            }
        }
    }
}

void proxy_swallow(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way, bool on)
{
    proxy->rules[kind][way].swallow = on;
}

void proxy_black_hole(struct proxy *proxy, bool on)
{
    for (int kind = 0; kind < PROXY_KINDS; kind++) {
        for (int way = 0; way < PROXY_WAYS; way++) {
            proxy->rules[kind][way].swallow = on;
        }
    }
}

void proxy_cut(struct proxy *proxy, enum proxy_kind kind)
{
    for (struct proxy_pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        if (pair->kind == kind) {
            close_pair(pair, true);
        }
    }
}

void proxy_refuse(struct proxy *proxy, bool on)
{
    proxy->refusing = on;
}

int proxy_count(const struct proxy *proxy, enum proxy_kind kind)
{
    int count = 0;

    for (const struct proxy_pair *pair = proxy->pairs; pair != NULL; pair = pair->next) {
        count += !pair->dead && pair->kind == kind;
    }
    return count;
}
