/* SPDX-License-Identifier: MIT */
/*
 * An allocator that fails at the test's command. It replaces malloc, calloc, realloc,
 * strdup and free in all objects of its executable (by the linker's --wrap: lockwire's
 * own and a static hiredis'), and libevent's by its own hook. So it works under the
 * sanitizers too. It counts the allocations while armed, and those that are not freed.
 * Independent of the tests.
 *
 * Usual course: allocator_install, allocator_arm(n, false), the test,
 * allocator_disarm.
 */
#ifndef TEST_ALLOCATOR_H
#define TEST_ALLOCATOR_H
#include <stdbool.h>

void allocator_install(void); /* before libevent allocates anything */
/* Makes the at-th allocation from now on fail, and with `always` all later ones too. With
 * 0 none fails. */
void allocator_arm(long at, bool always);
/* Disarms and re-arms the allocator. In between no allocation fails or counts. */
bool allocator_pause(void); /* returns whether it was armed, for allocator_resume */
void allocator_resume(bool armed);
/* Returns true if all allocations fail from now on, so that an operation that needs
 * memory will never succeed. */
bool allocator_is_empty(void);
/* With `spare`, libevent's allocations neither fail nor count. */
void allocator_spare_libevent(bool spare);
/* Returns the number of allocations since it was armed. */
long allocator_disarm(void);
long allocator_open(void); /* returns the number that are not freed */

#endif
