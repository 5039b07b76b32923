/* SPDX-License-Identifier: MIT */
/* Numeric addresses as text, including IPv6 addresses with a zone ("fe80::1%eth0"), and
 * lists of them. Depends on libc alone. */
#ifndef LW_ADDRESS_H
#define LW_ADDRESS_H
#include <stdbool.h>
#include <stddef.h>

#define LW__ADDRESSES 8 /* the most for one name */

struct lw__address {
    char text[62]; /* 45 characters, '%', the name of an interface (15), NUL */
};

struct lw__addresses {
    size_t count;
    struct lw__address list[LW__ADDRESSES];
};

/* Returns false if `text` is not a numeric address. A zone may be any word that is not
 * longer than the name of an interface. */
bool lw__address_parse(const char *text, struct lw__address *ret);
/* Returns true if it is a numeric loopback address, or the name localhost. */
bool lw__address_is_loopback(const char *text);
/* Returns true if this numeric address is one of this host's, or if that is unknown. */
bool lw__address_is_here(const char *text);
/* Replaces the zone by the number of the interface, which resolvers always accept; by 0
 * if there is no such interface. */
void lw__address_number_zone(struct lw__address *address);
/* Adds the address unless the list has it or is full. */
void lw__address_add(struct lw__addresses *addresses, const struct lw__address *address);
#endif
