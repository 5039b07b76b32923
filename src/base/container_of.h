/* SPDX-License-Identifier: MIT */
/* From a member of a struct to the struct. Depends on libc alone. */
#ifndef LW_CONTAINER_OF_H
#define LW_CONTAINER_OF_H
#include <stddef.h>

/* Evaluates to the struct of type `type` whose `member` is at `address`. The address must
 * not be NULL. Compilers warn if it points to another type than the member's, unless it
 * is a void pointer. */
#define LW__CONTAINER_OF(type, member, address)                                          \
    ((type *)(void *)((char *)(1 ? (address) : &((type *)0)->member) -                   \
                      offsetof(type, member)))
#endif
