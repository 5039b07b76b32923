/* SPDX-License-Identifier: MIT */
/*
 * A resolver for one lookup. Must not know what is asked. Happy path: lw__resolver_new. A
 * file that is not there, or names nobody, leads to this machine's own server, as in
 * libc; only memory can be missing.
 */
#include "loop/resolver.h"

#include <event2/dns.h>
#include <stddef.h>
#include <stdio.h>

/* How long a name server may take before the next one is asked. */
#define EACH_MIN_MS 20
#define EACH_MAX_MS 1000

/* So that a server that does not answer leaves time to ask the others, and to connect;
 * and that a slow one is waited for as long as there is time. */
static void share_patience(struct evdns_base *dns, uint32_t patience_ms)
{
    unsigned servers = (unsigned)evdns_base_count_nameservers(dns);
    unsigned each_ms = patience_ms / (servers + 1);
    char text[32];

    each_ms = each_ms < EACH_MIN_MS ? EACH_MIN_MS : each_ms;
    each_ms = each_ms > EACH_MAX_MS ? EACH_MAX_MS : each_ms;
    (void)snprintf(text, sizeof(text), "%ue-3", each_ms); /* no locale's decimal point */
    (void)evdns_base_set_option(dns, "timeout:", text);
    (void)snprintf(text, sizeof(text), "%u", servers + 1 + patience_ms / each_ms);
    (void)evdns_base_set_option(dns, "attempts:", text);
}

struct evdns_base *lw__resolver_new(struct event_base *base, const char *file,
                                    uint32_t patience_ms)
{
    const int what = DNS_OPTION_SEARCH | DNS_OPTION_NAMESERVERS | DNS_OPTION_MISC;
    struct evdns_base *dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);

    if (dns != NULL) {
        (void)evdns_base_resolv_conf_parse(dns, what, file);
        if (evdns_base_count_nameservers(dns) == 0) {
            (void)evdns_base_nameserver_ip_add(dns, "127.0.0.1");
        }
        share_patience(dns, patience_ms);
    }
    return dns;
}
