/* SPDX-License-Identifier: MIT */
/* A handle whose lock is lost or was refused: its owner is called back after a while. */
#ifndef LW_LATER_H
#define LW_LATER_H
#include "lock/structs.h"
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>

/* Calls `done` with LW_OK, when `when` says. Of a handle in LW_LOST or LW_DONE, which
 * nothing else is to come of; needs no memory. Never once the client is closed, nor after
 * it or the handle was freed. Returns false, without any effect, if the client is closing
 * or closed. */
bool lw__later(struct lw_lock *lock, int64_t after_ms, enum lw__later when,
               lw_lock_cb *done, void *arg);
/* Logs that lw__later was called for another attempt after this status, and when that
 * follows. To be called after lw__later: the log is a callback of the user's, too. */
void lw__later_warn(struct lw_lock *lock, int status, int64_t after_ms);
#endif
