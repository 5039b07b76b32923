/* SPDX-License-Identifier: MIT */
/* Between claim.c, claim_step.c, claim_put.c and claim_moving.c alone. */
#ifndef LW_CLAIM_INSIDE_H
#define LW_CLAIM_INSIDE_H
#include "base/container_of.h"
#include "lock/structs.h"

static inline struct lw__claim *lw__claim_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__claim, command, command);
}

/* claim_step.c: how its answers end. */
/* `undone`: the server says that it did nothing, so that the outcome is not open. */
void lw__claim_server_error(struct lw__claim *claim, const char *text, bool undone);
/* The same of an error reply. */
void lw__claim_error_answer(struct lw__claim *claim, const struct lw__reply *reply);
void lw__claim_no_answer(struct lw__command *command, const char *why, bool sent);
/* The lock is ours; but the server lost its counter, and cannot begin another by its
 * clock, of which it told this number. false: 0, a script has a number where one is
 * wanted. */
bool lw__claim_without_number(struct lw__claim *claim, uint64_t number);
/* The number may be 0 where none is wanted. */
void lw__claim_granted(struct lw__claim *claim, uint64_t number, int64_t sent_us);

/* claim_put.c: for `put` of the claim's commands. */
uint32_t lw__claim_ask_lease_ms(struct lw__claim *claim);
void lw__claim_put_try(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_acquire(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_drop(struct lw__command *command, struct lw__buffer *out);
void lw__claim_put_release(struct lw__command *command, struct lw__buffer *out);
#endif
