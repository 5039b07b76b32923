/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static int on_found(struct lw_client *asked,
                    const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    (void)asked, (void)arg;
    if (found != NULL) {
        (void)printf("%s: %zu wait\n", found->name,
                     found->waiter_total);
    }
    return listing->found >= 1000; /* ends the list */
}

static void on_listed(struct lw_client *asked, int status,
                      const struct lw_listing *listing,
                      const char *why, void *arg)
{
    (void)asked, (void)arg;
    (void)printf("%" PRIu64 " locks; %s %s\n", listing->found,
                 lw_strerror(status), why);
    done = status == LW_OK && listing->found == 1;
}

static void list(void)
{
    (void)lw_list(client, "job:*", on_found, on_listed, NULL);
}
/* until here */

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status, (void)arg;
    list();
}

int main(void)
{
    struct lw_lock *lock;

    begin();
    require(lw_acquire(client, "job:1", NULL, on_acquired, NULL,
                       &lock) == 0,
            "lw_acquire");
    end();
}
