/* SPDX-License-Identifier: MIT */
/*
 * Opens sockets, TCP and unix, that do not block, are not inherited and raise no signal.
 * Must not know what is said over them.
 * Happy path: lw__dial, wait until writable, lw__dial_result, lw__dial_write.
 */
#include "dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE does it there */
#endif

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un path;
};

void lw__dial_name(const struct lw__link_options *options, char *ret, size_t size)
{
    if (options->host == NULL) {
        (void)snprintf(ret, size, "%s", options->path);
    } else {
        bool v6 = strchr(options->host, ':') != NULL;
        (void)snprintf(ret, size, "%s%s%s:%u", v6 ? "[" : "", options->host,
                       v6 ? "]" : "", (unsigned)options->port);
    }
}

/* An IPv6 address, with a zone after a '%' if there is one. */
static bool fill_v6(const char *host, struct sockaddr_in6 *ret)
{
    char address[INET6_ADDRSTRLEN];
    const char *zone = strchr(host, '%');
    size_t length = zone != NULL ? (size_t)(zone - host) : strlen(host);

    if (length >= sizeof(address)) {
        return false;
    }
    memcpy(address, host, length);
    address[length] = '\0';
    if (zone != NULL) {
        ret->sin6_scope_id = if_nametoindex(zone + 1);
        if (ret->sin6_scope_id == 0) {
            ret->sin6_scope_id = (uint32_t)strtoul(zone + 1, NULL, 10);
        }
    }
    return inet_pton(AF_INET6, address, &ret->sin6_addr) == 1;
}

/* The address' length; 0: not a numeric address, or too long a path. */
static socklen_t fill(const struct lw__link_options *options, union address *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (options->host == NULL) {
        size_t length = strlen(options->path);
        if (length >= sizeof(ret->path.sun_path)) {
            return 0;
        }
        ret->path.sun_family = AF_UNIX;
        memcpy(ret->path.sun_path, options->path, length + 1);
        return sizeof(ret->path);
    }
    if (inet_pton(AF_INET, options->host, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(options->port);
        return sizeof(ret->v4);
    }
    if (fill_v6(options->host, &ret->v6)) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(options->port);
        return sizeof(ret->v6);
    }
    return 0;
}

/* A socket that neither blocks nor is inherited. */
static int open_socket(int family)
{
#if defined(SOCK_CLOEXEC) && defined(SOCK_NONBLOCK)
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
    int fd = socket(family, SOCK_STREAM, 0);

    if (fd >= 0) { /* of a new descriptor neither can fail */
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    return fd;
#endif
}

/* Without these it works, only worse. */
static void tune(int fd, bool tcp)
{
    int on = 1;

#ifdef SO_NOSIGPIPE
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
#endif
    if (tcp) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
}

int lw__dial(const struct lw__link_options *options)
{
    union address address;
    socklen_t length = fill(options, &address);
    int fd;

    if (length == 0) {
        return -EINVAL;
    }
    fd = open_socket(address.any.sa_family);
    if (fd < 0) {
        return -errno;
    }
    tune(fd, address.any.sa_family != AF_UNIX);
    if (connect(fd, &address.any, length) < 0 && errno != EINPROGRESS) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

bool lw__dial_decided(int fd)
{
    struct pollfd wait = {fd, POLLOUT, 0};

    return poll(&wait, 1, 0) == 1;
}

int lw__dial_result(int fd)
{
    int error = 0;
    socklen_t length = sizeof(error);

    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length); /* fails for no socket */
    return error;
}

ssize_t lw__dial_write(int fd, const char *bytes, size_t length)
{
    return send(fd, bytes, length, MSG_NOSIGNAL);
}
