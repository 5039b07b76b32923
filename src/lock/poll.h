/* SPDX-License-Identifier: MIT */
/* TTL-based polling: when who waits asks again by itself. Pure; libc only. */
#ifndef LW_POLL_H
#define LW_POLL_H
#include <stdint.h>

/* After this answer (position -1: not queued); in us from now. */
int64_t lw__poll_delay_us(int64_t remaining_ms, int64_t position, int64_t jitter);
/* Where nobody queues: as soon as the lease has ended, or after up to most_ms. */
int64_t lw__poll_lease_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter);
#endif
