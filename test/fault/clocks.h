/* SPDX-License-Identifier: MIT */
/*
 * Wall clocks that jump, of processes that are started with a small preload
 * (clock_preload.c); the environment's LOCKWIRE_CLOCK_PRELOAD is its path. Owns the file
 * that says by how much. Must not know whose clocks they are.
 *
 * Happy path: clocks_open, clocks_of_children(true), server_start,
 * clocks_of_children(false), *clock_seconds = 60, clocks_close.
 */
#ifndef TEST_CLOCKS_H
#define TEST_CLOCKS_H
#include "clock_slots.h"
#include "server.h"

#include <stdint.h>

extern volatile int64_t *clock_seconds; /* of slot 0 */
extern volatile struct clock_slot *clock_slots;

/* A new file; or the one that this process was itself started with. */
void clocks_open(void);
void clocks_close(void);
/* Do the processes that are started from now on read the file? */
void clocks_of_children(bool on);
/* The slot of processes that are started from now on; 0 at first. */
void clocks_slot_of_children(int slot);
/* From now on the clocks of this slot gain so many millionths. */
void clocks_gain(int slot, int64_t ppm);
/* stage_open with a server that reads the file, and the end of both. */
int clocks_open_stage(void **state);
int clocks_close_stage(void **state);
/* TIME of a server, in seconds. */
int64_t clock_of(struct server *server);

#endif
