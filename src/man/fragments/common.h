/* SPDX-License-Identifier: MIT */
/* What the manual's fragments have in common, and a page does not
 * show: a base, a client of the server in LOCKWIRE_URL, and an end.
 * test/house/fragments.py compiles and runs each fragment. */
#ifndef FRAGMENTS_COMMON_H
#define FRAGMENTS_COMMON_H
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct event_base *base;
static struct lw_client *client;
static bool done; /* by the fragment */

static inline void require(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "failed: %s\n", what);
        exit(1);
    }
}

static inline void begin(void)
{
    base = event_base_new();
    require(base != NULL &&
                lw_client_new(base, getenv("LOCKWIRE_URL"), NULL,
                              &client) == 0,
            "lw_client_new");
}

static inline void end(void)
{
    while (!done && event_base_loop(base, EVLOOP_ONCE) == 0) {
    }
    require(done, "the fragment's end");
    lw_client_free(client);
    event_base_free(base);
}
#endif
