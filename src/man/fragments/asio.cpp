/* SPDX-License-Identifier: MIT */
#include "lock_thread.h"

#include <asio.hpp>

/* shown: */
static void wait_for_locks(asio::posix::stream_descriptor &pipe)
{
    pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                    [&pipe](const asio::error_code &error) {
                        if (!error && on_lock_event()) {
                            wait_for_locks(pipe);
                        }
                    });
}

int main()
{
    pthread_t thread = start_locks(std::getenv("LOCKWIRE_URL"));
    asio::io_context loop;
    asio::posix::stream_descriptor pipe(loop, events[0]);

    wait_for_locks(pipe);
    loop.run();
    return pthread_join(thread, nullptr);
}
/* until here */
