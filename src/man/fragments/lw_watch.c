/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *now,
                       const char *why, void *arg)
{
    const struct lw_inspected *leader = NULL;

    (void)watch, (void)arg;
    if (status != LW_OK) { /* keep the last address, or not */
        (void)printf("unknown: %s\n", why);
        return;
    }
    leader = lw_inspection_holder(now, 0);
    (void)printf("%s\n", leader != NULL ? leader->note : "none");
    done = leader == NULL;
}

static struct lw_watcher *follow(void)
{
    struct lw_watcher *watch = NULL;

    (void)lw_watch(client, "leader", NULL, on_changed, NULL, &watch);
    return watch; /* until lw_watcher_free */
}
/* until here */

int main(void)
{
    struct lw_watcher *watch;

    begin();
    watch = follow();
    require(watch != NULL, "lw_watch");
    end();
    lw_watcher_free(watch);
}
