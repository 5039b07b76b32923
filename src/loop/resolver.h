/* SPDX-License-Identifier: MIT */
/* evdns with what a file like /etc/resolv.conf says. Knows nothing of who asks it. */
#ifndef LW_RESOLVER_H
#define LW_RESOLVER_H
#include <stdint.h>

struct event_base;
struct evdns_base;

/* By the file as it is now. Each name server is asked once within `patience_ms`, of which
 * it is given 20 at least. To be freed by evdns_base_free. NULL: no memory. */
struct evdns_base *lw__resolver_new(struct event_base *base, const char *file,
                                    uint32_t patience_ms);
#endif
