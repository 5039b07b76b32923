/* SPDX-License-Identifier: MIT */
/*
 * Memory that fails when the test wants: owns the count of allocations while armed, and
 * of what is allocated and not freed. It stands in front of malloc, calloc, realloc,
 * strdup and free for all objects of its executable (the linker's --wrap: lockwire's own
 * and a static hiredis'), and of libevent by its own hook. So it works under the
 * sanitizers too. Must not know what is tested.
 *
 * Happy path: allocator_install, allocator_arm(n, false), the test, allocator_disarm.
 */
#ifndef TEST_ALLOCATOR_H
#define TEST_ALLOCATOR_H
#include <stdbool.h>

void allocator_install(void); /* before libevent allocates anything */
/* The at-th allocation from now on fails, with `always` all later ones too. 0: none. */
void allocator_arm(long at, bool always);
/* Nothing fails nor is counted in between. */
bool allocator_pause(void); /* whether it was armed, for who resumes */
void allocator_resume(bool armed);
/* All fail from now on: what needs memory is waited for in vain. */
bool allocator_is_empty(void);
/* libevent's allocations neither fail nor count. */
void allocator_spare_libevent(bool spare);
/* Returns how many allocations were asked for since it was armed. */
long allocator_disarm(void);
long allocator_open(void); /* allocated and not freed */

#endif
