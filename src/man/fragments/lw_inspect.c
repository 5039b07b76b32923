/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static void on_inspected(struct lw_client *asked, int status,
                         const struct lw_inspection *found,
                         const char *why, void *arg)
{
    (void)asked, (void)arg;
    if (status != LW_OK) {
        (void)fprintf(stderr, "%s: %s\n", lw_strerror(status), why);
        return;
    }
    for (size_t i = 0; i < found->holder_count; i++) {
        const struct lw_inspected *holder =
            lw_inspection_holder(found, i);

        (void)printf("held for another %" PRId64 " ms\n",
                     holder->remaining_ms);
    }
    (void)printf("%zu wait\n", found->waiter_total);
}
/* until here */

static void on_end(struct lw_client *asked, int status,
                   const struct lw_inspection *found,
                   const char *why, void *arg)
{
    on_inspected(asked, status, found, why, arg);
    require(status == LW_OK && found->holder_count == 1, "a holder");
    done = true;
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status, (void)arg;
    require(lw_inspect(client, "job", on_end, NULL) == 0,
            "lw_inspect");
}

int main(void)
{
    struct lw_lock *lock;

    begin();
    require(lw_acquire(client, "job", NULL, on_acquired, NULL,
                       &lock) == 0,
            "lw_acquire");
    end();
}
