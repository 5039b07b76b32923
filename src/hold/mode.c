/* SPDX-License-Identifier: MIT */
/* The table of the modes: what each mode does. Claims and handles go by this table. Which
 * mode it is matters where options are checked and keys are read: lock.c, all.c,
 * claim_message.c, inspect.c, list.c. */
#include "hold/hold.h"

#include "lockwire.h"
#include "redis/decode.h"

#define READ_WRITE                                                                       \
    .encode_acquire = lw__encode_acquire, .encode_release = lw__encode_release,          \
    .encode_renew = lw__encode_rw_renew, .decode_acquired = lw__decode_rw_acquired,      \
    .decode_released = lw__decode_rw_released, .format_owner = lw__format_token,         \
    .rw = true

const struct lw__mode lw__mode_table[] = {
    [LW_MUTEX] = {.encode_acquire = lw__encode_acquire,
                  .encode_release = lw__encode_release,
                  .encode_renew = lw__encode_renew,
                  .decode_acquired = lw__decode_acquired,
                  .decode_released = lw__decode_released,
                  .format_owner = lw__format_token,
                  .acquire_one_key = lw__claim_migrating_acquire,
                  .mutex = true},
    [LW_EXCLUSIVE] = {READ_WRITE, .write = true},
    [LW_SHARED] = {READ_WRITE},
    [LW_REDISSON] = {.encode_acquire = lw__encode_redisson_acquire,
                     .encode_release = lw__encode_redisson_release,
                     .encode_renew = lw__encode_redisson_renew,
                     .decode_acquired = lw__decode_redisson_acquired,
                     .decode_released = lw__decode_redisson_released,
                     .format_owner = lw__format_field,
                     .polls = true},
};
