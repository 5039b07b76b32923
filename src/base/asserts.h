/* SPDX-License-Identifier: MIT */
/* LW__ASSERT(condition) says which states are impossible. It is checked in builds with
 * -Dtests=enabled, where it aborts, and has no effect in all others: the library never
 * ends its host's process. `condition` must have no effect of its own. */
#ifndef LW_ASSERTS_H
#define LW_ASSERTS_H
#ifdef CHECK_ASSERTS
#include <assert.h>
#define LW__ASSERT assert
#else
#define LW__ASSERT(condition) ((void)0)
#endif
#endif
