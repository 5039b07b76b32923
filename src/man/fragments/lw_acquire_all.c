/* SPDX-License-Identifier: MIT */
#include "common.h"

static void ship(struct lw_all *all)
{
    lw_all_free(all); /* releases all names */
    done = true;
}

/* shown: */
static void on_all(struct lw_all *all, int status, void *arg)
{
    (void)arg;
    if (status == LW_OK) {
        ship(all); /* lw_all_lock(all, 0) is that of "apples" */
    } else {
        lw_all_free(all);
    }
}

static struct lw_all *take_from_stock(void)
{
    static const char *const names[] = {"apples", "pears"};
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_all *all = NULL;

    options.wait_ms = 10000;
    (void)lw_acquire_all(client, names, 2, &options, on_all, NULL,
                         NULL, &all);
    return all;
}
/* until here */

int main(void)
{
    begin();
    require(take_from_stock() != NULL, "lw_acquire_all");
    end();
}
