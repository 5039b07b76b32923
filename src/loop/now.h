/* SPDX-License-Identifier: MIT */
/* The clock of all times in the library. */
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

int64_t lw__now_us(void);
#endif
