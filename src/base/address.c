/* SPDX-License-Identifier: MIT */
/* Addresses as text, independent of what they are used for: see address.h. The zone
 * becomes a number only before connecting; 0, for a zone that is not an interface, is
 * never reached. */
#include "base/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct lw__address) == INET6_ADDRSTRLEN + IF_NAMESIZE,
               "the longest address with the longest zone");

bool lw__address_parse(const char *text, struct lw__address *ret)
{
    unsigned char binary[sizeof(struct in6_addr)];
    char address[INET6_ADDRSTRLEN];
    size_t length = strcspn(text, "%");

    if (length >= sizeof(address) || strlen(text) >= sizeof(ret->text) ||
        (text[length] != '\0' && strlen(text + length + 1) >= IF_NAMESIZE)) {
        return false;
    }
    memcpy(address, text, length);
    address[length] = '\0';
    if (inet_pton(AF_INET6, address, binary) != 1 &&
        (text[length] != '\0' || inet_pton(AF_INET, address, binary) != 1)) {
        return false;
    }
    (void)snprintf(ret->text, sizeof(ret->text), "%s", text);
    return true;
}

void lw__address_number_zone(struct lw__address *address)
{
    char *zone = strchr(address->text, '%');
    unsigned long number;

    if (zone == NULL) {
        return;
    }
    number = if_nametoindex(zone + 1);
    if (number == 0) {
        number = strtoul(zone + 1, NULL, 10);
    }
    /* A 32-bit number fits where the name of an interface does. */
    (void)snprintf(zone + 1, IF_NAMESIZE, "%u", (unsigned)(number & UINT32_MAX));
}

void lw__address_add(struct lw__addresses *addresses, const struct lw__address *address)
{
    for (size_t i = 0; i < addresses->count; i++) {
        if (strcmp(addresses->list[i].text, address->text) == 0) {
            return;
        }
    }
    if (addresses->count < LW__ADDRESSES) {
        addresses->list[addresses->count++] = *address;
    }
}
