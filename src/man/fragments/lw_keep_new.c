/* SPDX-License-Identifier: MIT */
#include "common.h"

static void lead(uint64_t fence)
{
    done = fence > 0;
}

static void follow(void)
{
}

/* shown: */
static void on_gained(struct lw_keep *keep, int status, void *arg)
{
    (void)status, (void)arg;
    lead(lw_lock_fence(lw_keep_lock(keep)));
}

static void on_lost(struct lw_keep *keep, int reason, void *arg)
{
    (void)keep, (void)reason, (void)arg;
    follow(); /* within margin_ms; the keep queues again by itself */
}

static struct lw_keep *stand_for_election(void)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_keep *keep = NULL;

    options.lease_ms = 10000;
    options.margin_ms = 2000;
    (void)lw_keep_new(client, "leader", &options, on_gained, on_lost,
                      NULL, &keep);
    return keep; /* lw_keep_free steps down */
}
/* until here */

int main(void)
{
    begin();
    require(stand_for_election() != NULL, "lw_keep_new");
    end();
}
