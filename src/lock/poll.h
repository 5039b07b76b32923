/* SPDX-License-Identifier: MIT */
/* TTL-based polling: when who waits asks again by itself. Pure; libc only. */
#ifndef LW_POLL_H
#define LW_POLL_H
#include <stdint.h>

/* When to ask again, after an answer with this remaining lease and
 * position (-1: not queued). Microseconds from now. */
int64_t lw__poll_delay_us(int64_t remaining_ms, int64_t position, int64_t jitter);
/* The same where nobody queues: as soon as the lease has ended, or after up to
 * most_ms. */
int64_t lw__poll_lease_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter);
#endif
