/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)arg;
    if (status != LW_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", lw_lock_name(lock),
                      lw_strerror(status), lw_lock_errstr(lock));
    }
    done = status != LW_OK;
}
/* until here */

int main(void)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_lock *first, *second;

    options.mode = LW_EXCLUSIVE;
    begin();
    require(lw_acquire(client, "job", &options, on_acquired, NULL,
                       &first) == 0 &&
                lw_acquire(client, "job", &options, on_acquired,
                           NULL, &second) == 0,
            "lw_acquire");
    end();
}
