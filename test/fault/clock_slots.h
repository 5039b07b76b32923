/* SPDX-License-Identifier: MIT */
/*
 * The file that clocks.c writes, and clock_preload.c reads in other processes. */
#ifndef TEST_CLOCK_SLOTS_H
#define TEST_CLOCK_SLOTS_H
#include <stdint.h>

/* By how much the wall clock of a process is wrong; each process reads one slot. */
struct clock_slot {
    int64_t seconds, us;
    int64_t ppm, from_us; /* it gains so many millionths, since then */
};
#define CLOCK_SLOTS 8

#endif
