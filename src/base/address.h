/* SPDX-License-Identifier: MIT */
/* Numeric addresses as text, IPv6 with a zone ("fe80::1%eth0") too, and lists of them.
 * libc only. */
#ifndef LW_ADDRESS_H
#define LW_ADDRESS_H
#include <stdbool.h>
#include <stddef.h>

#define LW__ADDRESSES 8 /* at most, of one name */

struct lw__address {
    char text[62]; /* 45 characters, '%', an interface's name of 15, NUL */
};

struct lw__addresses {
    size_t count;
    struct lw__address list[LW__ADDRESSES];
};

/* false: no numeric address. A zone may be any word as long as an interface's name. */
bool lw__address_parse(const char *text, struct lw__address *ret);
/* With its zone as a number, which resolvers always take; 0: no such interface. */
void lw__address_number_zone(struct lw__address *address);
/* Adds the address unless it is there already or there is no more room. */
void lw__address_add(struct lw__addresses *addresses, const struct lw__address *address);
#endif
