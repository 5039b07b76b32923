/* SPDX-License-Identifier: MIT */
/*
 * The layout of the file that clocks.c writes, and that clock_preload.c reads in other
 * processes. */
#ifndef TEST_CLOCK_SLOTS_H
#define TEST_CLOCK_SLOTS_H
#include <stdint.h>

/* The error of a process's wall clock; each process reads one slot. */
struct clock_slot {
    int64_t seconds, us;
    int64_t ppm, from_us; /* the clock gains `ppm` millionths from `from_us` on */
};
#define CLOCK_SLOTS 8

#endif
