/* SPDX-License-Identifier: MIT */
#include "common.h"

/* shown: */
/* The holder: asked_to_yield in the options of its client. */
static void on_asked(struct lw_lock *lock, void *arg)
{
    (void)arg;
    (void)printf("%s: another wants it\n", lw_lock_name(lock));
    (void)lw_release(lock, NULL, NULL); /* or later, or never */
}

/* The client that asks: done of lw_ask_to_yield. */
static void on_yielded(struct lw_client *asking, int status,
                       size_t holders, size_t reached,
                       const char *why, void *arg)
{
    (void)asking, (void)arg;
    if (status != LW_OK) {
        (void)fprintf(stderr, "%s: %s\n", lw_strerror(status), why);
    } else if (reached < holders) {
        (void)fprintf(stderr, "not all holders were reached\n");
    }
}
/* until here */

static void on_asked_at_last(struct lw_lock *lock, void *arg)
{
    on_asked(lock, arg);
    require(lw_lock_state(lock) == LW_RELEASING, "a release");
    done = true;
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status, (void)arg;
    require(lw_ask_to_yield(client, "job", on_yielded, NULL) == 0,
            "lw_ask_to_yield");
}

int main(void)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_lock *lock;

    begin();
    lw_client_free(client);
    options.asked_to_yield = on_asked_at_last;
    require(lw_client_new(base, getenv("LOCKWIRE_URL"), &options,
                          &client) == 0,
            "lw_client_new");
    require(lw_acquire(client, "job", NULL, on_acquired, NULL,
                       &lock) == 0,
            "lw_acquire");
    end();
    lw_lock_free(lock);
}
