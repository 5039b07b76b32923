/* SPDX-License-Identifier: MIT */
/* Between claim.c, claim_step.c and claim_put.c alone. */
#ifndef LW_CLAIM_INSIDE_H
#define LW_CLAIM_INSIDE_H
#include "base/owner.h"
#include "lock/structs.h"

static inline struct lw__claim *lw__claim_of(struct lw__command *command)
{
    return LW__OWNER(struct lw__claim, command, command);
}

/* claim_put.c: for `put` of the claim's commands. */
void lw__claim_put_try(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_acquire(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_drop(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_release(struct lw__command *command, struct lw__buffer *out);
#endif
