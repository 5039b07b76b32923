/* SPDX-License-Identifier: MIT */
/*
 * The table of the modes: see mode.h. Whoever would ask which mode it is asks for what it
 * does.
 */
#include "lock/mode.h"

#include "lock/redisson.h"
#include "lockwire.h"
#include "redis/dialect.h"

const struct lw__mode lw__mode_table[] = {
    [LW_MUTEX] = {.dialect = &lw__dialect_mutex, .tries = true, .turns = true},
    [LW_EXCLUSIVE] = {.dialect = &lw__dialect_rw, .write = true},
    [LW_SHARED] = {.dialect = &lw__dialect_rw},
    [LW_REDISSON] = {.dialect = &lw__dialect_redisson,
                     .together = true,
                     .in_line = &lw__redisson_in_line},
};
