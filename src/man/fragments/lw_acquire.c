/* SPDX-License-Identifier: MIT */
#include "common.h"

static void stop_working(void *arg)
{
    (void)arg;
}

static void start_working(void *arg, uint64_t fence)
{
    (void)arg;
    done = fence > 0;
}

/* shown: */
static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)fprintf(stderr, "%s is lost: %s\n", lw_lock_name(lock),
                  lw_strerror(reason));
    stop_working(arg); /* within margin_ms */
    lw_lock_free(lock);
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    if (status == LW_OK) {
        start_working(arg, lw_lock_fence(lock));
    } else {
        (void)fprintf(stderr, "%s\n", lw_strerror(status));
        lw_lock_free(lock);
    }
}

static struct lw_lock *request(void *job)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_lock *lock = NULL;

    options.wait_ms = 60000;
    options.margin_ms = 5000;
    options.lost = on_lost;
    (void)lw_acquire(client, "job:42", &options, on_acquired, job,
                     &lock);
    return lock; /* NULL: it was refused, and no callback follows */
}
/* until here */

int main(void)
{
    begin();
    require(request(NULL) != NULL, "lw_acquire");
    end();
}
