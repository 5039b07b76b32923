/* SPDX-License-Identifier: MIT */
/* The table of the modes. Whoever would ask which mode it is asks for what it does. */
#include "lock/mode.h"

#include "lock/redisson.h"
#include "lockwire.h"
#include "redis/decode.h"
#include "redis/encode.h"

#define READ_WRITE                                                                       \
    .acquire = lw__encode_acquire, .release = lw__encode_release,                        \
    .renew = lw__encode_rw_renew, .released = lw__decode_rw_released,                    \
    .owner = lw__format_token, .rw = true, .fenced = true

const struct lw__mode lw__mode_table[] = {
    [LW_MUTEX] = {.acquire = lw__encode_acquire,
                  .release = lw__encode_release,
                  .renew = lw__encode_renew,
                  .released = lw__decode_released,
                  .owner = lw__format_token,
                  .fenced = true,
                  .tries = true,
                  .turns = true},
    [LW_EXCLUSIVE] = {READ_WRITE, .write = true},
    [LW_SHARED] = {READ_WRITE},
    [LW_REDISSON] = {.acquire = lw__encode_redisson_acquire,
                     .release = lw__encode_redisson_release,
                     .renew = lw__encode_redisson_renew,
                     .released = lw__decode_redisson_released,
                     .owner = lw__format_field,
                     .together = true,
                     .in_line = &lw__redisson_in_line},
};
