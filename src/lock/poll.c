/* SPDX-License-Identifier: MIT */
/* Polling: see poll.h. No decision about a lock is made here. Happy path: a third of what
 * is left, later for each who is ahead, with jitter. */
#include "lock/poll.h"

#define MS 1000
#define LONGEST 3000 /* of the first in the queue, and of one that is not in it */

int64_t lw__poll_delay_us(int64_t remaining_ms, int64_t position, int64_t jitter)
{
    int64_t remaining = remaining_ms < 0 ? 9000 : remaining_ms;
    int64_t rank = position < 0 ? 3 : position; /* it is not in the queue: more rarely */
    int64_t delay = remaining / 3;
    int64_t most = position < 0 ? LONGEST : rank < 100 ? 10000 : 30000;

    if (delay < 50) {
        delay = 50;
    }
    if (delay > LONGEST) {
        delay = LONGEST;
    }
    delay = rank >= most / delay ? most : delay * (rank + 1);
    if (rank == 0 && remaining_ms >= 0 && remaining_ms < delay - 1) {
        return (remaining_ms + 1) * MS;
    }
    return delay * MS + delay * MS / 10 * jitter / 1000;
}

int64_t lw__poll_lease_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter)
{
    int64_t most = most_ms * MS - most_ms * MS / 20 * (jitter + 1000) / 1000;

    return remaining_ms >= 0 && remaining_ms < most / MS ? (remaining_ms + 1) * MS : most;
}
