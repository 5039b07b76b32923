/* SPDX-License-Identifier: MIT */
/*
 * Between loop.c and lookup.c alone: what name resolution needs of the loop. The rest of
 * the library sees lw__lookup_new and lw__lookup_cancel in loop.h.
 */
#ifndef LW_LOOKUP_H
#define LW_LOOKUP_H
#include "loop.h"

#include <sys/types.h>
#include <time.h>

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

struct lw__resolver *lw__loop_resolver(struct lw__loop *loop);
/* Legal at any time. */
void lw__resolver_clear(struct lw__resolver *resolver);
/* In a forked child. */
void lw__resolver_abandon(struct lw__resolver *resolver);
#endif
