/* SPDX-License-Identifier: MIT */
/*
 * The addresses of a host in a file like /etc/hosts. libc only. evdns reads such a file
 * too, but only once, and answers from it in a way that is not safe to free in the
 * middle.
 */
#ifndef LW_HOSTS_H
#define LW_HOSTS_H
#include <netinet/in.h>
#include <stddef.h>

#define LW__ADDRESSES 8

struct lw__addresses {
    size_t count;
    char text[LW__ADDRESSES][INET6_ADDRSTRLEN];
};

/* Adds the numeric address unless it is there already or there is no more room. */
void lw__addresses_add(struct lw__addresses *addresses, const char *text);
/* Adds what the file says of the host; nothing where it cannot be read. */
void lw__hosts_find(const char *file, const char *host, struct lw__addresses *ret);
#endif
