/* SPDX-License-Identifier: MIT */
/* Where a server is, as sentinels and cluster nodes report it. */
#ifndef LW_ENDPOINT_H
#define LW_ENDPOINT_H
#include "base/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A cluster node's id: 40 characters, as CLUSTER MYID replies; "" if unknown. */
#define LW__NODE_ID_SIZE 41

struct lw__endpoint {
    char host[LW__HOST_SIZE]; /* a name or an address */
    uint16_t port;
};

bool lw__endpoint_equal(const struct lw__endpoint *a, const struct lw__endpoint *b);
/* Reads a host: an address, also one with a zone, a legal name, or "". A name that begins
 * with a dot is refused, because TLS would take it for any name below it. Returns false
 * if it is none of these. */
bool lw__endpoint_read_host(const char *text, size_t length, char ret[LW__HOST_SIZE]);
#endif
