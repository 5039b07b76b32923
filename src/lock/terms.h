/* SPDX-License-Identifier: MIT */
/* What its handles want of a claim: leases, margins, numbers, deadlines. Pure. */
#ifndef LW_TERMS_H
#define LW_TERMS_H
#include <stdbool.h>
#include <stdint.h>

struct lw__claim;
struct lw_lock;

/* To ask for: the holder's, or of the first who waits; where handles hold together the
 * longest. Of a claim that is nobody's what it was. */
int64_t lw__terms_lease_us(const struct lw__claim *claim);
/* Who holds beside claim->holder, a list by turn_next; or NULL. */
struct lw_lock *lw__terms_others(const struct lw__claim *claim);
/* Who waits wants a number. */
bool lw__terms_wants_fence(const struct lw__claim *claim);
/* Who waits may wait in a queue. */
bool lw__terms_wants_place(const struct lw__claim *claim);
/* Until when the handle may believe that it holds: by D, and by max_hold_ms. */
int64_t lw__terms_deadline_us(const struct lw_lock *lock);
/* How much of it is left now, in ms. */
int64_t lw__terms_left_ms(const struct lw_lock *lock);
/* The rest of the hold, until max_hold_ms ends it, needs no renewal. */
bool lw__terms_is_covered(const struct lw_lock *lock);
int64_t lw__terms_margin_us(const struct lw_lock *lock);
/* What must be left before that, else it is lost, or its grant is of no use. */
int64_t lw__terms_least_us(const struct lw_lock *lock);
#endif
