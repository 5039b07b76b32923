/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static void on_closed(struct lw_client *closed, void *arg)
{
    (void)closed;
    *(bool *)arg = true;
}

/* Called by the host once its own event_base_dispatch returned. */
static void release_locks(void)
{
    bool closed = false;

    if (lw_client_close(client, on_closed, &closed) == 0) {
        while (!closed && event_base_loop(base, EVLOOP_ONCE) == 0) {
        } /* at most close_timeout_ms */
    }
    lw_client_free(client);
}
/* until here */

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)arg;
    require(status == LW_OK, "held");
    (void)event_base_loopexit(base, NULL); /* the host's shutdown */
}

int main(void)
{
    struct lw_lock *lock;

    begin();
    require(lw_acquire(client, "job", NULL, on_acquired, NULL,
                       &lock) == 0,
            "lw_acquire");
    require(event_base_dispatch(base) == 0, "event_base_dispatch");
    require(lw_lock_state(lock) == LW_HELD, "held");
    release_locks();
    lw_lock_free(lock);
    event_base_free(base);
}
