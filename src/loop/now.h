/* SPDX-License-Identifier: MIT */
/* The clock of all times in the library. It cannot fail. */
#ifndef LW_NOW_H
#define LW_NOW_H
#include <stdint.h>

#include <time.h>

#define LW__MS 1000 /* microseconds of a millisecond */

/* One that counts while the machine sleeps, where there is one. */
#ifdef CLOCK_BOOTTIME
#define LW__CLOCK CLOCK_BOOTTIME
#else
#define LW__CLOCK CLOCK_MONOTONIC
#endif

static inline int64_t lw__now_us(void)
{
    struct timespec now;

    (void)clock_gettime(LW__CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
#endif
