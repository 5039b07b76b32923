/* SPDX-License-Identifier: MIT */
/* Calls that differ between operating systems. On a system without such a call, functions
 * that return nothing have no effect. */
#ifndef LW_TOOL_SYSTEM_H
#define LW_TOOL_SYSTEM_H
#include <stdint.h>

/* Returns the time by a clock that cannot be set and, like the library's, includes
 * suspend. */
int64_t system_now_ms(void);
void system_sleep_ms(int ms);
/* Closes all descriptors above `last`. For a child between fork and exec, of a process
 * with a single thread: it may allocate memory. */
void system_close_descriptors_above(int last);
/* Linux: this process gets the signal when its parent ends. */
void system_die_with_parent(int number);
/* Linux: this process becomes the parent of descendants whose parent has ended. */
void system_adopt_descendants(void);
/* Linux: sets the name that ps and pkill see. */
void system_set_name(const char *name);

#endif
