/* SPDX-License-Identifier: MIT */
/* The clock: see now.h. It cannot fail. */
#include "loop/now.h"

int64_t lw__now_us(void)
{
    struct timespec now;

    (void)clock_gettime(LW__CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}
