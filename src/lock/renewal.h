/* SPDX-License-Identifier: MIT */
/* Who is due for renewal when, in batches. */
#ifndef LW_RENEWAL_H
#define LW_RENEWAL_H
#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct lw__batch;
struct lw__claim;
struct lw_client;

struct lw__renewals {
    struct lw__batch *free, *all;
    struct lw__heap due; /* claims, by when */
    struct lw__timer timer;
};

void lw__renewal_init(struct lw_client *client);
void lw__renewal_clear(struct lw_client *client);
/* Looks at the claim anew: when is it due? */
void lw__renewal_plan(struct lw__claim *claim);
void lw__renewal_now(struct lw__claim *claim);
/* Has the hold verified at once because its token was broken. A renewal that is already
 * in flight may have been answered before that, so another one follows its answer. */
void lw__renewal_verify(struct lw__claim *claim);
void lw__renewal_forget(struct lw__claim *claim);
/* An answer to the renewal of a claim that asked for this lease. */
void lw__renewal_answered(struct lw__claim *claim, bool renewed, int64_t sent_us,
                          uint32_t lease_ms);
#endif
