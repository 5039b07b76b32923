/* SPDX-License-Identifier: MIT */
/*
 * Wall clocks that jump, in processes that are started with a small preload
 * (clock_preload.c). LOCKWIRE_CLOCK_PRELOAD in the environment is its path. This file
 * owns the file with the clocks' errors. Independent of what the processes are.
 *
 * Usual course: clocks_open, clocks_of_children(true), server_start,
 * clocks_of_children(false), *clock_seconds = 60, clocks_close.
 */
#ifndef TEST_CLOCKS_H
#define TEST_CLOCKS_H
#include "clock_slots.h"
#include "server.h"

#include <stdint.h>

extern volatile int64_t *clock_seconds; /* of slot 0 */
extern volatile struct clock_slot *clock_slots;

/* Creates the file, or opens the one that this process itself was started with. */
void clocks_open(void);
void clocks_close(void);
/* With `on`, the processes that are started from now on read the file. */
void clocks_of_children(bool on);
/* Sets the slot of the processes that are started from now on; 0 at first. */
void clocks_slot_of_children(int slot);
/* Makes the clocks of this slot gain `ppm` millionths from now on. */
void clocks_gain(int slot, int64_t ppm);
/* Like stage_open and stage_close, with a server that reads the file. */
int clocks_open_stage(void **state);
int clocks_close_stage(void **state);
/* Returns TIME of a server, in seconds. */
int64_t clock_of(struct server *server);

#endif
