/* SPDX-License-Identifier: MIT */
/* The early warning of a handle that holds, and its end. */
#ifndef LW_RISK_H
#define LW_RISK_H
#include <stdint.h>

struct lw_lock;

/* Of a handle with `at_risk`: looks whether it is, and queues what is to be told. Returns
 * when to look again, its deadline apart; LW__NEVER: when that moves. */
int64_t lw__risk_look(struct lw_lock *lock);
#endif
