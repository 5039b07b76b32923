/* SPDX-License-Identifier: MIT
 *
 * Sockets to a model server; see transport.h.
 */
#include "transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct peer {
    struct peer *next;
    int fd;
    struct model_conn *conn;
};

struct transport {
    struct model_server *server;
    struct peer *peers;
    int listening[2];
    int listening_count;
};

struct transport *transport_new(struct model_server *server)
{
    struct transport *transport = must_alloc(sizeof(*transport));
    transport->server = server;
    return transport;
}

static bool listen_on(struct transport *transport, const struct sockaddr *address,
                      socklen_t size)
{
    int one = 1;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || transport->listening_count == 2) {
        goto fail;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, address, size) || listen(fd, 128)) {
        goto fail;
    }
    transport->listening[transport->listening_count++] = fd;
    return true;

fail:
    if (fd >= 0) {
        close(fd);
    }
    return false;
}

bool transport_listen_unix(struct transport *transport, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(address.sun_path, path);
    return listen_on(transport, (const struct sockaddr *)&address, sizeof(address));
}

bool transport_listen_tcp(struct transport *transport, int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    return listen_on(transport, (const struct sockaddr *)&address, sizeof(address));
}

void transport_adopt(struct transport *transport, int fd)
{
    struct peer *peer = must_alloc(sizeof(*peer));

    peer->fd = fd;
    peer->conn = model_server_connect(transport->server);
    peer->next = transport->peers;
    transport->peers = peer;
}

static bool accept_all(struct transport *transport)
{
    bool moved = false;

    for (int i = 0; i < transport->listening_count; i++) {
        int fd;
        while ((fd = accept4(transport->listening[i], NULL, NULL,
                             SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
            transport_adopt(transport, fd);
            moved = true;
        }
    }
    return moved;
}

static bool again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Returns false if the peer has closed. */
static bool receive(struct peer *peer, bool *moved)
{
    char piece[16384];
    ssize_t len;

    while ((len = recv(peer->fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0) {
        model_conn_feed(peer->conn, piece, (size_t)len);
        *moved = true;
    }
    return len < 0 && again();
}

/* Returns false if the peer has closed, or has everything and is to be closed. */
static bool transmit(struct peer *peer, bool *moved)
{
    struct bytes output = model_conn_output(peer->conn);
    ssize_t len;

    while (output.len) {
        len = send(peer->fd, output.data, output.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0) {
            return again();
        }
        model_conn_consume(peer->conn, (size_t)len);
        output = model_conn_output(peer->conn);
        *moved = true;
    }
    return !model_conn_closing(peer->conn);
}

static void hang_up(struct peer *peer)
{
    close(peer->fd);
    model_conn_free(peer->conn);
    free(peer);
}

/* Reads from all before it writes to any, so that a message published goes out in the
 * same turn. */
bool transport_pump(struct transport *transport)
{
    bool moved = accept_all(transport);
    struct peer **at = &transport->peers;

    while (*at != NULL) {
        struct peer *peer = *at;
        if (receive(peer, &moved)) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        hang_up(peer);
    }
    for (at = &transport->peers; *at != NULL;) {
        struct peer *peer = *at;
        if (transmit(peer, &moved)) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        hang_up(peer);
    }
    return moved;
}

void transport_wait(struct transport *transport, int timeout_ms)
{
    size_t count = (size_t)transport->listening_count, at = 0;
    struct pollfd *all;

    for (const struct peer *peer = transport->peers; peer != NULL; peer = peer->next) {
        count++;
    }
    all = must_alloc(count * sizeof(*all));
    for (int i = 0; i < transport->listening_count; i++) {
        all[at++] = (struct pollfd){.fd = transport->listening[i], .events = POLLIN};
    }
    for (const struct peer *peer = transport->peers; peer != NULL; peer = peer->next) {
        bool has_output = model_conn_output(peer->conn).len > 0;
        all[at++] = (struct pollfd){
            .fd = peer->fd,
            .events = (short)(POLLIN | (has_output ? POLLOUT : 0)),
        };
    }
    poll(all, (nfds_t)count, timeout_ms);
    free(all);
}

void transport_free(struct transport *transport)
{
    if (transport == NULL) {
        return;
    }
    while (transport->peers != NULL) {
        struct peer *peer = transport->peers;
        transport->peers = peer->next;
        hang_up(peer);
    }
    for (int i = 0; i < transport->listening_count; i++) {
        close(transport->listening[i]);
    }
    free(transport);
}
