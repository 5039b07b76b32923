/* SPDX-License-Identifier: MIT */
/* The rules for names and other words that callers hand in. libc only. */
#ifndef LW_CHECK_H
#define LW_CHECK_H
#include <stddef.h>

/* NULL if the name is legal for a lock (see lw_acquire), else `why`: what, where. */
const char *lw__check_name(const char *name, char *why, size_t why_size);
/* NULL if 1 to 128 printable ASCII bytes without spaces; `what` names it in the text. */
const char *lw__check_word(const char *word, const char *what, char *why,
                           size_t why_size);
#endif
