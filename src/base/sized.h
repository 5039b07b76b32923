/* SPDX-License-Identifier: MIT */
/* Public structs that begin with their size, so that they may grow: a shorter one is of
 * an older caller, a longer one of a newer. libc only. */
#ifndef LW_SIZED_H
#define LW_SIZED_H
#include <stdbool.h>
#include <stddef.h>

/* Takes over what the caller gave, on top of the defaults that `ret` has. false, and
 * nothing is done: it has no size, or says something that this version does not know. */
bool lw__sized_take(void *ret, size_t size, const void *given, size_t given_size);
/* Fills in what the caller has room for; the rest of his is zeros. His `size` stays as it
 * is. false: he has not even room for that. */
bool lw__sized_give(void *ret, size_t ret_size, const void *from, size_t size);
#endif
