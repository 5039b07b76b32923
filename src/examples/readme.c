/* SPDX-License-Identifier: MIT */
/*
 * The README's program: waits for one lock, holds it and releases it.
 *
 *     cc readme.c $(pkg-config --cflags --libs lockwire) -o readme
 *     LOCKWIRE_URL=redis://localhost ./readme
 */
#include <err.h>
#include <event2/event.h>
#include <lockwire.h>
#include <stdio.h>
#include <stdlib.h>

static void lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)arg; /* no more work: the lease ends in options.margin_ms */
    errx(1, "%s: %s", lw_lock_name(lock), lw_strerror(reason));
}

static void acquired(struct lw_lock *lock, int status, void *client)
{
    if (status != LW_OK) {
        errx(1, "not ours: %s", lw_strerror(status));
    }
    printf("job:42 is ours, fencing token %lld\n", (long long)lw_lock_fence(lock));
    lw_lock_free(lock); /* releases it; a daemon does its work before this */
    lw_client_close(client, NULL, NULL); /* then dispatch returns */
}

int main(void)
{
    struct event_base *base = event_base_new();
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_client *client;
    struct lw_lock *lock;

    options.wait_ms = 5000;  /* wait in the queue, not longer than this */
    options.margin_ms = 500; /* the time that is needed to stop working */
    options.lost = lost;
    if (lw_client_new(base, getenv("LOCKWIRE_URL"), NULL, &client) != 0 ||
        lw_acquire(client, "job:42", &options, acquired, client, &lock) != 0) {
        errx(1, "LOCKWIRE_URL is missing or invalid");
    }
    event_base_dispatch(base); /* the daemon's own loop */
    lw_client_free(client);
    event_base_free(base);
}
