/* SPDX-License-Identifier: MIT */
/* How a client ends, independent of the reason. When the last open claim has ended, the
 * client is drained. Its notice comes last, and the loop is freed before the notice is
 * delivered. When the caller frees the client, its memory is freed after the last
 * callback. In a forked child nothing is sent and no callback is called. */
#include "lock/lock_private.h"

#include "loop/loop.h"
#include "redis/route.h"

#include <stdlib.h>
#include <utlist.h>

/* ---- freeing ---- */

void lw__ending_free_claims(struct lw__holds *holds)
{
    struct lw__name *name, *next;

    lw__claim_close(holds);
    for (name = lw__name_after(holds, NULL); name != NULL; name = next) {
        lw__name_ref(name);
        while (name->claims != NULL) {
            lw__renewal_forget(name->claims);
            lw__claim_free(name->claims);
        }
        next = lw__name_after(holds, name);
        lw__name_unref(holds, name);
    }
}

void lw__ending_take_down(struct lw_client *client)
{
    if (client->loop == NULL) {
        return;
    }
    if (client->holds.votes != NULL) {
        client->holds.votes->end(&client->holds); /* so that no vote is released */
    }
    lw__ending_free_claims(&client->holds);
    if (client->route != NULL) {
        lw__timer_cancel(client->loop, &client->holds.renewals.timer);
        lw__timer_cancel(client->loop, &client->close_timer);
        lw__timer_cancel(client->loop, &client->identity.timer);
    }
    lw__redisson_close(&client->holds);
    lw__route_free(client->route);
    lw__loop_free(client->loop);
    client->route = NULL;
    client->loop = NULL;
    client->stats.link_up = 0;
}

static void free_memory(struct lw_client *client)
{
    lw__claim_clear(&client->holds);
    lw__handle_clear(client);
    lw__renewal_clear(&client->holds);
    lw__options_clear(client);
    free(client);
}

void lw__ending_unref(struct lw_client *client)
{
    if (client->freed && client->references == 0) {
        free_memory(client);
    }
}

/* ---- closing ---- */

void lw__ending_closed(struct lw_client *client)
{
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        lw__handle_leave_claim(lock);
        lw__timer_cancel(client->loop, &lock->timer);
    }
    lw__ending_take_down(client);
}

static bool is_drained(const struct lw_client *client)
{
    return client->holds.open_claims == 0 &&
           client->identity.command.request.prev == NULL &&
           (client->holds.votes == NULL ||
            client->holds.votes->is_drained(&client->holds));
}

void lw__ending_drained(struct lw_client *client)
{
    if (client->closing && !client->freed && client->loop != NULL && is_drained(client)) {
        lw__notify_closed(client);
    }
}
