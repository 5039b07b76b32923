/* SPDX-License-Identifier: MIT */
/* From a member to the struct that has it. libc only. */
#ifndef LW_OWNER_H
#define LW_OWNER_H
#include <stddef.h>

/* The struct of this type whose `member` is at that address, which is not NULL. Where it
 * points at something else compilers say so, unless it is a void pointer. */
#define LW__OWNER(type, member, address)                                                 \
    ((type *)(void *)((char *)(1 ? (address) : &((type *)0)->member) -                   \
                      offsetof(type, member)))
#endif
