/* SPDX-License-Identifier: MIT */
/* A handle whose lock is lost or was refused: its owner is called back after a while. */
#ifndef LW_LATER_H
#define LW_LATER_H
#include "lock/structs.h"
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls `done` with LW_OK at the time that `when` defines. For a handle in LW_LOST or
 * LW_DONE whose callbacks have all been called. Needs no memory. `done` is not called
 * once the client is closed, or after the client or the handle was freed. Returns false,
 * without any effect, if the client is closing or closed. */
bool lw__later(struct lw_lock *lock, int64_t after_ms, enum lw__later when,
               lw_lock_cb *done, void *arg);
/* Logs the failure and the delay until the next attempt. Call it after lw__later has
 * arranged that attempt. */
void lw__later_warn(struct lw_lock *lock, int status, int64_t after_ms);
#endif
