/* SPDX-License-Identifier: MIT */
#include "common.h"

static bool write_to_store(const char *row, uint64_t fence)
{
    return *row != '\0' && fence > 0;
}

/* shown: */
static bool save(const struct lw_lock *lock, const char *row)
{
    if (lw_lock_remaining_ms(lock) == 0) {
        return false; /* not held any longer, or not yet */
    }
    /* the store rejects smaller fencing tokens */
    return write_to_store(row, lw_lock_fence(lock));
}
/* until here */

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)arg;
    require(status == LW_OK && save(lock, "row"), "held");
    done = true;
}

int main(void)
{
    struct lw_lock *lock;

    begin();
    require(lw_acquire(client, "job", NULL, on_acquired, NULL,
                       &lock) == 0,
            "lw_acquire");
    require(!save(lock, "row"), "not held");
    end();
}
