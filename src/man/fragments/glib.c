/* SPDX-License-Identifier: MIT */
#include "lock_thread.h"

#include <glib-unix.h>

/* shown: */
static gboolean on_readable(gint fd, GIOCondition what,
                            gpointer loop)
{
    (void)fd, (void)what;
    if (!on_lock_event()) {
        g_main_loop_quit((GMainLoop *)loop);
    }
    return G_SOURCE_CONTINUE;
}

int main(void)
{
    pthread_t thread = start_locks(getenv("LOCKWIRE_URL"));
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);

    g_unix_fd_add(events[0], G_IO_IN, on_readable, loop);
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
    return pthread_join(thread, NULL);
}
/* until here */
