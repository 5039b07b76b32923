/* SPDX-License-Identifier: MIT */
#include "lock_thread.h"
#define EV_COMPAT3 0 /* names that libevent has, too */
#define EV_MULTIPLICITY 1
#undef EV_READ
#undef EV_WRITE
#undef EV_TIMEOUT
#undef EV_SIGNAL
#undef EV_PERSIST
#include <ev.h>

/* shown: */
static void on_readable(struct ev_loop *loop, ev_io *watcher,
                        int what)
{
    (void)what;
    if (!on_lock_event()) {
        ev_io_stop(loop, watcher); /* the last one: ev_run returns */
    }
}

int main(void)
{
    pthread_t thread = start_locks(getenv("LOCKWIRE_URL"));
    struct ev_loop *loop = ev_default_loop(0);
    ev_io watcher;

    ev_io_init(&watcher, on_readable, events[0], EV_READ);
    ev_io_start(loop, &watcher);
    ev_run(loop, 0);
    return pthread_join(thread, NULL);
}
/* until here */
