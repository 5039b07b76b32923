/* SPDX-License-Identifier: MIT */
/* The addresses of a host in a file like /etc/hosts. libc only. evdns reads such a file
 * too, but only once, and answers from it in a way that is not safe to free in the
 * middle. */
#ifndef LW_HOSTS_H
#define LW_HOSTS_H

struct lw__addresses;

/* Adds what the file says of the host; nothing where it cannot be read. */
void lw__hosts_find(const char *file, const char *host, struct lw__addresses *ret);
#endif
