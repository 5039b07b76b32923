/* SPDX-License-Identifier: MIT */
/* Calls that are made from the loop, soon. */
#ifndef LW_DEFER_H
#define LW_DEFER_H
#include <stdbool.h>

struct lw__loop;

typedef void lw__call_fn(void *arg);

/* Embedded in its owner. */
struct lw__deferred {
    struct lw__deferred *next, **prev; /* prev NULL: not queued */
    lw__call_fn *fn;
    void *arg;
};

void lw__defer_init(struct lw__deferred *call, lw__call_fn *fn, void *arg);
/* Queues the call once (again: no effect while queued). `late`: after all others of this
 * turn, for writes, so that one turn makes one write. A call queued while deferred calls
 * run is made in the loop's next turn, after I/O had its chance; a late one still in this
 * turn. Never fails, needs no memory. */
void lw__defer(struct lw__loop *loop, struct lw__deferred *call, bool late);
void lw__defer_cancel(struct lw__loop *loop, struct lw__deferred *call);
#endif
