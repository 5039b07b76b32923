/* SPDX-License-Identifier: MIT */
/* evdns with what a file like /etc/resolv.conf says. Knows nothing of who asks it. */
#ifndef LW_RESOLVER_H
#define LW_RESOLVER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct event_base;
struct evdns_base;

/* Of a loop; made by the first lookup that needs one, and again when the file has changed
 * or the last lookup failed. */
struct lw__resolver {
    const char *file;       /* like /etc/resolv.conf */
    struct evdns_base *dns; /* NULL: not made yet */
    unsigned lookups;       /* that still ask it */
    bool failed;
    struct lw__edition { /* of the file, as it was read; zeros: there was none */
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified;
    } read;
};

/* Has `dns` there, by the file as it is now: what other lookups still ask is not
 * replaced. Whoever asks it then has each name server asked once within `patience_ms`. 0,
 * LW_ENOMEM. */
int lw__resolver_prepare(struct lw__resolver *resolver, struct event_base *base,
                         uint32_t patience_ms);
/* Legal at any time. */
void lw__resolver_clear(struct lw__resolver *resolver);
/* In a forked child. */
void lw__resolver_abandon(struct lw__resolver *resolver);
#endif
