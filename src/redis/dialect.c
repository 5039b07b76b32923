/* SPDX-License-Identifier: MIT */
/* The dialects: see dialect.h. No decision is made here, and nothing can fail. */
#include "redis/dialect.h"

#include "redis/decode.h"
#include "redis/format.h"

const struct lw__dialect lw__dialect_mutex = {
    .acquire = lw__encode_acquire,
    .release = lw__encode_release,
    .renew = lw__encode_renew,
    .drop = lw__encode_drop,
    .acquired = lw__decode_mutex_acquired,
    .released = lw__decode_released,
    .owner = lw__format_token,
    .fenced = true,
};

const struct lw__dialect lw__dialect_rw = {
    .acquire = lw__encode_acquire,
    .release = lw__encode_release,
    .renew = lw__encode_rw_renew,
    .acquired = lw__decode_acquired,
    .released = lw__decode_rw_released,
    .owner = lw__format_token,
    .rw = true,
    .fenced = true,
};

const struct lw__dialect lw__dialect_redisson = {
    .acquire = lw__encode_redisson_acquire,
    .release = lw__encode_redisson_release,
    .renew = lw__encode_redisson_renew,
    .acquired = lw__decode_acquired,
    .released = lw__decode_redisson_released,
    .owner = lw__format_field,
};
