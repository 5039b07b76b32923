/* SPDX-License-Identifier: MIT */
/* LW_REDISSON: how handles wait in it. */
#ifndef LW_REDISSON_H
#define LW_REDISSON_H
#include "lock/mode.h"

struct lw_client;

extern const struct lw__in_line lw__redisson_in_line;
void lw__redisson_close(struct lw_client *client); /* listens no more */
#endif
