/* SPDX-License-Identifier: MIT */
/*
 * Loopback ports that stay reserved for a test while nothing listens there: connections
 * are refused, and never reach a fake of another test that runs at the same time.
 * Test-only.
 *
 * Usual course: fd = keep_port(AF_INET, &port); the fake binds to the port with
 * SO_REUSEADDR, listens, and is closed, as often as the test needs; close(fd).
 */
#ifndef TEST_KEEP_PORT_H
#define TEST_KEEP_PORT_H
#include <stddef.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Returns a socket that reserves *port; if that is 0, any port, which is stored. Returns
 * -1 if the port is not available. */
static inline int keep_port(int family, uint16_t *port)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(*port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(*port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&four
                                                 : (struct sockaddr *)&six;
    socklen_t length = family == AF_INET ? sizeof(four) : sizeof(six);
    int on = 1, fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    /* SO_REUSEADDR is set only afterwards: the port must not be in use */
    if (fd < 0 || bind(fd, address, length) < 0 ||
        getsockname(fd, address, &length) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return -1;
    }
    *port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
    return fd;
}
#endif
