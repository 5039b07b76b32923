/* SPDX-License-Identifier: MIT */
/* LW_REDISSON: how handles wait in it. */
#ifndef LW_REDISSON_H
#define LW_REDISSON_H
#include "lock/mode.h"

extern const struct lw__in_line lw__redisson_in_line;
#endif
