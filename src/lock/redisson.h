/* SPDX-License-Identifier: MIT */
/* LW_REDISSON: handles of one owner hold a claim together. */
#ifndef LW_REDISSON_H
#define LW_REDISSON_H
#include "lock/mode.h"

extern const struct lw__together lw__redisson_together;
extern const struct lw__in_line lw__redisson_in_line;
#endif
