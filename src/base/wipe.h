/* SPDX-License-Identifier: MIT */
/* Overwrites secrets. macOS has no explicit_bzero. */
#ifndef LW_WIPE_H
#define LW_WIPE_H
#include <stddef.h>
#include <string.h>

/* The compiler does not know which function a volatile pointer points to, so it cannot
 * omit the call, even if the bytes are not read again. */
static inline void lw__wipe(void *bytes, size_t length)
{
    static void *(*const volatile set)(void *, int, size_t) = memset;

    (void)set(bytes, 0, length);
}

#endif
