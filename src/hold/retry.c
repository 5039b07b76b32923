/* SPDX-License-Identifier: MIT */
/* Has claims act at once when a link, a subscription or a slot has changed, each by the
 * phase that it is in. Independent of what a claim sends (claim.c).
 *
 * A link came up: requests and releases are sent again, and holds are verified. Both
 * connections reach one server: requests are sent again, since they may join the queue
 * now. Slots have moved: the same as for a link, for the names whose node is another one.
 */
#include "hold/hold.h"

#include "redis/node.h"

#include <utlist.h>

/* The end of a try wakes the claims behind it, in their order. */
static void retry_name(struct lw__name *name, bool verify)
{
    struct lw__claim *claim, *next;

    if (name->claims != NULL && lw__claim_is_trying(name->claims)) {
        return;
    }
    DL_FOREACH_SAFE(name->claims, claim, next) {
        if (verify) {
            claim->holds->events->on_error(claim, LW_OK, "");
        }
        if (!lw__machine_holds(claim->machine.phase)) {
            lw__claim_event(claim, LW__EV_RETRY_NOW);
        } else if (verify) {
            lw__renewal_now(claim);
        }
    }
}

/* In place of a slot: */
#define NEWLY_BOUND -1 /* any that has just become bound */
#define ANY -2

static bool is_in(const struct lw__name *name, int slot)
{
    return slot == ANY ||
           (slot == NEWLY_BOUND ? lw__node_is_newly_bound(name->node, name->slot)
                                : name->slot == (unsigned)slot);
}

static void retry_names(struct lw__holds *holds, const struct lw__node *node, int slot)
{
    struct lw__name *name = lw__name_after(holds, NULL), *next;

    for (; name != NULL; name = next) {
        lw__name_ref(name); /* a reply may come at once and free its last claim */
        if (name->node == node && is_in(name, slot)) {
            retry_name(name, slot == ANY);
        }
        next = lw__name_after(holds, name);
        lw__name_unref(holds, name);
    }
}

void lw__retry_all(struct lw__holds *holds, const struct lw__node *node, bool verify)
{
    retry_names(holds, node, verify ? ANY : NEWLY_BOUND);
}

void lw__retry_slot(struct lw__holds *holds, const struct lw__node *node, unsigned slot)
{
    retry_names(holds, node, (int)slot);
}

static void remap(struct lw__holds *holds, struct lw__name *name)
{
    if (lw__name_remap(holds, name) &&
        lw__node_is_up(name->node)) { /* else this happens when it comes up */
        retry_name(name, true);
    }
}

void lw__retry_remap_all(struct lw__holds *holds)
{
    struct lw__name *name = lw__name_after(holds, NULL), *next;

    for (; name != NULL; name = next) {
        lw__name_ref(name);
        remap(holds, name);
        next = lw__name_after(holds, name);
        lw__name_unref(holds, name);
    }
}
