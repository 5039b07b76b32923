/* SPDX-License-Identifier: MIT */
/* Addresses as text, independent of what they are used for: see address.h. The zone
 * becomes a number only before connecting; 0, for a zone that is not an interface, is
 * never reached. */
#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

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

bool lw__address_is_loopback(const char *text)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, text, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, text, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6) ||
               (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    }
    return strcasecmp(text, "localhost") == 0;
}

/* All addresses in the net of a loopback interface are this host's. */
static bool is_of_interface(const struct ifaddrs *of, int family, const void *address)
{
    const unsigned char *mask = NULL, *own, *other = address;
    size_t length = family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);

    if (of->ifa_addr == NULL || of->ifa_addr->sa_family != family) {
        return false;
    }
    if (family == AF_INET) {
        own = (const void *)&((const struct sockaddr_in *)(const void *)of->ifa_addr)
                  ->sin_addr;
        if ((of->ifa_flags & IFF_LOOPBACK) != 0 && of->ifa_netmask != NULL) {
            mask =
                (const void *)&((const struct sockaddr_in *)(const void *)of->ifa_netmask)
                    ->sin_addr;
        }
    } else {
        own = (const void *)&((const struct sockaddr_in6 *)(const void *)of->ifa_addr)
                  ->sin6_addr;
    }
    for (size_t i = 0; i < length; i++) {
        if (((own[i] ^ other[i]) & (mask != NULL ? mask[i] : 0xff)) != 0) {
            return false;
        }
    }
    return true;
}

bool lw__address_is_here(const char *text)
{
    struct ifaddrs *list, *one;
    unsigned char binary[sizeof(struct in6_addr)];
    char address[INET6_ADDRSTRLEN];
    int family = strchr(text, ':') != NULL ? AF_INET6 : AF_INET;

    (void)snprintf(address, sizeof(address), "%.*s", (int)strcspn(text, "%"), text);
    if (inet_pton(family, address, binary) != 1 || getifaddrs(&list) != 0) {
        return true;
    }
    one = list;
    while (one != NULL && !is_of_interface(one, family, binary)) {
        one = one->ifa_next;
    }
    freeifaddrs(list);
    return one != NULL;
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
