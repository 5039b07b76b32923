/* SPDX-License-Identifier: MIT */
/*
 * The README's program: waits for one lock, holds it and releases it.
 *
 *     cc readme.c $(pkg-config --cflags --libs lockwire) -o readme
 *     LOCKWIRE_URL=redis://localhost ./readme
 */
#include <event2/event.h>
#include <lockwire.h>
#include <stdio.h>
#include <stdlib.h>

static void closed(struct lw_client *client, void *arg)
{
    (void)arg;
    lw_client_free(client); /* the last callback: dispatch returns now */
}

static void lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)arg, (void)fprintf(stderr, "%s: %s\n", lw_lock_name(lock), lw_strerror(reason));
    exit(1); /* no more work: the lease ends in options.margin_ms */
}

static void released(struct lw_lock *lock, int status, void *arg)
{
    printf("released: %s\n", lw_strerror(status));
    lw_lock_free(lock);
    lw_client_close(arg, closed, NULL);
}

static void acquired(struct lw_lock *lock, int status, void *arg)
{
    if (status != LW_OK) {
        printf("not ours: %s (%s)\n", lw_strerror(status), lw_lock_errstr(lock));
        exit(1);
    }
    printf("%s is ours for %lld ms, fencing token %llu\n", lw_lock_name(lock),
           (long long)lw_lock_remaining_ms(lock),
           (unsigned long long)lw_lock_fence(lock));
    lw_release(lock, released, arg); /* a daemon does its work before this */
}

int main(void)
{
    struct event_base *base = event_base_new();
    struct lw_client_options server = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL");
    char why[LW_WHY_SIZE] = "out of memory"; /* the library replaces it by its reason */
    struct lw_client *client;
    struct lw_lock *lock;

    server.errbuf = why;
    server.errbuf_size = sizeof(why);
    options.wait_ms = 5000;  /* wait in the queue, not longer than this */
    options.margin_ms = 500; /* the time that is needed to stop working */
    options.lost = lost;
    if (lw_client_new(base, url, &server, &client) != 0 ||
        lw_acquire(client, "job:42", &options, acquired, client, &lock) != 0) {
        (void)fprintf(stderr, "%s\n", url != NULL ? why : "LOCKWIRE_URL is not set");
        exit(1);
    }
    event_base_dispatch(base); /* the daemon's own loop */
    event_base_free(base);
    return 0;
}
