/* SPDX-License-Identifier: MIT */
/* From a member to the struct that has it. libc only. */
#ifndef LW_OWNER_H
#define LW_OWNER_H
#include <stddef.h>

/* The struct of this type whose `member` is at that address. Where that is no pointer to
 * such a member compilers say so. */
#define LW__OWNER(type, member, address)                                                 \
    ((type *)(void *)((char *)(1 ? (address) : &((type *)0)->member) -                   \
                      offsetof(type, member)))
#endif
