/* SPDX-License-Identifier: MIT */
/* Calls that differ between operating systems. On a system without such a call, functions
 * that return nothing have no effect. */
#ifndef LW_TOOL_SYSTEM_H
#define LW_TOOL_SYSTEM_H
#include <stdbool.h>
#include <stdint.h>

/* Returns the time by the clock that the library uses. */
int64_t system_now_ms(void);
void system_sleep_ms(int ms);
/* Closes all descriptors above `last`. For a child between fork and exec, of a process
 * with a single thread: it may allocate memory. */
void system_close_descriptors_above(int last);
/* As pipe2 with O_CLOEXEC. */
int system_pipe(int ends[2]);
/* Linux and FreeBSD: this process gets the signal when its parent ends. */
void system_die_with_parent(int number);
/* This process becomes the parent of descendants whose parent has ended. */
void system_adopt_descendants(void);
/* Returns true if system_adopt_descendants has an effect. Without it a descendant whose
 * parent has ended cannot be found, and so not be ended. */
static inline bool system_adopts_descendants(void)
{
#if defined(__linux__) || defined(__FreeBSD__)
    return true;
#else
    return false;
#endif
}
/* Linux: sets the name that ps and pkill see. */
void system_set_name(const char *name);

#endif
