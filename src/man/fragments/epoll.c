/* SPDX-License-Identifier: MIT */
#include "lock_thread.h"

#include <sys/epoll.h>

/* shown: */
int main(void)
{
    pthread_t thread = start_locks(getenv("LOCKWIRE_URL"));
    struct epoll_event event = {.events = EPOLLIN,
                                .data.fd = events[0]};
    int epoll = epoll_create1(EPOLL_CLOEXEC), running = 1;

    if (epoll < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, events[0], &event) != 0) {
        abort();
    }
    while (running) {
        if (epoll_wait(epoll, &event, 1, -1) == 1 &&
            event.data.fd == events[0]) {
            running = on_lock_event();
        }
    }
    return pthread_join(thread, NULL);
}
/* until here */
