/* SPDX-License-Identifier: MIT */
/* Endpoints: see endpoint.h. Independent of where they come from. */
#include "redis/endpoint.h"

#include "base/address.h"

#include <string.h>
#include <strings.h>

bool lw__endpoint_equal(const struct lw__endpoint *a, const struct lw__endpoint *b)
{
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

bool lw__endpoint_read_host(const char *text, size_t length, char ret[LW__HOST_SIZE])
{
    static const char legal[] = "%:abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._";
    struct lw__address address;

    if (length >= LW__HOST_SIZE || (length > 0 && *text == '.')) {
        return false;
    }
    memcpy(ret, text, length);
    ret[length] = '\0';
    return strspn(ret, legal) == length &&
           (strpbrk(ret, "%:") == NULL || lw__address_parse(ret, &address));
}
