/* SPDX-License-Identifier: MIT */
/* Where a function that fails says what failed, and where: a buffer of its caller's. */
#ifndef LW_TOOL_WHY_H
#define LW_TOOL_WHY_H
#include <stddef.h>

struct why {
    char *text;
    size_t size; /* 0: nobody wants to know */
};

/* Returns -1, so that one can return what it returns. */
int why_set(struct why why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
